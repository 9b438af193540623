"""The records of a stored batch in bounded memory: of one that is too large only its place and size are kept.

Source: Kafka's "Message Format", record of magic 2; numbers are Protobuf's zigzag varints. What is read of
each record is read of some hundreds of them at once: one by one takes Python four times as long.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.clients.kafka.record_batch import Part, StoredBatch, StoredHeaders

# The bytes of a stored batch's records, decompressed piece by piece: a small batch may hold a gigabyte.
#
# Source: Kafka's client, org.apache.kafka.common.compress; each codec's pieces may follow one another.

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


MOST_HEADERS = 10_000
"""Of a record: each is an object, however small, and a kilobyte of a compressed batch may have millions."""
_AT_ONCE = 4096
_BITS = 63
_ALL_BITS = (1 << 64) - 1
_HOLD_NONE = -1
_FEW = 16  # below it, one by one is faster
_FRONT = 40  # enough of a record for its length, attributes, time and offset


def parts_of(batch: StoredBatch, max_record: int) -> Iterator[Part]:
    """Yields all of the batch's records; each part holds some hundred KiB, or one record. Raises
    Unreadable."""
    with _ends():
        for records in _walk(batch, max_record):
            if isinstance(records, _Skipped):
                yield Part([records.offset], [records.stamp], [None], [None], [None], records.size)
            else:
                yield from _parts(batch, *records)


def stamps_of(batch: StoredBatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields offsets and timestamps of the batch's records, some thousand at once; no record is held, however
    small. Where the header says them all, nothing is decompressed. Raises Unreadable."""
    if batch.stamps_known:
        yield np.arange(batch.start, batch.until), np.full(batch.records, batch.max_stamp)
        return
    with _ends():
        for records in _walk(batch, _HOLD_NONE):
            if isinstance(records, _Skipped):
                yield np.array([records.offset]), np.array([records.stamp])
            elif len(records.starts) < _FEW:
                yield _few(batch, records)
            else:
                offsets, stamps, at = _places(batch, np.frombuffer(records.data, np.uint8), records.starts)
                if (at > records.ends).any():
                    raise IndexError
                yield offsets, stamps


def _few(batch: StoredBatch, records: _Whole) -> tuple[np.ndarray, np.ndarray]:
    offsets, deltas = [], []
    for start, end in zip(records.starts, records.ends, strict=True):
        delta, at = _number(records.data, start + 1)
        offset, at = _number(records.data, at)
        if at > end:
            raise IndexError
        offsets.append(offset)
        deltas.append(delta)
    return np.array(offsets, np.int64) + batch.start, _stamps(batch, np.array(deltas, np.int64))


class _Whole(NamedTuple):
    """Records that `data` holds whole: where each begins, behind its length, and ends."""

    data: bytes
    starts: list[int]
    ends: list[int]


class _Skipped(NamedTuple):
    offset: int
    stamp: int
    size: int


@contextmanager
def _ends() -> Iterator[None]:
    try:
        yield
    except (IndexError, struct.error):
        raise UnreadableBytes("a record ends too early") from None


def _walk(batch: StoredBatch, most: int) -> Iterator[_Whole | _Skipped]:
    """Yields all records in order. Those of more than `most` bytes that no piece holds whole are skipped."""
    source, left = ByteSource(pieces(batch.codec, batch.body or memoryview(b""))), batch.records
    while left > 0:
        starts, ends = _whole_records(source.data, min(left, _AT_ONCE))
        if not starts:
            skipped = _next(batch, source, most)
            if skipped is not None:
                yield skipped
                left -= 1
                continue
            starts, ends = _whole_records(source.data, min(left, _AT_ONCE))
        if not starts:
            raise UnreadableBytes("where a record ends is not clear")
        yield _Whole(source.data, starts, ends)
        source.skip(ends[-1])
        left -= len(starts)


def _next(batch: StoredBatch, source: ByteSource, most: int) -> _Skipped | None:
    """Gathers the whole next record, or skips one that is too large and returns its place and size."""
    source.gather(_FRONT)
    size, at = _number(source.data, 0)
    if size <= most:
        source.gather(at + size)
        if len(source.data) < at + size:
            raise IndexError
        return None
    (offset,), (stamp,), _ = _places(batch, np.frombuffer(source.data, np.uint8), [at])
    source.skip(at + size)
    return _Skipped(int(offset), int(stamp), size)


def _whole_records(data: bytes, most: int) -> tuple[list[int], list[int]]:
    """Returns where the records that `data` holds whole begin, behind their lengths, and where they end."""
    starts: list[int] = []
    ends: list[int] = []
    at, end = 0, len(data)
    while at < end and len(starts) < most:
        if data[at] < 0x80 and not data[at] & 1:
            size, at = data[at] >> 1, at + 1
        else:
            try:
                size, at = _number(data, at)
            except IndexError:  # the piece ends inside the number
                break
        if size < 0:
            raise UnreadableBytes("a record has a negative size")
        if at + size > end:
            break
        starts.append(at)
        at += size
        ends.append(at)
    return starts, ends


def _parts(batch: StoredBatch, data: bytes, starts: list[int], untils: list[int]) -> Iterator[Part]:
    """Yields records that `data` holds; of one with too many headers none is held."""
    text, ends = np.frombuffer(data, np.uint8), np.array(untils)
    offsets, stamps, at = _places(batch, text, starts)
    keys, at = _texts(data, text, at, ends)
    values, at = _texts(data, text, at, ends)
    counts, at = _numbers(text, at)
    headers: list[StoredHeaders | None] = [None] * len(starts)
    crowded = counts > MOST_HEADERS
    for number in np.flatnonzero((counts != 0) & ~crowded).tolist():
        headers[number], at[number] = _headers(data, int(counts[number]), int(at[number]))
    if (at != ends)[~crowded].any():
        raise UnreadableBytes("a record has another size than it says")
    begun = 0
    for number in (*np.flatnonzero(crowded).tolist(), len(starts)):
        some = slice(begun, number)
        if begun < number:
            yield Part(offsets[some].tolist(), stamps[some].tolist(), keys[some], values[some], headers[some])
        if number < len(starts):
            size = untils[number] - starts[number]
            yield Part([int(offsets[number])], [int(stamps[number])], [None], [None], [None], size)
        begun = number + 1


def _places(
    batch: StoredBatch, text: np.ndarray, starts: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, timestamps, and where each record goes on behind them."""
    deltas, at = _numbers(text, np.array(starts) + 1)
    offsets, at = _numbers(text, at)
    return offsets + batch.start, _stamps(batch, deltas), at


def _stamps(batch: StoredBatch, deltas: np.ndarray) -> np.ndarray:
    return np.full(len(deltas), batch.max_stamp) if batch.log_append_time else deltas + batch.stamp


def _texts(
    data: bytes, text: np.ndarray, at: np.ndarray, ends: np.ndarray
) -> tuple[list[bytes | None], np.ndarray]:
    sizes, at = _numbers(text, at)
    after = at + np.maximum(sizes, 0)
    if (after > ends).any():
        raise IndexError
    texts: list[bytes | None] = [data[s:e] for s, e in zip(at.tolist(), after.tolist(), strict=True)]
    for number in np.flatnonzero(sizes < 0):
        texts[number] = None
    return texts, after


def _headers(data: bytes, count: int, at: int) -> tuple[StoredHeaders, int]:
    """Names as Java reads them: U+FFFD for what is not UTF-8."""
    headers: StoredHeaders = []
    for _ in range(count):
        name, at = _text(data, at)
        value, at = _text(data, at)
        headers.append(((name or b"").decode(errors="replace"), value))
    return headers, at


def _text(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _number(data, at)
    if at + size > len(data):
        raise IndexError
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at `at`, of 64 bits as Java reads it, and where the next begins. Raises IndexError
    at the data's end."""
    number, shift = data[at] & 0x7F, 0
    while data[at] >= 0x80:
        at, shift = at + 1, shift + 7
        if shift > _BITS:
            raise UnreadableBytes("a number has too many bytes")
        number |= (data[at] & 0x7F) << shift & _ALL_BITS
    return (number >> 1) ^ -(number & 1), at + 1


def _numbers(text: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Does as `_number` at many places at once."""
    bytes_ = text[at]
    numbers, at, shift = (bytes_ & 0x7F).astype(np.uint64), at + 1, 7
    longer = np.flatnonzero(bytes_ & 0x80)
    while len(longer):
        if shift > _BITS:
            raise UnreadableBytes("a number has too many bytes")
        bytes_ = text[at[longer]]
        numbers[longer] |= (bytes_ & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[longer] += 1
        longer, shift = longer[bytes_ >= 0x80], shift + 7
    signs = -(numbers & np.uint64(1)).view(np.int64)
    return (numbers >> np.uint64(1)).view(np.int64) ^ signs, at
