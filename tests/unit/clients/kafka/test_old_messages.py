"""Messages of before Kafka 0.11: what kafka-python writes of magic 0 and 1 is read, in bounded memory."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from sluice.clients.kafka.batch_records import parts_of, stamps_of
from sluice.clients.kafka.decompress import UnreadableBytes
from sluice.clients.kafka.record_batch import stored_batches
from tests.support.stored_batch import CODECS, batch, checked, compressed, record

AT = 1_767_225_600_123
MOST = 1 << 20
LOG_APPEND = 0x08
# In magic 0 lz4's frames have a checksum of their own kind, which only Kafka's clients make and take.
KINDS = [
    (0, "none"),
    (0, "gzip"),
    (0, "snappy"),
    *((1, codec) for codec in ("none", "gzip", "snappy", "lz4")),
]


def written(magic: int, codec: str, rows: list[tuple], first: int) -> bytes:
    """(stamp, key, value) as a broker stores them from offset `first` on."""
    theirs = CODECS[codec] if codec != "snappy" else 0  # it needs a library that nothing else needs
    builder = LegacyRecordBatchBuilder(magic, theirs, 1 << 30)
    relative = magic == 1 and codec != "none"
    for number, row in enumerate(rows):
        assert builder.append(number if relative else first + number, *row) is not None
    data = bytes(builder.build())
    if codec == "snappy":
        data = around(compressed("snappy", [data]), magic, codec)
    return data if codec == "none" else wrapper(data, first + len(rows) - 1, max(row[0] for row in rows))


def around(packed: bytes, magic: int, codec: str) -> bytes:
    front = bytes([magic, CODECS[codec]]) + bytes(8 * magic)
    return bytes(16) + front + struct.pack(">ii", -1, len(packed)) + packed


def wrapper(data: bytes, offset: int, stamp: int, attributes: int = 0) -> bytes:
    """A compressed message as the broker rewrites it."""
    body = data[16:17] + bytes([data[17] | attributes])
    body += struct.pack(">q", stamp) + data[26:] if data[16] else data[18:]
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def rows_of(seed: int, count: int) -> list[tuple]:
    chance = random.Random(seed)
    lengths = [None, 0, 1, 60, 300, 8192, 300_000]

    def text() -> bytes | None:
        length = chance.choice(lengths[: 7 if chance.random() < 0.02 else 6])
        return None if length is None else chance.randbytes(length)

    return [(AT + chance.randrange(-50, 50), text(), text()) for _ in range(count)]


def read(data: bytes, since: int = 0, most: int = MOST) -> list[tuple]:
    """(offset, stamp, key, value, headers, size where it is too large)."""
    return [
        (*row, part.too_large)
        for found in stored_batches(data, since)
        for part in parts_of(found, most)
        for row in zip(part.offsets, part.timestamps, part.keys, part.values, part.headers, strict=True)
    ]


def stamps(data: bytes) -> list[tuple[int, int]]:
    parts = (part for found in stored_batches(data) for part in stamps_of(found))
    return [row for part in parts for row in zip(*(column.tolist() for column in part), strict=True)]


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_what_kafka_python_writes_is_read(magic, codec):
    sent = rows_of(len(codec), 700)
    data = written(magic, codec, sent, 10_000)
    expected = [(10_000 + n, at if magic else -1, key, value) for n, (at, key, value) in enumerate(sent)]
    assert read(data) == [(*row, None, None) for row in expected]
    assert stamps(data) == [row[:2] for row in expected]
    assert all(found.sound for found in stored_batches(data))


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_what_a_compaction_left_keeps_its_offsets(codec):
    builder = LegacyRecordBatchBuilder(1, CODECS[codec], 1 << 20)
    for number in (3, 4, 9):
        builder.append(number, AT, None, b"%d" % number)
    data = wrapper(bytes(builder.build()), 109, AT)
    assert [(row[0], row[3]) for row in read(data)] == [(103, b"3"), (104, b"4"), (109, b"9")]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_brokers_own_time_is_that_of_the_one_around(codec):
    sent = [(AT + n, None, b"%d" % n) for n in range(3 if codec == "gzip" else 1)]
    data = wrapper(written(1, codec, sent, 5), 4 + len(sent), AT + 99, LOG_APPEND)
    assert stamps(data) == [(5 + n, AT + 99) for n in range(len(sent))] == [row[:2] for row in read(data)]


def test_old_and_new_follow_one_another_and_nothing_begins_behind_its_first_offset():
    """A reader asks for a span: what is inside a message begins before the message's own offset."""
    data = written(0, "none", [(AT, None, b"a")], 7)
    data += written(1, "gzip", [(AT, None, b"b"), (AT, None, b"c")], 8)
    data += checked(batch([record(0, b"d")], 1, start=10))
    spans = [(found.start, found.until, found.magic) for found in stored_batches(data, 7)]
    assert spans == [(7, 8, 0), (8, 10, 1), (10, 11, 2)]
    assert [(row[0], row[3]) for row in read(data, 7)] == [(7, b"a"), (8, b"b"), (9, b"c"), (10, b"d")]
    assert [found.start for found in stored_batches(written(1, "gzip", [(AT, None, b"b")] * 5, 8), 10)] == [
        10
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_message_above_the_bound_is_told_by_its_size_and_never_held(magic, codec):
    sent = [(AT, None, b"before"), (AT, None, bytes(32 << 20)), (AT, None, b"after")]
    data = written(magic, codec, sent, 0)
    tracemalloc.start()
    found = read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    at, size = (AT, 22) if magic else (-1, 14)
    assert found == [
        (0, at, None, b"before", None, None),
        (1, at, None, None, None, size + (32 << 20)),
        (2, at, None, b"after", None, None),
    ]
    assert peak < 4 << 20


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_every_bit_that_is_bent_is_seen(magic, codec):
    good = written(magic, codec, [(AT, b"k", b"value" * 5)] * (1 if codec == "none" else 9), 0)
    for at in [*range(12, 16), *range(17, len(good))]:
        bent = bytearray(good)
        bent[at] ^= 0x10
        assert [found.sound for found in stored_batches(bytes(bent))] == [False]


def inside(body: bytes) -> bytes:
    """A message of magic 1 around these very bytes."""
    return wrapper(around(gzip.compress(body), 1, "gzip"), 0, AT)


@pytest.mark.parametrize(
    "body",
    [
        written(0, "none", [(AT, None, b"v")], 0),
        written(1, "gzip", [(AT, None, b"v")], 0),
        written(1, "none", [(AT, None, b"v")], 0)[:-1],
        written(1, "none", [(AT, None, b"v")], 0)[:20],
        written(1, "none", [(AT, None, b"v")], 0)[:-1] + b"w",
        bytes(8) + struct.pack(">i", -5) + bytes(40),
    ],
    ids=["another magic", "compressed twice", "cut", "cut in its numbers", "bent", "a negative size"],
)
def test_what_is_no_message_is_unreadable(body):
    with pytest.raises(UnreadableBytes):
        read(inside(body))


def test_lz4_of_magic_0_is_refused():
    """Its clients summed up the frame's magic number, too: the header's checksum is another."""
    frame = bytearray(compressed("lz4", [written(0, "none", [(AT, None, b"v")], 0)]))
    frame[6] ^= 0xFF
    with pytest.raises(UnreadableBytes, match="(?i)lz4"):
        read(wrapper(around(bytes(frame), 0, "lz4"), 0, AT))
