"""Finds the file that a place in a log is in, after the log was rotated: renamed, copied or compressed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from sluice.errors import WrongUse
from sluice.ship.lines import READ_BYTES, refuse_long
from sluice.ship.positions import MARK_BYTES, FilePosition, LogChunk
from sluice.ship.sources import compressed, decompressed

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
    """
    found = _list(log)
    while (again := _list(log)) != found:
        found = again
    return found


def _list(log: Path) -> list[Rotated]:
    own, stem, ending = re.escape(log.name), re.escape(log.stem), re.escape(log.suffix)
    named = re.compile(f"({own}{_NUMBERED}|{stem}{_NUMBERED}{ending}){_PACKED}")
    found = []
    for path in log.parent.iterdir():
        if path == log or not named.fullmatch(path.name):
            continue
        with suppress(FileNotFoundError):  # it has just got another name
            about = path.stat()
            found.append(Rotated(path, (about.st_dev, about.st_ino), about.st_mtime_ns))
    return sorted(found, key=lambda one: one.changed_ns, reverse=True)


def find(place: FilePosition, among: Sequence[Rotated]) -> Rotated | None:
    """Returns the file that has the place: the same file under another name, or else a copy of it. Raises
    Moved."""
    same = [one for one in among if one.file == (place.device, place.inode)]
    others = [one for one in among if one not in same and place.known]
    return next((one for one in (*same, *others) if _fits(place, one)), None)


def newest(among: Sequence[Rotated]) -> int:
    """When the last of them was changed, in ns; 0 when there is none."""
    return max((one.changed_ns for one in among), default=0)


def newer(among: Sequence[Rotated], than_ns: int, place: FilePosition) -> list[Rotated]:
    """Returns what was rotated after the place's own file, oldest first. Of a file and its compressed form,
    one.

    A copy of the place's own file is not newer, whatever its time says. The same file with other bytes is: it
    was copied and truncated, and went on. Raises Moved.
    """
    same = [one for one in among if one.file == (place.device, place.inode)]
    own = {one.uncompressed for one in same if _fits(place, one)}
    found: dict[str, Rotated] = {}
    for one in sorted(among, key=lambda one: compressed(one.path.name)):
        other = one.uncompressed not in own and not (place.known and _fits(place, one))
        if one.changed_ns > than_ns and other:
            found.setdefault(one.uncompressed, one)
    return sorted(found.values(), key=lambda one: one.changed_ns)


def _fits(place: FilePosition, one: Rotated) -> bool:
    """Returns whether the bytes before the place are, in this file, those that were shipped. Raises Moved."""
    try:
        with _opened(one) as stream:
            _skip(stream, place.marked_from)
            return place.mark.fits(stream.read(place.mark.size))
    except WrongUse:  # it is damaged or still being compressed: not the one
        return False


def rest_of(one: Rotated, place: FilePosition) -> Iterator[LogChunk]:
    """Yields what the file has after the place, its last line also where that has no end. Raises Moved."""
    with _opened(one) as stream:
        tail = left = b""
        if place.offset:
            _skip(stream, place.marked_from)
            tail = stream.read(place.mark.size)
        while block := stream.read1(READ_BYTES):
            left += block
            if end := left.rfind(b"\n") + 1:
                piece = LogChunk.of(left[:end], place, tail)
                yield piece
                place, tail, left = piece.place, piece.tail, left[end:]
            refuse_long(len(left), str(one.path), place.line + 1)
        if left:
            yield LogChunk.of(left, place, tail)


def recognised(one: Rotated, place: FilePosition) -> FilePosition:
    """Returns the start of the file, known by what it begins with. Raises Moved."""
    with _opened(one) as stream:
        return place.known_by(stream.read(MARK_BYTES))


@contextmanager
def _opened(one: Rotated) -> Iterator[BufferedIOBase]:
    """Raises Moved when another file has the name by now; once it is open, that does not matter."""
    try:
        descriptor = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Moved from None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if (about.st_dev, about.st_ino) != one.file:
            raise Moved
        with decompressed(file, one.path.name) as stream:
            yield stream


def _skip(stream: BufferedIOBase, left: int) -> None:
    while left > 0 and (block := stream.read(min(left, _SKIP_BYTES))):
        left -= len(block)
