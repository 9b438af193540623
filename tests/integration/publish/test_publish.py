from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest
import zstandard
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from sluice.errors import EventsRefused, KafkaUnavailable
from sluice.ship.publish import ShipOrder, publish
from tests.integration.published import AT, event, pipeline_of, stored

pytestmark = pytest.mark.integration


@pytest.fixture
def admin(kafka_broker: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=kafka_broker)
    yield client
    client.close()


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".zst", zstandard.compress)]
)
def test_every_event_arrives_as_it_is_at_its_own_time(
    kafka_broker: str, name: str, tmp_path: Path, admin: KafkaAdminClient, suffix: str, pack
):
    path = tmp_path / f"events.ndjson{suffix}"
    events = [event(n, text="é" * (n % 50)) for n in range(3000)]
    path.write_bytes(pack(b"\n".join(events)))
    result = publish(
        pipeline_of(kafka_broker, name, tmp_path), ShipOrder(str(path), lag=timedelta(minutes=5))
    )
    assert (result.events, result.bytes) == (3000, sum(map(len, events)))
    assert (result.no_time, result.time_refused) == (0, 0)
    expected = [(e, int(AT.add(minutes=n + 5).timestamp() * 1000)) for n, e in enumerate(events)]
    assert sorted(stored(kafka_broker, name)) == sorted(expected)
    (topic,) = admin.describe_topics([name])
    assert len(topic["partitions"]) == 4
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    configs = admin.describe_configs([resource])["topic"][name]
    assert configs["retention.ms"]["value"] == "-1"


def test_bad_bytes_and_impossible_times_are_published_too(kafka_broker: str, name: str, tmp_path: Path):
    path = tmp_path / "events.ndjson"
    soon = json.dumps({"at": str(pendulum.now("UTC").add(hours=3))}).encode()
    old = b'{"at": "1960-01-01T00:00:00Z"}'
    bad = [b"\xff\x00", b"not json", b'{"type": "click"}', soon, old]
    path.write_bytes(b"\n".join([event(1), *bad, event(2)]))
    result = publish(pipeline_of(kafka_broker, name, tmp_path), ShipOrder(str(path)))
    assert (result.events, result.no_time, result.time_refused, result.stamped_now) == (7, 3, 2, 0)
    found = dict(stored(kafka_broker, name))
    assert found.keys() == {event(1), *bad, event(2)}
    assert {found[value] for value in [event(1), *bad]} == {int(AT.add(minutes=1).timestamp() * 1000)}


def test_a_file_without_a_time_is_published_at_the_time_of_now(kafka_broker: str, name: str, tmp_path: Path):
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"\n".join([b"one", b"two"]))
    before, said = int(time.time() * 1000), []
    result = publish(pipeline_of(kafka_broker, name, tmp_path), ShipOrder(str(path)), said.append)
    assert (result.events, result.no_time, result.stamped_now) == (2, 2, 2)
    assert said[-1].startswith("no line has a time in the field at: all 2 records have the current time")
    found = dict(stored(kafka_broker, name))
    assert found.keys() == {b"one", b"two"}
    assert all(before <= stamp <= int(time.time() * 1000) for stamp in found.values())


def test_a_large_event(kafka_broker: str, name: str, tmp_path: Path):
    path = tmp_path / "events.ndjson"
    large = event(0, noise=os.urandom(6_000_000).hex())
    path.write_bytes(large + b"\n" + event(1))
    assert publish(pipeline_of(kafka_broker, name, tmp_path), ShipOrder(str(path))).events == 2
    assert {value for value, _ in stored(kafka_broker, name)} == {large, event(1)}


def test_a_topic_that_takes_only_small_events_names_the_line(
    kafka_broker: str, name: str, tmp_path: Path, admin: KafkaAdminClient
):
    """The events before it are in Kafka, none of them because of its neighbours' sizes is not; the rest
    follows once the topic takes it."""
    wanted = {name: {"num_partitions": 1, "configs": {"max.message.bytes": "10000"}}}
    admin.create_topics(wanted, wait_for_metadata=True)
    path, said = tmp_path / "events.ndjson", []
    events = [event(n % 60, number=n, noise=os.urandom(300).hex()) for n in range(3000)]
    events[2000] = event(0, noise=os.urandom(50_000).hex())
    path.write_bytes(b"\n".join(events))
    pipeline = pipeline_of(kafka_broker, name, tmp_path)
    refused = r"events\.ndjson, line 2001: topic dc1/.* \(MSG_SIZE_TOO_LARGE\).*max\.message\.bytes"
    with pytest.raises(EventsRefused, match=refused):
        publish(pipeline, ShipOrder(str(path)), on_report=said.append)
    (report,) = said
    arrived = [value for value, _ in stored(kafka_broker, name)]
    assert arrived[:2000] == events[:2000]
    assert (report.end, report.acknowledged) == ("failed", len(arrived))
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": "1000000"})])
    assert publish(pipeline, ShipOrder(str(path))).end == "done"
    assert set(events) == {value for value, _ in stored(kafka_broker, name)}


@pytest.mark.long
def test_a_broker_that_is_not_there(name: str, tmp_path: Path):
    path = tmp_path / "events.ndjson"
    path.write_bytes(event(0))
    with pytest.raises(KafkaUnavailable, match="127.0.0.1:1 "):
        publish(pipeline_of("127.0.0.1:1", name, tmp_path), ShipOrder(str(path)))
