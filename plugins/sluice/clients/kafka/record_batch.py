"""Batches as the broker stores them: what their headers say, before anything in them is decompressed.

Source: Kafka's "Message Format", record batch of magic 2. Messages of magic 0 and 1, which Kafka
wrote before 0.11, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">qi")
_MAGIC_AT = 16
_CHECKED_FROM = 21
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CONTROL_TYPE = struct.Struct(">hh")
ABORT = 0


class StoredBatch(NamedTuple):
    """The offsets `[start, until)` of one batch, which holds `records` of them; `body` is as it is stored.

    `stamp` is the base of the records' times in ms; they are all `max_stamp` where the broker stamps
    (`log_append_time`). One whose checksum is another's is not `sound`: nothing that it says is true. Of an
    `old` one, of magic 0 or 1, nothing but an offset is known.
    """

    start: int
    until: int
    records: int
    attributes: int = 0
    stamp: int = 0
    max_stamp: int = 0
    producer: int = -1
    body: memoryview | None = None
    sound: bool = True
    old: bool = False

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
        return self.records == self.until - self.start

    @property
    def stamps_known(self) -> bool:
        """Whether the header gives the time of all its records, one at each of its offsets: `max_stamp`.
        Of negative times the header says nothing."""
        return self.whole and (self.log_append_time or (self.records == 1 and self.max_stamp >= 0))

    @property
    def damage(self) -> str:
        """Why it cannot be used; empty where it can. Compaction leaves batches without their marker."""
        if self.old:
            return "Kafka wrote it before 0.11: copy the topic with one of Kafka's own clients"
        if not self.sound:
            return "its checksum is not that of its bytes"
        if self.control and self.records and _marker_type(self) is None:
            return "its marker ends too early"
        return ""


def stored_batches(data: bytes | memoryview) -> Iterator[StoredBatch]:
    """Yields the batches of a fetch's answer. A broker cuts the answer at a number of bytes: a last batch
    that is not there as a whole is left out."""
    view, at = memoryview(data), 0
    while at + _LENGTH.size <= len(view):
        length = _LENGTH.unpack_from(view, at)[1]
        end = at + _LENGTH.size + length
        if end > len(view) or length <= _MAGIC_AT - _LENGTH.size:
            return
        yield _batch(view[at:end])
        at = end


def ends_abortion(batch: StoredBatch) -> bool:
    """Returns whether a control batch is the marker that ends an aborted transaction."""
    return _marker_type(batch) == ABORT


def _marker_type(batch: StoredBatch) -> int | None:
    """Returns the type of a control batch's marker; None where its bytes end before.

    Its one record's key, behind the record's five short numbers and its own length, has version and type.
    """
    body = bytes(batch.body or b"")
    at = 0
    try:
        for _ in range(5):  # length, attributes, time, offset, length of the key: each of one or more bytes
            while body[at] & 0x80:
                at += 1
            at += 1
        return int(_CONTROL_TYPE.unpack_from(body, at)[1])
    except (IndexError, struct.error):
        return None


def _batch(view: memoryview) -> StoredBatch:
    old = view[_MAGIC_AT] < 2
    if old or len(view) < _HEADER.size:
        (start,) = struct.unpack_from(">q", view)
        return StoredBatch(start, start + 1, 1, sound=False, old=old)
    start, _, _, _, checksum, attributes, last, stamp, latest, producer, _, _, count = _HEADER.unpack_from(
        view
    )
    sound = crc32c(view[_CHECKED_FROM:]) == checksum
    body = view[_HEADER.size :]
    return StoredBatch(start, start + last + 1, count, attributes, stamp, latest, producer, body, sound)


# What a stored batch holds, in parts.
StoredHeaders = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Part:
    """Some records of a batch, in their order. `headers` is None where a record has none. `too_large`: the
    size of the one record that there is then, and of which nothing else is held."""

    offsets: list[int]
    timestamps: list[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[StoredHeaders | None]
    too_large: int | None = None
