"""Newline-delimited events out of files, S3 objects and streams, numbered as an editor numbers them."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, cast

import zstandard

from sluice.clients.kafka.producer import MAX_EVENT_BYTES
from sluice.errors import WrongUse

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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


_COMPRESSED_BYTES = 16 << 10  # read at once


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
        while not self._ready and (block := self._fed or self._file.read(_COMPRESSED_BYTES)):
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
