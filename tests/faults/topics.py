"""A topic of a real broker: what is sent to it, and what can happen to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pendulum
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from local.readiness import wait_until
from sluice.clients.kafka.topics import open_topics
from sluice.slices import Slice, SliceRange, to_ms

HOURS = 6
START = pendulum.now("UTC").start_of("hour").subtract(hours=HOURS)
"""Hour 0. The hours 0 … 5 are over when the tests begin."""
CLUSTER = "dc1"
SECONDS = 180


def hour(number: int) -> Slice:
    return Slice(START.add(hours=number))


def hours(first: int, last: int) -> SliceRange:
    """Both included."""
    return SliceRange(hour(first).start, hour(last).end)


@dataclass(frozen=True, order=True)
class Sent:
    """A record that the broker has acknowledged."""

    partition: int
    offset: int
    n: int
    payload: str


class Topic:
    """One topic, made by the test; `sent` are its records by their number."""

    def __init__(self, bootstrap: str, name: str, **producer: Any) -> None:
        self.bootstrap, self.name = bootstrap, name
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.sent: dict[int, Sent] = {}
        self.connect(**producer)

    def connect(self, **options: Any) -> None:
        """A producer that is older than a change of the topic may not know of it."""
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **options})

    def make(self, partitions: int = 1, **config: object) -> Topic:
        named = {"retention.ms": "-1"} | {k.replace("_", "."): str(v) for k, v in config.items()}
        self.admin.create_topics([NewTopic(self.name, partitions, 1, config=named)])[self.name].result(30)
        return self

    def make_again(self, partitions: int = 1) -> None:
        self.admin.delete_topics([self.name])[self.name].result(30)
        gone = lambda: self.name not in self.admin.list_topics(timeout=10).topics  # noqa: E731
        wait_until(gone, f"the deletion of {self.name}", SECONDS)
        self.make(partitions)
        self.connect()

    def widen(self, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(30)
        wait_until(lambda: len(self.state().ends) == partitions, f"{partitions} partitions", SECONDS)
        self.connect()

    def send(self, *numbers: int, at: float, partition: int = 0, event: float | None = None, **more) -> None:
        """Records stamped `at` hours after START; `event` is the time in the event, the same by default."""
        when = START.add(seconds=(at if event is None else event) * 3600)
        for n in numbers:
            payload = json.dumps({"type": "click", "at": when.isoformat(), "n": n})

            def acknowledged(error, message, n=n, payload=payload) -> None:
                assert error is None, error
                self.sent[n] = Sent(message.partition(), message.offset(), n, payload)

            stamp = to_ms(START.add(seconds=at * 3600))
            self.producer.produce(
                self.name, payload, partition=partition, timestamp=stamp, on_delivery=acknowledged, **more
            )
        assert self.producer.flush(30) == 0

    def configure(self, **config: object) -> None:
        """Changes settings of the topic; the others stay."""
        change = [
            ConfigEntry(k.replace("_", "."), str(v), incremental_operation=AlterConfigOpType.SET)
            for k, v in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=change)
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def expire(self, until: int, partition: int = 0) -> None:
        """Drops the records below offset `until`, as retention does."""
        place = TopicPartition(self.name, partition, until)
        assert self.admin.delete_records([place])[place].result(30).low_watermark == until

    def state(self) -> Any:
        """Its id, log starts and last stable offsets."""
        cluster = SimpleNamespace(
            cluster=CLUSTER, bootstrap=self.bootstrap, connection=None, isolation="read_committed"
        )
        with open_topics(cluster) as topics:
            return topics.describe(self.name)


def visible(cluster: Any, place: TopicPartition) -> Iterator[Any]:
    """What a consumer of the cluster's isolation is shown of one partition, from the log's start on."""
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "tests",
        "isolation.level": cluster.isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    with closing(Consumer(options)) as consumer:
        consumer.assign([place])
        deadline = pendulum.now().add(seconds=SECONDS)
        while pendulum.now() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                yield message
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise AssertionError(message.error())
    raise AssertionError(f"{place} could not be read to its end")
