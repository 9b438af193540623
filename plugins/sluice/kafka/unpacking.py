"""The records of a stored batch in bounded memory: of one that is too large only its place and size are kept.

Source: Kafka's "Message Format", record of magic 2; numbers are Protobuf's zigzag varints. What is read of
each record is read of some hundreds of them at once: one by one takes Python four times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sluice.kafka.stored import Stored
from sluice.kafka.unpacked import Unreadable, pieces

Headers = list[tuple[str, bytes | None]]

_AT_ONCE = 4096
_BITS = 63
_FRONT = 40  # enough of a record for its length, attributes, time and offset


@dataclass(frozen=True)
class Part:
    """Some records of a batch, in their order. `headers` is None where a record has none. `too_large`: the
    size of the one record that there is then, and of which nothing else is held."""

    offsets: list[int]
    timestamps: list[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None]
    too_large: int | None = None


def parts_of(batch: Stored, max_record: int) -> Iterator[Part]:
    """All of the batch's records; each part holds some hundred KiB, or one record. Raises Unreadable."""
    if batch.body is None:
        raise Unreadable("its format is that of before Kafka 0.11")
    source, left = _Source(pieces(batch.codec, batch.body)), batch.count
    try:
        while left > 0:
            starts, ends = _whole_records(source.data, min(left, _AT_ONCE))
            if starts:
                yield _part(batch, source.data, np.array(starts), np.array(ends))
                source.skip(ends[-1])
            else:
                large = _next(batch, source, max_record)
                if large is None:
                    continue
                yield large
            left -= max(len(starts), 1)
    except IndexError:
        raise Unreadable("a record ends too early") from None


def _next(batch: Stored, source: _Source, max_record: int) -> Part | None:
    """Gathers the whole of the next record, or skips one that is too large and tells its place."""
    source.gather(_FRONT)
    size, at = _number(source.data, 0)
    if size <= max_record:
        source.gather(at + size)
        if len(source.data) < at + size:
            raise IndexError
        return None
    delta, after = _number(source.data, at + 1)
    offset = batch.start + _number(source.data, after)[0]
    source.skip(at + size)
    stamp = batch.max_stamp if batch.log_append_time else batch.stamp + delta
    return Part([offset], [stamp], [None], [None], [None], size)


def _whole_records(data: bytes, most: int) -> tuple[list[int], list[int]]:
    """Where the records that are there as a whole begin, behind their lengths, and end."""
    starts: list[int] = []
    ends: list[int] = []
    at, end = 0, len(data)
    while at < end and len(starts) < most:
        if data[at] < 0x80 and not data[at] & 1:
            size, at = data[at] >> 1, at + 1
        elif data[at] >= 0x80 and at + 10 > end:
            break
        else:
            size, at = _number(data, at)
        if size < 0:
            raise Unreadable("a record has a negative size")
        if at + size > end:
            break
        starts.append(at)
        at += size
        ends.append(at)
    return starts, ends


def _part(batch: Stored, data: bytes, starts: np.ndarray, ends: np.ndarray) -> Part:
    text = np.frombuffer(data, np.uint8)
    stamps, at = _numbers(text, starts + 1)
    offsets, at = _numbers(text, at)
    keys, at = _texts(data, text, at, ends)
    values, at = _texts(data, text, at, ends)
    counts, at = _numbers(text, at)
    headers: list[Headers | None] = [None] * len(starts)
    for number in np.flatnonzero(counts):
        headers[number], at[number] = _headers(data, int(counts[number]), int(at[number]))
    if (at != ends).any():
        raise Unreadable("a record has another size than it says")
    known = np.full(len(starts), batch.max_stamp) if batch.log_append_time else stamps + batch.stamp
    return Part((offsets + batch.start).tolist(), known.tolist(), keys, values, headers)


def _texts(
    data: bytes, text: np.ndarray, at: np.ndarray, ends: np.ndarray
) -> tuple[list[bytes | None], np.ndarray]:
    sizes, at = _numbers(text, at)
    after = at + np.maximum(sizes, 0)
    if (after > ends).any():
        raise IndexError
    found: list[bytes | None] = [data[s:e] for s, e in zip(at.tolist(), after.tolist(), strict=True)]
    for number in np.flatnonzero(sizes < 0):
        found[number] = None
    return found, after


def _headers(data: bytes, count: int, at: int) -> tuple[Headers, int]:
    """Names as Java reads them: U+FFFD for what is not UTF-8."""
    found: Headers = []
    for _ in range(count):
        name, at = _text(data, at)
        value, at = _text(data, at)
        found.append(((name or b"").decode(errors="replace"), value))
    return found, at


def _text(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _number(data, at)
    if at + size > len(data):
        raise IndexError
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where the next begins. Raises IndexError at the data's end."""
    number, shift = data[at] & 0x7F, 0
    while data[at] >= 0x80:
        at, shift = at + 1, shift + 7
        if shift > _BITS:
            raise Unreadable("a number has too many bytes")
        number |= (data[at] & 0x7F) << shift
    return (number >> 1) ^ -(number & 1), at + 1


def _numbers(text: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_number` at many places."""
    bytes_ = text[at]
    numbers, at, shift = (bytes_ & 0x7F).astype(np.uint64), at + 1, 7
    longer = np.flatnonzero(bytes_ & 0x80)
    while len(longer):
        if shift > _BITS:
            raise Unreadable("a number has too many bytes")
        bytes_ = text[at[longer]]
        numbers[longer] |= (bytes_ & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[longer] += 1
        longer, shift = longer[bytes_ >= 0x80], shift + 7
    signs = -(numbers & np.uint64(1)).view(np.int64)
    return (numbers >> np.uint64(1)).view(np.int64) ^ signs, at


class _Source:
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
