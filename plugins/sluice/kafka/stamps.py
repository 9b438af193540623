"""Reads the offsets and timestamps of many records, by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from confluent_kafka import Message, TopicPartition

from sluice.errors import KafkaOutOfReach
from sluice.kafka.client import REQUEST_MS
from sluice.kafka.consumer import plain_consumer, raise_unless_end
from sluice.kafka.settings import KafkaSettings

_AT_ONCE = 10_000
_POLL_SECONDS = 0.5
_CONFIGURATION = {"queued.max.messages.kbytes": 32 << 10}


class Stamps(NamedTuple):
    """Records of one partition, in its order; timestamps in milliseconds since the epoch. Both int64."""

    partition: int
    offsets: np.ndarray
    timestamps: np.ndarray


def read_stamps(
    settings: KafkaSettings, topic: str, spans: Mapping[int, tuple[int, int]]
) -> Iterator[Stamps]:
    """Every visible record of the spans, by partition the offsets `[start, until)`.

    Raises KafkaOutOfReach when nothing comes for 15 seconds, or the cluster says no.
    """
    untils = {partition: until for partition, (start, until) in spans.items() if start < until}
    trouble: list[str] = []
    with plain_consumer(settings, trouble, _CONFIGURATION) as consumer:
        consumer.assign([TopicPartition(topic, partition, spans[partition][0]) for partition in untils])
        deadline = _deadline()
        while untils:
            messages = consumer.consume(_AT_ONCE, _POLL_SECONDS)
            ended = {_ended(message) for message in messages if message.error() is not None}
            for part in _by_partition([message for message in messages if message.error() is None]):
                until = untils.get(part.partition, 0)
                inside = int(np.searchsorted(part.offsets, until))
                if inside:
                    yield Stamps(part.partition, part.offsets[:inside], part.timestamps[:inside])
                if inside < len(part.offsets) or (inside and part.offsets[inside - 1] == until - 1):
                    ended.add(part.partition)
            for partition in ended & untils.keys():
                consumer.pause([TopicPartition(topic, partition)])
                del untils[partition]
            deadline = _deadline() if messages else deadline
            if time.monotonic() > deadline:
                reason = "; ".join([f"{topic}/{min(untils)} brings no more records", *trouble[-1:]])
                raise KafkaOutOfReach(settings.cluster, settings.bootstrap, reason)


def _by_partition(messages: Sequence[Message]) -> Iterator[Stamps]:
    if not messages:
        return
    columns = [
        np.fromiter((message.partition() for message in messages), np.int64, len(messages)),
        np.fromiter((message.offset() for message in messages), np.int64, len(messages)),
        np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages)),
    ]
    for partition in np.unique(columns[0]).tolist():
        own = columns[0] == partition
        yield Stamps(partition, columns[1][own], columns[2][own])


def _ended(message: Message) -> int:
    """The partition that has no more records. Raises KafkaException for every other error."""
    raise_unless_end(message)
    return int(message.partition())


def _deadline() -> float:
    return time.monotonic() + REQUEST_MS / 1000
