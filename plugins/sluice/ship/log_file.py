"""A log: a place in it, its open file, and the files that it became when it was rotated."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from sluice.clients.kafka.producer import MAX_EVENT_BYTES
from sluice.errors import WrongUse
from sluice.ship.lines import READ_BYTES, Chunk, compressed, decompressed, refuse_long

if TYPE_CHECKING:
    pass


# A place in a log file, and how the same place is found again after the file was renamed or copied.
MARK_BYTES = 256


_Marked = Annotated[int, msgspec.Meta(ge=0, le=MARK_BYTES)]


_InFile = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]  # as the system counts bytes


@dataclass(frozen=True)
class Mark:
    """The digest of the `size` bytes before a place, or behind it at the start of a file: a file with other
    bytes there is another file."""

    size: _Marked = 0
    sha256: str = ""

    @classmethod
    def of(cls, tail: bytes) -> Mark:
        return cls(len(tail), hashlib.sha256(tail).hexdigest())

    def fits(self, content: bytes) -> bool:
        return len(content) == self.size and (not self.size or Mark.of(content) == self)


@dataclass(frozen=True)
class FilePosition:
    """`offset` bytes and `line` lines of one file are shipped, as batch `batch`; both begin at 0.

    `at` is the record time (ms) of the last of them that had one, here or in the files before: a line without
    a time has it. `device` and `inode` are the file's, which a rename leaves alone. `done_ns`: all of the
    file is shipped, and the log goes on in what was changed after that time.
    """

    device: int
    inode: int
    batch: str
    offset: _InFile = 0
    line: _InFile = 0
    mark: Mark = Mark()
    at: int | None = None
    done_ns: int | None = None

    @property
    def known(self) -> bool:
        return bool(self.mark.size)

    @property
    def marked_from(self) -> int:
        """Where the mark's bytes begin."""
        return max(self.offset - self.mark.size, 0)

    def known_by(self, head: bytes) -> FilePosition:
        """Returns the same start of a file, known by what the file begins with."""
        return replace(self, mark=Mark.of(head[:MARK_BYTES]))


@dataclass(frozen=True)
class LogChunk:
    """Lines of a log, the place behind them, and the last bytes before that."""

    chunk: Chunk
    place: FilePosition
    tail: bytes

    @classmethod
    def of(cls, read: bytes, place: FilePosition, tail: bytes) -> LogChunk:
        """Returns the lines in `read`, which begins at `place`, behind `tail`; only the last may lack its
        end."""
        chunk = Chunk.of(read.removesuffix(b"\n").split(b"\n"), place.line)
        tail = (tail + read[-MARK_BYTES:])[-MARK_BYTES:]
        behind = replace(place, offset=place.offset + len(read), line=chunk.last, mark=Mark.of(tail))
        return cls(chunk, behind, tail)


# One open log file: reads whole lines from a place on. A line without an end waits for it.
def is_other_than_file(name: str) -> bool:
    """Returns whether a folder, a pipe or a device is there; a file may come later."""
    return os.path.exists(name) and not os.path.isfile(name)


def no_log(name: str) -> WrongUse:
    return WrongUse(f"--follow is for a log file that grows, not for {name}")


class LogFile:
    """`place` is where reading goes on; it is the caller's to save."""

    def __init__(self, name: str, descriptor: int, place: FilePosition) -> None:
        self.name = name
        self.place = place
        self._descriptor = descriptor
        self._seen = place.offset
        self._grew = time.monotonic()
        self._tail = self._marked(place) if place.offset else b""

    @classmethod
    def open(cls, path: Path, new: Callable[[tuple[int, int]], FilePosition]) -> LogFile | None:
        """Returns the file at `path` from its start, or None when there is none. Raises WrongUse where it may
        not be read, or is no file."""
        try:
            # A pipe without a writer would keep it waiting.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise WrongUse(f"{path}: {error.strerror}") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise no_log(str(path))
        return cls(str(path), descriptor, new((status.st_dev, status.st_ino)))

    def at(self, place: FilePosition) -> LogFile:
        """Returns the same open file from another place on."""
        return LogFile(self.name, self._descriptor, place)

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def file(self) -> tuple[int, int]:
        return self.place.device, self.place.inode

    def inspect(self) -> TailedFile:
        status, place = os.fstat(self._descriptor), self.place
        still = time.monotonic() - self._grew
        fits = self.fits(place)
        return TailedFile(
            (status.st_dev, status.st_ino), status.st_size, self._seen, place.offset, fits, still
        )

    @property
    def changed_ns(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns

    def recognise(self) -> FilePosition:
        """Marks the start of the file by its first bytes. The mark has to be saved before anything is sent:
        without it a copy of the file could not be found."""
        self.place = self.place.known_by(os.pread(self._descriptor, MARK_BYTES, 0))
        return self.place

    def read(self) -> LogChunk | None:
        """Returns the next whole lines, or None when there is none, or the file was truncated since the last
        inspection.
        Raises WrongUse for a line that is too long."""
        block = self._next(READ_BYTES)
        if block is not None and b"\n" not in block and len(block) == READ_BYTES:
            block = self._next(MAX_EVENT_BYTES + 2)
        if block is None:
            return None
        end = block.rfind(b"\n") + 1
        self._note(self.place.offset + len(block))
        if not end:
            refuse_long(len(block), self.name, self.place.line + 1)
            return None
        return self._take(block[:end])

    def rest(self) -> LogChunk | None:
        """Returns the last line, which will get no end: its file has been left."""
        block = self._next(MAX_EVENT_BYTES + 1)
        return self._take(block) if block else None

    def fits(self, place: FilePosition) -> bool:
        """Returns whether the bytes before the place are, in this file, those that were shipped."""
        return place.mark.fits(self._marked(place))

    def _next(self, size: int) -> bytes | None:
        """Returns what lies behind the place; None when what lies before it, read at once with it, is not
        what was shipped: a file that was truncated and has grown again has other lines there."""
        place = self.place
        before = place.offset - place.marked_from
        block = os.pread(self._descriptor, before + size, place.marked_from)
        return block[before:] if place.mark.fits(block[: place.mark.size]) else None

    def _take(self, read: bytes) -> LogChunk:
        piece = LogChunk.of(read, self.place, self._tail)
        self.place, self._tail = piece.place, piece.tail
        return piece

    def _note(self, seen: int) -> None:
        if seen != self._seen:
            self._seen, self._grew = seen, time.monotonic()

    def _marked(self, place: FilePosition) -> bytes:
        return os.pread(self._descriptor, place.mark.size, place.marked_from)


# What to do next with a log that is followed: pure, as `tail -F` decides.
class TailStep(StrEnum):
    READ = "read on"
    WAIT = "wait"
    LEAVE = "leave the file that was renamed for the new one"
    BEGIN_AGAIN = "begin again: the file was truncated"


@dataclass(frozen=True)
class TailedFile:
    """The open file. `seen` bytes of it have been read (up to `offset` they are shipped).

    `fits`: the bytes before `offset` are those that were shipped. `still` is how long, in seconds, it has
    not grown.
    """

    file: tuple[int, int]
    size: int
    seen: int
    offset: int
    fits: bool
    still: float


def decide(ours: TailedFile, current: tuple[int, int] | None, patience: float) -> TailStep:
    """`current` is the file (device and inode) that has the name now; None when none has.

    A writer goes on for a while with a file that was renamed, until it opens the new one: so it is left only
    after it has been still for `patience` seconds.
    """
    if ours.size < ours.offset or not ours.fits:
        return TailStep.BEGIN_AGAIN
    if ours.size != ours.seen:
        return TailStep.READ
    if current is None or current == ours.file or ours.still < patience:
        return TailStep.WAIT
    return TailStep.LEAVE


# The files that a log became, renamed, copied or compressed, and which of them has a place.
_SKIP_BYTES = 1 << 20
_NUMBERED = r"[.-]\d[\dTZ:_.-]*"
_PACKED = r"(\.gz|\.zst)?"


class Moved(Exception):
    """A file was renamed since it was listed."""


@dataclass(frozen=True)
class Rotated:
    """A file that was the log once, or is a copy of it."""

    path: Path
    file: tuple[int, int]
    changed_ns: int

    @property
    def uncompressed(self) -> str:
        """Its name before it was compressed: both are there while that is done."""
        return self.path.stem if compressed(self.path.name) else self.path.name


def rotated(log: Path) -> list[Rotated]:
    """`app.log.1`, `app.log-20261120.gz`, `app-20261120.log` …, the newest first, without the log itself.

    Lists until two listings agree: while numbers are shifted, one listing may miss a file that is there.
    Raises WrongUse where the folder may not be read; one that is not there has none.
    """
    listing = _list(log)
    while (again := _list(log)) != listing:
        listing = again
    return listing


def _list(log: Path) -> list[Rotated]:
    name, stem, ending = re.escape(log.name), re.escape(log.stem), re.escape(log.suffix)
    named = re.compile(f"({name}{_NUMBERED}|{stem}{_NUMBERED}{ending}){_PACKED}")
    files = []
    for path in _paths(log.parent):
        if path == log or not named.fullmatch(path.name):
            continue
        with suppress(FileNotFoundError):  # it has just got another name
            status = path.stat()
            files.append(Rotated(path, (status.st_dev, status.st_ino), status.st_mtime_ns))
    return sorted(files, key=lambda file: file.changed_ns, reverse=True)


def _paths(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise WrongUse(f"{folder}: {error.strerror}") from error


def find(place: FilePosition, among: Sequence[Rotated]) -> Rotated | None:
    """Returns the file that has the place: the same file under another name, or else a copy of it. Raises
    Moved."""
    same = [candidate for candidate in among if candidate.file == (place.device, place.inode)]
    others = [candidate for candidate in among if candidate not in same and place.known]
    return next((candidate for candidate in (*same, *others) if _fits(place, candidate)), None)


def newest(among: Sequence[Rotated]) -> int:
    """Returns when the last of them was changed, in ns; 0 when there is none."""
    return max((file.changed_ns for file in among), default=0)


def newer(among: Sequence[Rotated], than_ns: int, place: FilePosition) -> list[Rotated]:
    """Returns what was rotated after the place's own file, oldest first. Of a file and its compressed form,
    one.

    A copy of the place's own file is not newer, whatever its time says. The same file with other bytes is: it
    was copied and truncated, and went on. Raises Moved.
    """
    same = [candidate for candidate in among if candidate.file == (place.device, place.inode)]
    own_names = {candidate.uncompressed for candidate in same if _fits(place, candidate)}
    newer_by_name: dict[str, Rotated] = {}
    for candidate in sorted(among, key=lambda candidate: compressed(candidate.path.name)):
        is_other = candidate.uncompressed not in own_names and not (place.known and _fits(place, candidate))
        if candidate.changed_ns > than_ns and is_other:
            newer_by_name.setdefault(candidate.uncompressed, candidate)
    return sorted(newer_by_name.values(), key=lambda candidate: candidate.changed_ns)


def _fits(place: FilePosition, rotated_file: Rotated) -> bool:
    """Returns whether the bytes before the place are, in this file, those that were shipped. Raises Moved."""
    try:
        with _opened(rotated_file) as stream:
            _skip(stream, place.marked_from)
            return place.mark.fits(stream.read(place.mark.size))
    except WrongUse:  # it is damaged or still being compressed: another file
        return False


def rest_of(rotated_file: Rotated, place: FilePosition) -> Iterator[LogChunk]:
    """Yields what the file has after the place, its last line also where that has no end. Raises Moved."""
    with _opened(rotated_file) as stream:
        tail = pending = b""
        if place.offset:
            _skip(stream, place.marked_from)
            tail = stream.read(place.mark.size)
        while block := stream.read1(READ_BYTES):
            pending += block
            if end := pending.rfind(b"\n") + 1:
                piece = LogChunk.of(pending[:end], place, tail)
                yield piece
                place, tail, pending = piece.place, piece.tail, pending[end:]
            refuse_long(len(pending), str(rotated_file.path), place.line + 1)
        if pending:
            yield LogChunk.of(pending, place, tail)


def recognised(rotated_file: Rotated, place: FilePosition) -> FilePosition:
    """Returns the start of the file, known by what it begins with. Raises Moved."""
    with _opened(rotated_file) as stream:
        return place.known_by(stream.read(MARK_BYTES))


@contextmanager
def _opened(rotated_file: Rotated) -> Iterator[BufferedIOBase]:
    """Raises Moved when another file has the name by now; once it is open, that does not matter."""
    try:
        descriptor = os.open(rotated_file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise Moved from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != rotated_file.file:
            raise Moved
        with decompressed(file, rotated_file.path.name) as stream:
            yield stream


def _skip(stream: BufferedIOBase, remaining: int) -> None:
    while remaining > 0 and (block := stream.read(min(remaining, _SKIP_BYTES))):
        remaining -= len(block)
