"""The newest records of a topic, to look at what its events are like. Nothing is committed or moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sluice.clients.kafka.records import BoundedReader, OffsetSpan, PartitionRecords
from sluice.clients.kafka.settings import settings_of
from sluice.clients.kafka.topics import open_topics
from sluice.config.kafka import Cluster


@dataclass(frozen=True)
class SampledRecord:
    """`timestamp` in milliseconds since the epoch; `headers` are (key, value) pairs. `too_large`: its size in
    bytes where it is more than was asked for, and then nothing of it is here."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    too_large: int | None = None


def newest(cluster: Cluster, topic: str, count: int, max_record: int) -> list[SampledRecord]:
    """The records of the newest `count` offsets of each partition, in their order.

    Raises KafkaUnavailable, also for a topic that the user may not read, UnknownTopic, and WrongUse for the
    connection.
    """
    with open_topics(cluster) as topics:
        state = topics.describe(topic)
    spans = [
        OffsetSpan(topic, number, max(state.log_starts[number], end - count), end)
        for number, end in sorted(state.ends.items())
        if state.log_starts[number] < end
    ]
    with BoundedReader(settings_of(cluster), max_record) as reader:
        return [one for records in reader.read(spans) for one in _each(records)]


def _each(records: PartitionRecords) -> Iterator[SampledRecord]:
    columns = (records.offsets, records.timestamps, records.values, records.headers)
    for number, (offset, timestamp, value, headers) in enumerate(zip(*columns, strict=True)):
        yield SampledRecord(
            records.topic,
            records.partition,
            int(offset),
            int(timestamp),
            value,
            tuple(headers or ()),
            records.too_large.get(number),
        )
