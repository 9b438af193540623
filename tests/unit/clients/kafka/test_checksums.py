"""A batch whose bytes are not those of its checksum is never read: one error names its place."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.protocol.consumer import FetchResponse, IsolationLevel
from kafka.record.default_records import DefaultRecordBatchBuilder

from sluice.clients.kafka.fetch import FetchAdmin
from sluice.clients.kafka.record_batch import stored_batches
from sluice.clients.kafka.settings import DamagedBatch, KafkaSettings, reached
from sluice.errors import BatchUnreadable
from tests.support.stored_batch import CODECS, batch, checked, record

CONTROL, TRANSACTIONAL = 0x20, 0x10
CHECKED_FROM = 17  # what stands before says where a batch begins, and how long it is
PLACE = TopicPartition("t", 3)


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_what_kafka_python_writes_is_sound(codec):
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 1 << 20)
    for number in range(100):
        builder.append(number, 1_767_225_600_000, b"k", b"v%d" % number, [])
    assert [found.sound for found in stored_batches(bytes(builder.build()))] == [True]


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_every_bit_that_is_bent_is_seen(codec):
    chance = random.Random(3)
    good = checked(batch([record(n, b"value" * n) for n in range(50)], 50, codec))
    for at in [*range(CHECKED_FROM, 61), *chance.sample(range(61, len(good)), 30)]:
        bent = bytearray(good)
        bent[at] ^= 1 << chance.randrange(8)
        assert [found.sound for found in stored_batches(bytes(bent))] == [False]


@pytest.mark.parametrize("length", [6, 20, 48])
def test_a_batch_that_is_shorter_than_its_header_is_not_sound(length):
    cut = (7).to_bytes(8, "big") + length.to_bytes(4, "big") + b"\0\0\0\0\2" + b"\0" * (length - 5)
    assert [(found.start, found.sound) for found in stored_batches(cut)] == [(7, False)]


class Canned(FetchAdmin):
    """A client whose broker answers every fetch with these bytes."""

    def __init__(self, data: bytes) -> None:
        self._led_by, self._nearer, self._manager, self._data = {PLACE: 1}, {}, self, data

    def run(self, coroutine: Any, *arguments: Any) -> Any:
        return asyncio.run(coroutine(*arguments))

    async def send(self, _: Any, node_id: int) -> FetchResponse:
        topic = FetchResponse.FetchableTopicResponse
        own = topic.PartitionData(
            partition_index=PLACE.partition, error_code=0, records=self._data, aborted_transactions=[]
        )
        return FetchResponse(responses=[topic(topic=PLACE.topic, partitions=[own])])


def three() -> list[bytes]:
    return [checked(batch([record(0, b"v"), record(1, b"w")], 2, start=start)) for start in (10, 12, 14)]


def fetched(batches: list[bytes], offset: int) -> list[int]:
    level = IsolationLevel.READ_COMMITTED
    found = Canned(b"".join(batches)).fetch(PLACE, offset, level.name.lower())
    return [batch.start for batch in found.batches]


def test_what_lies_before_a_damaged_batch_is_read():
    batches = three()
    batches[1] = batches[1][:-1] + b"?"
    assert fetched(three(), 11) == [10, 12, 14]
    assert fetched(batches, 11) == [10]


@pytest.mark.parametrize("offset", [10, 11])
def test_a_damaged_batch_is_one_error_that_names_its_place(offset):
    batches = three()
    batches[0] = batches[0][:-1] + b"?"
    with pytest.raises(DamagedBatch):
        fetched(batches, offset)
    told = r"offsets \[10, 11\) of dc1/t/3 cannot be read \(its checksum is not that of its bytes\)"
    with pytest.raises(BatchUnreadable, match=told), reached(KafkaSettings("dc1", "h:9092")):
        fetched(batches, offset)


def test_a_damaged_batch_that_says_it_ends_early_is_not_passed_over():
    batches = three()
    batches[1] = batches[1][:23] + b"\x80\0\0\0" + batches[1][27:]  # its last offset, far below the first
    with pytest.raises(DamagedBatch, match="t/3 at offset 12"):
        fetched(batches[1:], 13)


def control(start: int, body: bytes, count: int = 1) -> bytes:
    """A control batch of a transaction."""
    return checked(batch([body], count, start=start, producer=1, attributes=CONTROL | TRANSACTIONAL))


@pytest.mark.parametrize("body", [b"", b"\x80" * 4, b"\x0c\0\0\0\x04", b"\x0c\0\0\0\x04\0\0\0"])
def test_a_marker_that_ends_too_early_is_one_error_that_names_its_place(body):
    batches = [*three(), control(16, body)]
    assert fetched(batches, 14) == [14]
    told = r"offsets \[16, 17\) of dc1/t/3 cannot be read \(its marker ends too early\)"
    with pytest.raises(BatchUnreadable, match=told), reached(KafkaSettings("dc1", "h:9092")):
        fetched(batches, 16)


def test_a_control_batch_whose_marker_compaction_has_taken_is_hidden():
    """Of the last batch of a producer Kafka keeps the header: LogCleaner, BatchRetention.RETAIN_EMPTY."""
    found = Canned(b"".join([*three(), control(16, b"", count=0)])).fetch(PLACE, 14, "read_committed")
    assert ([batch.start for batch in found.batches], found.hidden) == ([14, 16], {1})
