"""Batches as the broker stores them: what their headers say, before anything in them is decompressed.

Source: Kafka's "Message Format", record batch of magic 2, and messages of magic 0 and 1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
OLD_HEADER = struct.Struct(">qiIbb")
OLD_STAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">qi")
_MAGIC_AT = 16
_CHECKED_FROM = 21
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CONTROL_TYPE = struct.Struct(">hh")
ABORT = 0


class StoredBatch(NamedTuple):
    """The offsets `[start, until)` of one batch, which holds `records` of them; `body` is as it is stored.

    `stamp` is the base of the records' times in ms; they are all `max_stamp` where the broker stamps
    (`log_append_time`). Of magic 0 and 1 `body` is the whole message; where others are inside it, nobody
    knows `start` and `records`: they are an offset that is not behind the first, and 0. One whose checksum is
    another's is not `sound`: nothing that it says is true.
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
    magic: int = 2

    @property
    def codec(self) -> int:
        return codec_of(self.attributes)

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
        if not self.sound:
            return "its checksum is not that of its bytes"
        if self.control and self.records and _marker_type(self) is None:
            return "its marker ends too early"
        return ""


def codec_of(attributes: int) -> int:
    return attributes & _CODEC


def stored_batches(data: bytes | memoryview, since: int | None = None) -> Iterator[StoredBatch]:
    """Yields the batches of a fetch's answer, of which none begins before `since`. A broker cuts the answer
    at a number of bytes: a last batch that is not there as a whole is left out."""
    view, at = memoryview(data), 0
    while at + _LENGTH.size <= len(view):
        length = _LENGTH.unpack_from(view, at)[1]
        end = at + _LENGTH.size + length
        if end > len(view) or length <= _MAGIC_AT - _LENGTH.size:
            return
        batch = _batch(view[at:end]) if view[at + _MAGIC_AT] >= 2 else _old(view[at:end], since)
        yield batch
        at, since = end, batch.until


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
    if len(view) < _HEADER.size:
        (start,) = struct.unpack_from(">q", view)
        return StoredBatch(start, start + 1, 1, sound=False)
    start, _, _, _, checksum, attributes, last, stamp, latest, producer, _, _, count = _HEADER.unpack_from(
        view
    )
    sound = crc32c(view[_CHECKED_FROM:]) == checksum
    body = view[_HEADER.size :]
    return StoredBatch(start, start + last + 1, count, attributes, stamp, latest, producer, body, sound)


def _old(view: memoryview, since: int | None) -> StoredBatch:
    offset, _, checksum, magic, attributes = OLD_HEADER.unpack_from(view)
    if len(view) < OLD_HEADER.size + OLD_STAMP.size * magic:
        return StoredBatch(offset, offset + 1, 1, sound=False)
    stamp = OLD_STAMP.unpack_from(view, OLD_HEADER.size)[0] if magic else -1
    attributes &= _CODEC | (_LOG_APPEND_TIME if magic else 0)
    alone = not codec_of(attributes)
    start = offset if alone or since is None else min(since, offset)
    sound = zlib.crc32(view[_MAGIC_AT:]) == checksum
    return StoredBatch(start, offset + 1, int(alone), attributes, stamp, stamp, -1, view, sound, magic)


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
