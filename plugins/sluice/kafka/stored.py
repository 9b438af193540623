"""Batches as the broker stores them: what their headers say, before anything in them is decompressed.

Source: Kafka's "Message Format", record batch of magic 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">qi")
_MAGIC_AT = 16
_CHECKED_FROM = 21
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CONTROL_TYPE = struct.Struct(">hh")
ABORT = 0


class Stored(NamedTuple):
    """The offsets `[start, until)` of one batch, which holds `count` records; `body` is as it is stored.

    `stamp` is the base of the records' times in ms; they are all `max_stamp` where the broker stamps
    (`log_append_time`). `body` is None for a batch of a format before transactions (magic 0 and 1).
    One whose checksum is another's is not `sound`: nothing that it says is true.
    """

    start: int
    until: int
    count: int
    attributes: int = 0
    stamp: int = 0
    max_stamp: int = 0
    producer: int = -1
    body: memoryview | None = None
    sound: bool = True

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def whole(self) -> bool:
        """Whether each of its offsets has its record: compaction has taken none."""
        return self.count == self.until - self.start

    @property
    def told(self) -> bool:
        """Whether `max_stamp` is the time of all its records, one at each of its offsets. Of negative
        times the header says nothing."""
        return self.whole and (self.log_append_time or (self.count == 1 and self.max_stamp >= 0))


def stored_batches(data: bytes | memoryview) -> Iterator[Stored]:
    """The batches of a fetch's answer. A broker cuts the answer at a number of bytes: a last batch that is
    not there as a whole is left out."""
    view, at = memoryview(data), 0
    while at + _LENGTH.size <= len(view):
        start, length = _LENGTH.unpack_from(view, at)
        end = at + _LENGTH.size + length
        if end > len(view) or length <= _MAGIC_AT - _LENGTH.size:
            return
        if view[at + _MAGIC_AT] < 2:
            yield Stored(start, start + 1, 1)
        else:
            yield _batch(view[at:end])
        at = end


def ends_abortion(batch: Stored) -> bool:
    """Whether a control batch is the marker that ends an aborted transaction.

    Its one record's key, behind the record's five short numbers and its own length, has version and type.
    """
    body = bytes(batch.body or b"")
    at = 0
    for _ in range(5):  # length, attributes, time, offset, length of the key: numbers of one or more bytes
        while body[at] & 0x80:
            at += 1
        at += 1
    return _CONTROL_TYPE.unpack_from(body, at)[1] == ABORT


def _batch(view: memoryview) -> Stored:
    if len(view) < _HEADER.size:
        (start,) = struct.unpack_from(">q", view)
        return Stored(start, start + 1, 1, sound=False)
    start, _, _, _, checksum, attributes, last, stamp, latest, producer, _, _, count = _HEADER.unpack_from(
        view
    )
    sound = crc32c(view[_CHECKED_FROM:]) == checksum
    body = view[_HEADER.size :]
    return Stored(start, start + last + 1, count, attributes, stamp, latest, producer, body, sound)
