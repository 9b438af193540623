"""One open log file: reads whole lines from a place on. A line without an end waits for it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sluice.clients.kafka.producer import MAX_EVENT_BYTES
from sluice.errors import WrongUse
from sluice.ship.lines import MARK_BYTES, READ_BYTES, FilePosition, LogChunk, refuse_long


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
