from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest
import zstandard
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from sluice.errors import EventsRefused, KafkaOutOfReach
from sluice.pipeline import Pipeline
from sluice.publish import publish

pytestmark = pytest.mark.integration

AT = pendulum.datetime(2025, 3, 1, 10)


def pipeline_of(bootstrap: str, topic: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "adx",
            "kafka": [{"cluster": "dc1", "bootstrap": bootstrap, "topics": [topic]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": "file:///lake",
        }
    )


def event(minute: int, **more: object) -> bytes:
    return json.dumps({"type": "click", "at": str(AT.add(minutes=minute)), **more}).encode()


@pytest.fixture
def admin(kafka_broker: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=kafka_broker)
    yield client
    client.close()


def stored(bootstrap: str, topic: str) -> list[tuple[bytes, int]]:
    """(value, timestamp) of every record of the topic."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    places = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(places)
    found = []
    while any(consumer.position(place) < ends[place] for place in places):
        for records in consumer.poll(timeout_ms=500).values():
            found += [(record.value, record.timestamp) for record in records]
    consumer.close()
    return found


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".zst", zstandard.compress)]
)
def test_every_event_arrives_as_it_is_at_its_own_time(
    kafka_broker: str, name: str, tmp_path: Path, admin: KafkaAdminClient, suffix: str, pack
):
    path = tmp_path / f"events.ndjson{suffix}"
    events = [event(n, text="é" * (n % 50)) for n in range(3000)]
    path.write_bytes(pack(b"\n".join(events)))
    result = publish(pipeline_of(kafka_broker, name), str(path), lag=timedelta(minutes=5))
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
    before = int(time.time() * 1000)
    result = publish(pipeline_of(kafka_broker, name), str(path))
    assert (result.events, result.no_time, result.time_refused) == (7, 3, 2)
    found = dict(stored(kafka_broker, name))
    assert found.keys() == {event(1), *bad, event(2)}
    assert all(before <= found[value] <= int(time.time() * 1000) for value in bad)


def test_a_large_event(kafka_broker: str, name: str, tmp_path: Path):
    path = tmp_path / "events.ndjson"
    large = event(0, noise=os.urandom(6_000_000).hex())
    path.write_bytes(large + b"\n" + event(1))
    assert publish(pipeline_of(kafka_broker, name), str(path)).events == 2
    assert {value for value, _ in stored(kafka_broker, name)} == {large, event(1)}


def test_a_topic_that_takes_only_small_events_says_so(
    kafka_broker: str, name: str, tmp_path: Path, admin: KafkaAdminClient
):
    wanted = {name: {"num_partitions": 1, "configs": {"max.message.bytes": "10000"}}}
    admin.create_topics(wanted, wait_for_metadata=True)
    path = tmp_path / "events.ndjson"
    path.write_bytes(event(0, noise=os.urandom(50_000).hex()))
    with pytest.raises(EventsRefused, match="max.message.bytes"):
        publish(pipeline_of(kafka_broker, name), str(path))


def test_a_broker_that_is_not_there(name: str, tmp_path: Path):
    path = tmp_path / "events.ndjson"
    path.write_bytes(event(0))
    with pytest.raises(KafkaOutOfReach, match="127.0.0.1:1 "):
        publish(pipeline_of("127.0.0.1:1", name), str(path))


def test_standard_input_is_published_as_it_comes(kafka_broker: str, name: str):
    """The first events are in Kafka while the source is still open, as with tail -f."""
    program = (
        "from tests.integration.test_publish import pipeline_of\n"
        "from sluice.publish import publish\n"
        f"print(publish(pipeline_of({kafka_broker!r}, {name!r}), '-').events)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        process.stdin.write(event(1) + b"\n")
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not arrived(kafka_broker, name):
            assert time.monotonic() < deadline
        process.stdin.write(event(2) + b"\n")
        out, _ = process.communicate(timeout=60)
    assert out == b"2\n"
    assert {value for value, _ in stored(kafka_broker, name)} == {event(1), event(2)}


def environment() -> dict[str, str]:
    root = Path(__file__).parents[2]
    return os.environ | {"PYTHONPATH": f"{root / 'plugins'}{os.pathsep}{root}"}


def arrived(bootstrap: str, topic: str) -> bool:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, allow_auto_create_topics=False)
    try:
        return topic in consumer.topics() and bool(stored(bootstrap, topic))
    finally:
        consumer.close()
