"""What lies behind an open transaction, as a real broker tells it."""

from __future__ import annotations

import pendulum
import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient, NewTopic

from local.readiness import wait_until
from sluice.config.pipeline import Pipeline
from sluice.flow.resolve.resolve import resolve
from sluice.plan.lag import ask_topics, lag_of
from sluice.slices import SliceRange, floor
from sluice.state.boundaries.model import Boundaries
from tests.support.fakes import MemoryLake

pytestmark = pytest.mark.integration


def test_an_open_transaction_is_no_empty_log(kafka_broker: str, name: str):
    """Partition 0: 3 plain records, a transaction of 2 that stays open, 4 plain ones behind it. Partition 1:
    5 records. Nothing of either has landed."""
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    admin.create_topics([NewTopic(name, 2, 1)])
    admin.close()
    plain = Producer({"bootstrap.servers": kafka_broker, "log_level": 0})
    owner = Producer({"bootstrap.servers": kafka_broker, "log_level": 0, "transactional.id": name})

    def send(producer: Producer, partition: int, count: int) -> None:
        for _ in range(count):
            producer.produce(name, b"{}", partition=partition)
        assert producer.flush(30) == 0

    owner.init_transactions(60)
    send(plain, 0, 3)
    owner.begin_transaction()
    send(owner, 0, 2)
    send(plain, 0, 4)
    send(plain, 1, 5)
    cluster = {"cluster": "dc1", "bootstrap": kafka_broker, "topics": [name]}
    spec = Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [cluster],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///nowhere",
        }
    )
    now = pendulum.now("UTC")
    hour = SliceRange(floor(now, spec.slice), floor(now, spec.slice).add(hours=1))

    def seen(of: Pipeline = spec) -> dict[int, tuple[int, int, int]]:
        lag = lag_of([], *ask_topics(of, Boundaries()), now, Boundaries())
        assert lag.errors == []
        return {p.partition: (p.log_end, p.records, p.held) for p in lag.partitions}

    assert seen() == {0: (3, 9, 6), 1: (5, 5, 0)}
    (held,) = resolve(spec, MemoryLake(), list(hour), hour.end).held
    assert (held.partition, held.offset, held.count) == (0, 3, 6)
    dirty = spec.model_copy(
        update={"kafka": [spec.kafka[0].model_copy(update={"isolation": "read_uncommitted"})]}
    )
    assert seen(dirty) == {0: (9, 9, 0), 1: (5, 5, 0)}

    owner.commit_transaction(60)
    wait_until(lambda: seen()[0][2] == 0, "the end of the transaction", 60)
    assert seen() == {0: (10, 10, 0), 1: (5, 5, 0)}  # with the marker
    assert resolve(spec, MemoryLake(), list(hour), hour.end).held == ()
