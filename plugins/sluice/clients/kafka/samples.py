"""Samples records of a topic. No offset is committed or moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.clients.kafka.records import BoundedReader, OffsetSpan, PartitionRecords
from sluice.clients.kafka.settings import settings_of
from sluice.clients.kafka.topics import open_topics
from sluice.config.kafka import Cluster

MOST_BYTES = 64 << 20
_PARTS = 20  # of a partition's time
_MOST_SPANS = 400  # each is a fetch of its own


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
    """Returns the records of the newest `count` offsets of each partition, in their order.

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
        return [record for records in reader.read(spans) for record in _each(records)]


def spread(
    cluster: Cluster, topic: str, count: int, max_record: int, most_bytes: int = MOST_BYTES
) -> list[SampledRecord]:
    """At most about `count` records from all over the topic: of each partition some of every part of its
    time, the oldest and the newest among them. Ends early at `most_bytes`. Raises what `newest` raises.
    """
    with open_topics(cluster) as topics:
        state = topics.describe(topic)
    ranges = {number: (state.log_starts[number], end) for number, end in sorted(state.ends.items())}
    samples: list[SampledRecord] = []
    size = 0
    with BoundedReader(settings_of(cluster), max_record) as reader:
        for records in reader.read(spread_spans(topic, ranges, count)):
            samples += _each(records)
            size += sum(len(value or b"") for value in records.values)
            if size > most_bytes:
                break
    return samples


def spread_spans(topic: str, ranges: Mapping[int, tuple[int, int]], count: int) -> list[OffsetSpan]:
    """Spans of `[start, end)` by partition that have about `count` offsets together; those of one part of
    the time stand together, so that whoever stops early has seen all partitions.

    `{0: (0, 1000)}` and 100: [0, 5) [52, 57) … [995, 1000), twenty of them.
    """
    held = {number: edges for number, edges in ranges.items() if edges[0] < edges[1]}
    chosen = list(held.items())[:: max(1, -(-len(held) // max(1, min(count, _MOST_SPANS))))]
    parts = max(1, min(_PARTS, _MOST_SPANS // max(1, len(chosen))))
    spans = [
        (part, OffsetSpan(topic, number, *edges))
        for number, (start, end) in chosen
        for part, edges in enumerate(_windows(start, end, max(1, count // len(chosen)), parts))
    ]
    return [span for _, span in sorted(spans, key=lambda numbered: numbered[0])]


def _windows(start: int, end: int, count: int, parts: int) -> list[tuple[int, int]]:
    """`[from, until)` of at most `parts` windows with `count` offsets together, evenly spread."""
    if end - start <= count:
        return [(start, end)]
    length = -(-count // min(parts, count))
    parts = count // length
    if parts == 1:
        return [(end - length, end)]
    firsts = [start + (end - start - length) * part // (parts - 1) for part in range(parts)]
    return [(first, first + length) for first in firsts]


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
