"""Records that a real broker has deleted by age were of hours before that age, and of no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pendulum
import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient, NewTopic

from local.readiness import free_port, wait_until
from local.services import KafkaBroker
from sluice.clients.kafka.topics import open_topics
from sluice.config.pipeline import Pipeline
from sluice.flow.resolve.resolve import resolve
from sluice.slices import HOUR, Slice, floor, to_ms
from sluice.state.boundaries.log import BoundaryLog
from tests.support.fakes import MemoryLake

pytestmark = pytest.mark.integration

KEPT_HOURS = 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """One that looks for what to delete every second."""
    path = tmp_path / "eager.properties"
    path.write_text("log.retention.check.interval.ms=1000\nlog.initial.task.delay.ms=500\n")
    options = ["--controller-port", str(free_port()), "--properties", str(path)]
    started = KafkaBroker("local.kafka_broker", tmp_path / "kafka", free_port(), options).start()
    yield started.bootstrap
    started.kill()


@pytest.mark.long
def test_an_idle_partition_has_lost_nothing_of_the_hours_that_are_kept(broker: str, name: str):
    """Five records of a month ago are in each partition. They are deleted, and only partition 1 goes on."""
    now = pendulum.now("UTC")
    kept = {"retention.ms": str(KEPT_HOURS * 3_600_000), "file.delete.delay.ms": "100"}
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_topics([NewTopic(name, 2, 1, topic_configs=kept)])
    admin.close()
    producer = Producer({"bootstrap.servers": broker, "log_level": 0})

    def send(partition: int, *stamps: pendulum.DateTime) -> None:
        for at in stamps:
            producer.produce(name, b"{}", partition=partition, timestamp=to_ms(at))
        assert producer.flush(30) == 0

    spec = Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "dc1", "bootstrap": broker, "topics": [name]}],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///nowhere",
        }
    )
    for partition in (0, 1):
        send(partition, *[now.subtract(days=30)] * 5)
    with open_topics(spec.kafka[0]) as topics:
        wait_until(lambda: topics.describe(name).log_starts == {0: 5, 1: 5}, "the deletion", 120)
        assert topics.kept_ms(name) == KEPT_HOURS * 3_600_000
    last = floor(now, HOUR)
    send(1, *[last.subtract(minutes=minutes) for minutes in (170, 110, 50)])

    lake, hours = MemoryLake(), [Slice(last.subtract(hours=ago)) for ago in (9, 3, 2, 1)]
    resolve(spec, lake, hours, now)
    boundaries = BoundaryLog(lake).read()
    lost = [[(x.partition, x.start, x.until) for x in boundaries.expired(h, "dc1", [name])] for h in hours]
    assert lost == [[(0, 0, 5), (1, 0, 5)], [], [], []]
    ranges = [boundaries.ranges(hour, "dc1", [name]) for hour in hours]
    assert [[(r.start, r.until) for r in found or ()] for found in ranges] == [
        [(5, 5), (5, 5)],
        [(5, 5), (5, 6)],
        [(5, 5), (6, 7)],
        [(5, 5), (7, 8)],
    ]
