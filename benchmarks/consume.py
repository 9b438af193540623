"""Consumes a topic with librdkafka and does nothing with it: the bound of everything that reads Kafka."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import Consumer, TopicPartition

_AT_ONCE = 50_000


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Seconds for `count` records, from the first poll. Raises RuntimeError when they do not come."""
    options = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({**options, "auto.offset.reset": "earliest", "queued.max.messages.kbytes": 262_144})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    started, seen, last = time.monotonic(), 0, time.monotonic()
    try:
        while seen < count:
            found = consumer.consume(_AT_ONCE, timeout=1)
            seen += sum(message.error() is None for message in found)
            last = time.monotonic() if found else last
            if time.monotonic() - last > 60:
                raise RuntimeError(f"{seen} of {count} records came from {topic}")
    finally:
        consumer.close()
    return time.monotonic() - started
