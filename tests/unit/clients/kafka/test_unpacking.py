"""Stored batches are read in bounded memory: what kafka-python and stored_batch.py have written."""

from __future__ import annotations

import gzip
import random
import struct
import time
import tracemalloc
from collections.abc import Iterable

import pytest
from kafka import TopicPartition
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from sluice.clients.kafka import batch_records
from sluice.clients.kafka.batch_records import parts_of, stamps_of
from sluice.clients.kafka.fetch import as_asked, hidden_of
from sluice.clients.kafka.record_batch import stored_batches
from sluice.clients.kafka.settings import DamagedBatch
from tests.support.stored_batch import CODECS, batch, bomb, bomb_size, checked, compressed, record

CONTROL, TRANSACTIONAL, LOG_APPEND = 0x20, 0x10, 0x08
AT = 1_767_225_600_123
MOST = 1 << 20


def read(data: bytes, most: int = MOST) -> list[tuple]:
    """(offset, stamp, key, value, headers, size where it is too large) of every record."""
    return [
        (*row, part.too_large)
        for found in stored_batches(data)
        for part in parts_of(found, most)
        for row in zip(part.offsets, part.timestamps, part.keys, part.values, part.headers, strict=True)
    ]


def odd_records(seed: int, count: int) -> list[tuple]:
    """(stamp, key, value, headers), lengths on both sides of each number of bytes that a length takes."""
    chance = random.Random(seed)
    lengths = [None, 0, 1, 40, 53, 60, 63, 64, 65, 8180, 8191, 8192, 300_000]

    def text() -> bytes | None:
        length = chance.choice(lengths[: 13 if chance.random() < 0.02 else 11])
        return None if length is None else chance.randbytes(length)

    def headers() -> list[tuple[str, bytes | None]]:
        return [(chance.choice(["", "a", "é" * 40]), text()) for _ in range(chance.choice([0, 0, 0, 1, 70]))]

    stamps = [AT, AT - 1, AT + 63, AT + 10**7, -(1 << 62), (1 << 62), 0, -1]
    return [(chance.choice(stamps), text(), text(), headers()) for _ in range(count)]


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_it_reads_what_kafka_python_writes(codec):
    sent = odd_records(len(codec), 150)
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 1 << 30)
    for number, (stamp, key, value, headers) in enumerate(sent):
        builder.append(number, stamp, key, value, headers)
    found = read(bytes(builder.build()))
    assert found == [(n, s, k, v, h or None, None) for n, (s, k, v, h) in enumerate(sent)]


def pieces(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    found = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_records_may_lie_on_the_edge_of_any_piece(codec):
    values = [b"%d" % n * (n % 97) for n in range(30_000)]
    records = [record(n, value) for n, value in enumerate(values)]
    found = read(batch([b"".join(records)], len(records), codec, AT, LOG_APPEND))
    assert found == [(n, AT, None, value, None, None) for n, value in enumerate(values)]


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
def test_compressed_streams_may_follow_one_another(codec):
    records = b"".join(record(n, b"v%d" % n) for n in range(100))
    body = b"".join(compressed(codec, [part]) for part in pieces(records, [3, 200, 1]))
    assert [row[3] for row in read(stored(body, 100, codec))] == [b"v%d" % n for n in range(100)]


def stored(body: bytes, count: int, codec: str) -> bytes:
    """A batch of these very bytes."""
    return batch([body], count, attributes=CODECS[codec])


def test_snappy_of_librdkafka_is_one_block():
    records = b"".join(record(n, b"value" * 50) for n in range(100))
    framed = compressed("snappy", [records])
    assert int.from_bytes(framed[16:20], "big") == len(framed) - 20  # one block, whose frame is cut off
    assert [row[3] for row in read(stored(framed[20:], 100, "snappy"))] == [b"value" * 50] * 100


@pytest.mark.parametrize(
    ("codec", "size"), [("gzip", 64 << 20), ("zstd", 64 << 20), ("lz4", 64 << 20), ("snappy", 16 << 20)]
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_record_above_the_bound_is_told_by_its_size_and_never_held(codec, size, count):
    bombs = [piece for n in range(1, count + 1) for piece in bomb(n, size)]
    data = batch([record(0, b"before"), *bombs, record(count + 1, b"after")], count + 2, codec, AT)
    tracemalloc.start()
    found = read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    told = [(n, AT, None, None, None, bomb_size(n, size)) for n in range(1, count + 1)]
    before, after = (0, AT, None, b"before", None, None), (count + 1, AT, None, b"after", None, None)
    assert found == [before, *told, after]
    assert peak < 6 << 20


@pytest.mark.parametrize("more", [0, 1])
def test_the_bound_is_the_records_own_size(more):
    value = b"x" * (MOST - 9 + more)
    (row,) = read(batch([record(0, value)], 1, "gzip", AT))
    assert row == (0, AT, None, value, None, None) if not more else (0, AT, None, None, None, MOST + 1)


def test_many_records_below_the_bound_come_in_small_parts():
    """A gigabyte of them may be in one batch."""
    records = (record(n, b"y" * 60_000) for n in range(2000))
    (found,) = stored_batches(batch(records, 2000, "zstd"))
    tracemalloc.start()
    seen = [(part.offsets, [set(value) for value in part.values]) for part in parts_of(found, MOST)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [offset for offsets, _ in seen for offset in offsets] == list(range(2000))
    assert all(held == {ord("y")} for _, values in seen for held in values)
    assert peak < 6 << 20


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_bent_bytes_are_unreadable_or_read_and_nothing_else(codec):
    chance = random.Random(7)
    good = batch([record(n, b"value" * n, b"k", [(b"h", b"1")]) for n in range(50)], 50, codec)
    for _ in range(300):
        bent = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            bent[chance.randrange(61, len(bent))] = chance.randrange(256)
        try:
            assert len(read(bytes(bent))) == 50
        except batch_records.UnreadableBytes:
            continue


@pytest.mark.parametrize(
    "records",
    [b"", b"\x01", b"\x03\0\0", record(0, b"v")[:-1], b"\x80" * 20, b"\xfe\xff\xff\xff\x0f" + b"\0" * 9],
    ids=["none", "negative", "short", "cut", "endless length", "a size beyond the batch"],
)
def test_what_is_no_record_is_unreadable(records):
    with pytest.raises(batch_records.UnreadableBytes):
        read(batch([records], 1), 1 << 40)


def test_a_batch_that_the_broker_cut_is_left_out():
    whole = batch([record(0, b"a")], 1, start=5)
    cut = batch([record(0, b"b")], 1, start=6)
    assert [found.start for found in stored_batches(whole + cut)] == [5, 6]
    for length in range(1, len(cut)):
        assert [found.start for found in stored_batches(whole + cut[:length])] == [5]


def marker(start: int, producer: int, abort: bool) -> bytes:
    key = struct.pack(">hh", 0, 0 if abort else 1)
    own = record(0, struct.pack(">hi", 0, 1), key)
    return batch([own], 1, start=start, producer=producer, attributes=CONTROL | TRANSACTIONAL)


def test_markers_and_aborted_batches_are_hidden():
    """Producers 1 and 2 in turn; 1 aborts, and then commits; 2 commits what began before."""
    own = [
        batch([record(0, b"a"), record(1, b"b")], 2, start=0, producer=1, attributes=TRANSACTIONAL),
        batch([record(0, b"c")], 1, start=2, producer=2, attributes=TRANSACTIONAL),
        batch([record(0, b"d")], 1, start=3, producer=1, attributes=TRANSACTIONAL),
        marker(4, 1, abort=True),
        batch([record(0, b"e")], 1, start=5, producer=1, attributes=TRANSACTIONAL),
        marker(6, 1, abort=False),
        batch([record(0, b"f")], 1, start=7),
        marker(8, 2, abort=False),
    ]
    found = list(stored_batches(b"".join(own)))
    assert hidden_of(found, [(0, 1)]) == {0, 2, 3, 5, 7}
    assert hidden_of(found[2:], [(0, 1)]) == {0, 1, 3, 5}
    assert hidden_of(found, []) == {3, 5, 7}


def stamps(data: bytes) -> list[tuple[int, int]]:
    return [
        row
        for found in stored_batches(data)
        for offsets, times in stamps_of(found)
        for row in zip(offsets.tolist(), times.tolist(), strict=True)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_offsets_and_times_alone_are_those_that_kafka_python_writes(codec):
    sent = odd_records(3 * len(codec), 150)
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 1 << 30)
    for number, (stamp, key, value, headers) in enumerate(sent):
        builder.append(number, stamp, key, value, headers)
    assert stamps(bytes(builder.build())) == [(n, row[0]) for n, row in enumerate(sent)]


@pytest.mark.parametrize(
    ("count", "attributes", "times"),
    [(1, 0, [AT]), (3, LOG_APPEND, [AT] * 3), (3, 0, [AT, AT - 5, AT + 5])],
    ids=["one record", "the broker stamps", "several"],
)
def test_times_that_the_header_says(count, attributes, times):
    own = [record(n, b"v", stamp=at - AT) for n, at in enumerate(times)]
    assert stamps(batch(own, count, stamp=AT, attributes=attributes)) == list(enumerate(times))


def test_of_a_bomb_only_offset_and_time_are_held():
    data = batch([record(0, b"before"), *bomb(1, 64 << 20), record(2, b"after")], 3, "gzip", AT)
    tracemalloc.start()
    assert stamps(data) == [(0, AT), (1, AT), (2, AT)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("records", [b"", b"\x01", b"\x06\0\0", record(0, b"v")[:-1], b"\x80" * 20])
def test_what_is_no_record_has_no_time(records):
    with pytest.raises(batch_records.UnreadableBytes):
        stamps(batch([records, b"" if not records else record(1, b"")], 2))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_messages_from_before_kafka_0_11_are_refused(magic: int, codec: str):
    builder = LegacyRecordBatchBuilder(magic, CODECS[codec], 1 << 20)
    for number in range(3):
        builder.append(number, AT, None, b"value")
    old, place = bytes(builder.build()), TopicPartition("t", 0)
    newer = checked(batch([record(0, b"a")], 1, start=3))
    with pytest.raises(DamagedBatch, match="Kafka wrote it before 0.11: copy the topic with"):
        as_asked(place, 0, [*stored_batches(old + newer)])
    assert [found.start for found in as_asked(place, 3, [*stored_batches(newer + old)])] == [3]


def test_a_body_of_many_gzip_members_takes_time_by_its_length():
    """Of 100,000 members without a byte the library once copied all that followed, after each."""
    members = gzip.compress(b"", mtime=0) * 100_000 + gzip.compress(b"end", mtime=0)
    began = time.process_time()
    assert b"".join(batch_records.pieces(1, memoryview(members))) == b"end"
    assert time.process_time() - began < 5  # once 17 s, now 0.1 s


@pytest.mark.parametrize("cut", [0, 1, 100, 70_000])
def test_gzip_members_are_one_text_and_an_end_too_early_is_told(cut: int):
    text = random.Random(cut).randbytes(200_000) + b"a" * 600_000
    body = gzip.compress(text[:cut]) + gzip.compress(text[cut:])
    assert b"".join(batch_records.pieces(1, memoryview(body))) == text
    with pytest.raises(batch_records.UnreadableBytes, match="ends too early"):
        list(batch_records.pieces(1, memoryview(body[:-1])))
