"""Fills a Kafka topic with generated events as fast as one process can: about 200 bytes each.

    python -m benchmarks.publish_events --bootstrap 127.0.0.1:9092 --topic events --count 1000000

The same numbers give the same events: two topics filled alike hold the same records.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TYPES = ("impression", "click", "bid", "win")
COUNTRIES = ("DE", "FR", "US", "JP", "BR", "IN", "GB", "IT", "ES", "PL")
_DEADLINE_SECONDS = 30


@dataclass(frozen=True)
class Load:
    """`count` events spread evenly over `hours` hours from `start` (epoch seconds), keyed by user.

    Their types are mixed, or one after another (`in_turn`). With `recorded_in_hours` the records' own times
    are spread over that many at the end of the events' hours: the earlier events come late. They
    are of so many `users`.
    """

    count: int
    start: int = 1_735_689_600
    hours: int = 1
    types: int = 4
    in_turn: bool = False
    recorded_in_hours: int = 0
    users: int = 1_000_003

    def events(self) -> Iterator[tuple[bytes, bytes, int]]:
        """(key, value, timestamp in ms), in order of time."""
        step = self.hours * 3_600_000 / self.count
        recorded = self.recorded_in_hours or self.hours
        first = (self.start + (self.hours - recorded) * 3600) * 1000
        names = [TYPES[i] if i < len(TYPES) else f"type{i}" for i in range(self.types)]
        for i in range(self.count):
            ms = self.start * 1000 + int(i * step)
            mixed = (i * 2_654_435_761) & 0xFFFFFFFF
            user = f"u{mixed % self.users}"
            name = names[(i if self.in_turn else mixed) % len(names)]
            at = first + i * recorded * 3_600_000 // self.count
            yield user.encode(), _event(i, mixed, name, user, ms), at


def _event(number: int, mixed: int, name: str, user: str, ms: int) -> bytes:
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000))
    return (
        f'{{"id":"{mixed:08x}-{number:010d}","type":"{name}","timestamp":"{text}.{ms % 1000:03d}Z",'
        f'"user":"{user}","country":"{COUNTRIES[mixed % 10]}","price":{mixed % 10_000 / 100},'
        f'"device":{{"os":"{"ios" if mixed & 1 else "android"}","w":{mixed % 2000},"h":{mixed % 3000}}},'
        f'"tags":["a{mixed % 7}","b{mixed % 11}"]}}'
    ).encode()


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """A topic that never deletes its records: their timestamps may be years old."""
    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(_DEADLINE_SECONDS)


def publish(bootstrap: str, topic: str, load: Load, partitions: int) -> float:
    """Seconds it took. Raises RuntimeError when the broker did not take every event."""
    options = {"linger.ms": 50, "compression.type": "lz4", "batch.size": 1_000_000}
    options |= {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 1_000_000}
    # Without idempotence a batch that is sent again comes after later ones: its events would be late.
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **options})
    started = time.monotonic()
    for number, (key, value, ms) in enumerate(load.events()):
        while True:
            try:
                producer.produce(topic, value, key, partition=number % partitions, timestamp=ms)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(_DEADLINE_SECONDS)
    if left:
        raise RuntimeError(f"{left} events were not taken by {bootstrap}")
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--hours", type=int, default=1)
    parser.add_argument("--types", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    create_topic(given.bootstrap, given.topic, given.partitions)
    load = Load(given.count, hours=given.hours, types=given.types)
    seconds = publish(given.bootstrap, given.topic, load, given.partitions)
    print(f"{given.count:,} events in {seconds:.1f} s: {given.count / seconds:,.0f} a second")


if __name__ == "__main__":
    main()
