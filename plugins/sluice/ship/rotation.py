"""Finds the file that a place in a log is in, after the log was rotated: renamed, copied or compressed."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, cast

import zstandard

from sluice.errors import WrongUse
from sluice.ship.lines import MARK_BYTES, READ_BYTES, FilePosition, LogChunk, refuse_long

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


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


# The bytes of a file, decompressed by its name's ending.
_COMPRESSED = {".gz", ".zst"}


@contextmanager
def opened(path: Path, name: str) -> Iterator[BufferedIOBase]:
    """Yields the file at `path`; `name` is what its user calls it, and has the ending.

    Raises WrongUse when there is no such file, or it is damaged.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise WrongUse(f"{name}: {error.strerror}") from error
    with file, decompressed(file, name) as stream:
        yield stream


@contextmanager
def decompressed(file: BufferedIOBase, name: str) -> Iterator[BufferedIOBase]:
    """Raises WrongUse when the file is damaged."""
    try:
        yield _reader(file, Path(name).suffix)
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise WrongUse(f"{name} is damaged ({error}): what came before it was published") from error


def standard_input() -> BufferedIOBase:
    return cast(BufferedIOBase, sys.stdin.buffer)  # typing says BinaryIO, which has no read1


def compressed(name: str) -> bool:
    return Path(name).suffix in _COMPRESSED


def _reader(file: BufferedIOBase, suffix: str) -> BufferedIOBase:
    if suffix == ".gz":
        return gzip.open(file)
    if suffix == ".zst":
        return io.BufferedReader(ZstdFile(file), READ_BYTES)
    return file


_BLOCK_BYTES = 16 << 10


class ZstdFile(io.RawIOBase):
    """The content of all frames. `readinto` raises EOFError when the last one has no end."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._fed = b""  # compressed, of a frame that has not begun
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        while not self._ready and (block := self._fed or self._file.read(_BLOCK_BYTES)):
            self._feed(block)
        if not self._ready and self._frame is not None:
            raise EOFError("its last frame is cut off")
        size = min(len(view), len(self._ready))
        view[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _feed(self, block: bytes) -> None:
        frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(frame.decompress(block))
        self._fed = frame.unused_data if frame.eof else b""
        self._frame = None if frame.eof else frame
