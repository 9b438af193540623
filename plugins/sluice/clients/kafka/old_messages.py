"""Messages of magic 0 and 1, as Kafka before 0.11 wrote them: brokers of every version hand them over as they
are stored (KIP-724). Compressed ones are inside the value of another, whose offset is that of the last.

Source: Kafka's "Message Format", "Old Message Format", and AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import groupby, islice
from typing import NamedTuple

from sluice.clients.kafka.decompress import ByteSource, UnreadableBytes, pieces
from sluice.clients.kafka.record_batch import OLD_HEADER, OLD_STAMP, Part, StoredBatch, codec_of

_SIZE = struct.Struct(">i")
_BEFORE_SIZE = 12  # a message's size does not count its offset, and itself
_MAGIC_AT = 16
_FRONT = 26  # the least that a message takes: all of its numbers, but for the size of a value
_HOLD_NONE = -1
_AT_ONCE = 256


class _Message(NamedTuple):
    offset: int
    stamp: int
    key: bytes | None = None
    value: bytes | None = None
    too_large: int | None = None


def old_parts(batch: StoredBatch, max_record: int) -> Iterator[Part]:
    """Yields parts as `batch_records.parts_of` does. Raises Unreadable, IndexError and struct.error."""
    for too_large, messages in groupby(_messages_of(batch, max_record), lambda message: message.too_large):
        while some := list(islice(messages, _AT_ONCE if too_large is None else 1)):
            offsets, stamps, keys, values, _ = zip(*some, strict=True)
            yield Part(list(offsets), list(stamps), keys, values, [None] * len(some), too_large)


def old_places(batch: StoredBatch) -> Iterator[tuple[int, int]]:
    """Yields offset and timestamp of each message. Raises as `old_parts`."""
    return ((message.offset, message.stamp) for message in _messages_of(batch, _HOLD_NONE))


def _messages_of(batch: StoredBatch, most: int) -> Iterator[_Message]:
    """Yields all messages; those of more than `most` bytes that no piece holds whole come without their
    contents."""
    outer = memoryview(batch.body or b"")
    if not batch.codec:
        return _messages(batch, ByteSource(pieces(0, outer)), 0, most)
    at = OLD_HEADER.size + OLD_STAMP.size * batch.magic
    at += _SIZE.size + max(_SIZE.unpack_from(outer, at)[0], 0)
    inner, shift = outer[at + _SIZE.size :], 0
    if batch.magic:  # inside, offsets count from the first message on
        messages = _messages(batch, ByteSource(pieces(batch.codec, inner)), 0, _HOLD_NONE)
        shift = max((batch.until - 1 - last.offset for last in deque(messages, maxlen=1)), default=0)
    return _messages(batch, ByteSource(pieces(batch.codec, inner)), shift, most)


def _messages(batch: StoredBatch, source: ByteSource, shift: int, most: int) -> Iterator[_Message]:
    at = 0
    while True:
        if len(source.data) - at < _FRONT:
            source.skip(at)
            source.gather(_FRONT)
            at = 0
            if not source.data:
                return
        offset, size, checksum, magic, attributes = OLD_HEADER.unpack_from(source.data, at)
        if magic != batch.magic or size < _FRONT - _BEFORE_SIZE or (batch.codec and codec_of(attributes)):
            raise UnreadableBytes("a message inside is of another format than the one around it")
        stamp = OLD_STAMP.unpack_from(source.data, at + OLD_HEADER.size)[0] if magic else -1
        stamp = batch.max_stamp if batch.log_append_time else stamp
        end = at + _BEFORE_SIZE + size
        if end > len(source.data) and size > most:
            source.skip(end)
            at = 0
            yield _Message(offset + shift, stamp, too_large=size)
            continue
        if end > len(source.data):
            source.skip(at)
            at, end = 0, end - at
            source.gather(end)
        if zlib.crc32(memoryview(source.data)[at + _MAGIC_AT : end]) != checksum:
            raise UnreadableBytes("a message's checksum is not that of its bytes")
        yield _Message(offset + shift, stamp, *_contents(source.data, at, end, magic))
        at = end


def _contents(data: bytes, at: int, end: int, magic: int) -> tuple[bytes | None, bytes | None]:
    """Key and value."""
    key, at = _text(data, at + OLD_HEADER.size + OLD_STAMP.size * magic, end)
    value, _ = _text(data, at, end)
    return key, value


def _text(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Returns the text at `at`, and where the next begins."""
    (size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    if at + max(size, 0) > end:
        raise IndexError
    return (None, at) if size < 0 else (data[at : at + size], at + size)
