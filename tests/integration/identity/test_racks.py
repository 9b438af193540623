"""A replica in the client's own rack gives the records, also while the leader stands still (KIP-392)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local import kafka_broker, services
from local.readiness import free_port, wait_until
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings

pytestmark = pytest.mark.integration

COUNT, SIZE = 30, 1_000_000  # more than one fetch brings


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[services.KafkaBroker]]:
    """Two brokers of one cluster, in the racks a and b; the first is the controller, too."""
    folder, ports, controller = tmp_path_factory.mktemp("racks"), (free_port(), free_port()), free_port()
    started: list[services.KafkaBroker] = []
    for number, (port, rack) in enumerate(zip(ports, "ab", strict=True), 1):
        data, place = folder / rack, f"PLAINTEXT://127.0.0.1:{port}"
        lines = [
            f"node.id={number}",
            f"broker.rack={rack}",
            "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
        ]
        if started:
            lines += ["process.roles=broker", f"listeners={place}"]
            join(started[0].data, data, port, controller, lines)
        more = folder / f"{rack}.properties"
        more.write_text("\n".join(lines) + "\n")
        options = ["--controller-port", str(controller), "--properties", str(more)]
        started.append(services.KafkaBroker("local.kafka_broker", data, port, options).start())
    yield started
    for broker in started:
        broker.kill()


def join(first: Path, data: Path, port: int, controller: int, lines: list[str]) -> None:
    """Gives the second broker's storage the first one's cluster id."""
    meta = (first / "log" / "meta.properties").read_text().split()
    (cluster,) = (line.partition("=")[2] for line in meta if line.startswith("cluster.id="))
    properties = kafka_broker.write_configuration(data, port, controller, "\n".join(lines) + "\n")
    kafka_broker.storage_tool("format", "-t", cluster, "-c", str(properties))


def filled(bootstrap: str, topic: str) -> list[bytes]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == 2, "two brokers", 60)
    new = NewTopic(topic, replica_assignment=[[1, 2]], num_partitions=1, config={"retention.ms": "-1"})
    admin.create_topics([new])[topic].result(30)
    values = [b"%06d" % n + os.urandom(SIZE // 2) + bytes(SIZE // 2) for n in range(COUNT)]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", "message.max.bytes": 2 * SIZE}
    )
    for value in values:
        producer.produce(topic, value[:SIZE], partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return [value[:SIZE] for value in values]


def test_the_replica_in_the_rack_gives_the_records(racks: list[services.KafkaBroker], name: str):
    values = filled(racks[0].bootstrap, name)
    settings = KafkaSettings("dc1", racks[0].bootstrap, rack="b")
    span = OffsetSpan(name, 0, 0, COUNT)
    with BoundedReader(settings, 4 * SIZE) as reader:
        assert [value for part in reader.read([span]) for value in part.values] == values
        os.kill(racks[0].process.pid, signal.SIGSTOP)
        try:
            assert [value for part in reader.read([span]) for value in part.values] == values
        finally:
            os.kill(racks[0].process.pid, signal.SIGCONT)


@pytest.mark.parametrize("rack", ["a", "elsewhere", None])
def test_from_any_other_rack_the_leader_gives_them(racks: list[services.KafkaBroker], name: str, rack):
    values = filled(racks[0].bootstrap, name)
    with BoundedReader(KafkaSettings("dc1", racks[0].bootstrap, rack=rack), 4 * SIZE) as reader:
        found = [value for part in reader.read([OffsetSpan(name, 0, 0, COUNT)]) for value in part.values]
    assert found == values


def test_a_replica_that_goes_away_is_left_for_the_leader(racks: list[services.KafkaBroker], name: str):
    values = filled(racks[0].bootstrap, name)
    with BoundedReader(KafkaSettings("dc1", racks[0].bootstrap, rack="b"), 4 * SIZE) as reader:
        parts = reader.read([OffsetSpan(name, 0, 0, COUNT)])
        found = [*next(parts).values]
        racks[1].kill()
        found += [value for part in parts for value in part.values]
    racks[1].start()
    assert found == values
