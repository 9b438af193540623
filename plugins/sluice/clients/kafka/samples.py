"""The newest records of a topic, to look at what its events are like. Nothing is committed or moved."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition

from sluice.clients.kafka.client import REQUEST_MS, consumer, reached
from sluice.clients.kafka.settings import settings_of
from sluice.config.pipeline import Cluster

_POLL_MS = 500


@dataclass(frozen=True)
class Record:
    """`timestamp` in milliseconds since the epoch; `headers` are (key, value) pairs."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def newest(cluster: Cluster, topic: str, count: int) -> list[Record]:
    """At most `count` of the newest records of each partition, in their order.

    Raises KafkaOutOfReach, also for a topic that the user may not read, and WrongUse for the connection.
    """
    settings = settings_of(cluster)
    with reached(settings), consumer(settings) as reader:
        places = [TopicPartition(topic, number) for number in reader.partitions_for_topic(topic) or ()]
        starts, ends = reader.beginning_offsets(places), reader.end_offsets(places)
        spans = {p: (max(starts[p], ends[p] - count), ends[p]) for p in places if starts[p] < ends[p]}
        return list(_records(reader, spans))


def _records(reader: KafkaConsumer, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Record]:
    """What is not there after one request's time is left out: markers have offsets, and no record."""
    open_spans = dict(spans)
    reader.assign(list(open_spans))
    for place, (start, _) in open_spans.items():
        reader.seek(place, start)
    deadline = time.monotonic() + REQUEST_MS / 1000
    while open_spans and time.monotonic() < deadline:
        for place, records in reader.poll(timeout_ms=_POLL_MS).items():
            until = spans[place][1]
            for found in records:
                if found.offset < until:
                    yield _record(found)
        open_spans = {p: span for p, span in open_spans.items() if reader.position(p) < span[1]}


def _record(found: object) -> Record:
    return Record(
        found.topic,
        found.partition,
        found.offset,
        found.timestamp,
        found.value,
        tuple(found.headers or ()),
    )
