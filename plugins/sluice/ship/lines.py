"""Newline-delimited events out of a stream, numbered as an editor numbers them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from io import BufferedIOBase
from typing import Annotated, Any

import msgspec

from sluice.clients.kafka.producer import MAX_EVENT_BYTES
from sluice.errors import WrongUse

READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Chunk:
    """Events, and the number of each one's line, from 1. Empty lines are counted, and are no events.

    `last` is the number of the last line read.
    """

    events: Sequence[bytes]
    numbers: Sequence[int]
    last: int

    @classmethod
    def of(cls, lines: Sequence[bytes], before: int) -> Chunk:
        """`lines` without their ends; `before` lines of the source went before them. The mark that some
        editors put in front of UTF-8 is no part of the first one (RFC 8259, section 8.1)."""
        if not before and lines and lines[0].startswith(BOM_UTF8):
            lines = [lines[0].removeprefix(BOM_UTF8), *lines[1:]]
        last = before + len(lines)
        numbers: Sequence[int] = range(before + 1, last + 1)
        if not all(map(bytes.strip, lines)):
            numbers = [number for number, line in zip(numbers, lines, strict=True) if line.strip()]
            lines = [line for line in lines if line.strip()]
        return cls(lines, numbers, last)

    def after(self, line: int) -> Chunk:
        """Without the events up to that line."""
        first = bisect_right(self.numbers, line)
        return Chunk(self.events[first:], self.numbers[first:], self.last) if first else self

    def until(self, line: int) -> Chunk:
        """Only the events up to that line."""
        first = bisect_right(self.numbers, line)
        return Chunk(self.events[:first], self.numbers[:first], min(self.last, line))


def chunks(stream: BufferedIOBase, source: str) -> Iterator[Chunk]:
    """Yields what has arrived, as it arrives: a slow source is not waited for to fill a chunk.

    The end of the source ends its last line. Raises WrongUse for a line that is too long to be a record.
    """
    begun: list[bytes] = []  # pieces of a line whose end has not arrived
    size = before = 0
    while block := stream.read1(READ_BYTES):
        first, *following = block.split(b"\n")
        begun.append(first)
        size += len(first)
        refuse_long(size, source, before + 1)
        if following:
            lines, unfinished = [b"".join(begun), *following[:-1]], following[-1]
            begun, size = [unfinished], len(unfinished)
            yield Chunk.of(lines, before)
            before += len(lines)
    if line := b"".join(begun):
        yield Chunk.of([line], before)


def refuse_long(size: int, source: str, number: int) -> None:
    """Raises WrongUse for a line of `size` bytes that is no record."""
    if size > MAX_EVENT_BYTES:
        raise WrongUse(f"{source}, line {number}: an event may have at most {MAX_EVENT_BYTES >> 20} MiB")


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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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
