"""The bytes of a stored batch's records, decompressed piece by piece: a small batch may hold a gigabyte.

Source: Kafka's client, org.apache.kafka.common.compress; each codec's pieces may follow one another.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Literal

import pyarrow as pa

PIECE = 256 << 10
_GIVEN = 8 << 10
_GZIP = 16 + zlib.MAX_WBITS
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_SNAPPY = pa.Codec("snappy")
# The format's densest element copies 64 bytes and takes three.
_SNAPPY_RATIO = 22


class UnreadableBytes(Exception):
    """Bytes that are not what the batch's header says; the text says why."""


def pieces(codec: int, body: memoryview) -> Iterator[bytes]:
    """Yields the decompressed bytes, some 256 KiB at once; of snappy one block. Raises Unreadable."""
    try:
        unpack = _CODECS[codec]
    except KeyError:
        raise UnreadableBytes(f"unknown compression {codec}") from None
    try:
        yield from unpack(body)
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise UnreadableBytes(" ".join(str(error).split())) from error


def _bare(body: memoryview) -> Iterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield bytes(body[start : start + PIECE])


def _gzip(body: memoryview) -> Iterator[bytes]:
    """After each piece and each member the library copies what it was given and has not used: it is given
    little at a time."""
    at = 0
    while at < len(body):
        unpacking, given = zlib.decompressobj(_GZIP), b""
        while not unpacking.eof:
            if not given:
                given = bytes(body[at : at + _GIVEN])
                at += len(given)
            piece = unpacking.decompress(given, PIECE)
            given = unpacking.unconsumed_tail
            if piece:
                yield piece
            elif not given and at == len(body) and not unpacking.eof:
                raise UnreadableBytes("gzip ends too early")
        at -= len(unpacking.unused_data)


def _streamed(name: Literal["lz4", "zstd"]) -> Callable[[memoryview], Iterator[bytes]]:
    def unpack(body: memoryview) -> Iterator[bytes]:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), name) as stream:
            while piece := stream.read(PIECE):
                yield piece

    return unpack


def _snappy(body: memoryview) -> Iterator[bytes]:
    """Blocks with their lengths, as Java writes them, or one block, as librdkafka does."""
    if bytes(body[: len(_XERIAL)]) != _XERIAL:
        yield _block(body)
        return
    at = _XERIAL_HEADER
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        if not 0 < size <= len(body) - at - 4:
            raise UnreadableBytes("snappy block beyond the batch")
        yield _block(body[at + 4 : at + 4 + size])
        at += 4 + size


def _block(body: memoryview) -> bytes:
    size, at = 0, 0
    while at < min(5, len(body)):
        size |= (body[at] & 0x7F) << (7 * at)
        at += 1
        if body[at - 1] < 0x80:
            break
    if not at or body[at - 1] >= 0x80 or size > _SNAPPY_RATIO * len(body):
        raise UnreadableBytes("snappy block of an impossible size")
    return _SNAPPY.decompress(pa.py_buffer(body), size, asbytes=True)


_CODECS: dict[int, Callable[[memoryview], Iterator[bytes]]] = {
    0: _bare,
    1: _gzip,
    2: _snappy,
    3: _streamed("lz4"),
    4: _streamed("zstd"),
}


class ByteSource:
    """Bytes that come in pieces; `data` are those that are held, and not yet skipped."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._pieces = source
        self.data = b""

    def gather(self, size: int) -> None:
        """Holds `size` bytes; fewer only where there are no more."""
        parts, held = [self.data], len(self.data)
        while held < size and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            held += len(piece)
        self.data = b"".join(parts)

    def skip(self, size: int) -> None:
        while size > len(self.data):
            size -= len(self.data)
            self.data = next(self._pieces, b"")
            if not self.data:
                raise IndexError
        self.data = self.data[size:]
