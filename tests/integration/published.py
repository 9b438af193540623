"""A pipeline to publish into, the command that does, and what the topic holds then."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pendulum
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from local.readiness import wait_until
from sluice.config.pipeline import Pipeline

AT = pendulum.datetime(2025, 3, 1, 10)
KEYS = {
    "kafka": {"__all__": {"cluster", "bootstrap", "topics"}},
    "event": {"type": {"field"}, "time": {"field"}},
    "lake": True,
}


def pipeline_of(bootstrap: str, topic: str, lake: Path | str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "adx",
            "kafka": [{"cluster": "dc1", "bootstrap": bootstrap, "topics": [topic]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{lake}",
        }
    )


def event(minute: int, **more: object) -> bytes:
    return json.dumps({"type": "click", "at": str(AT.add(minutes=minute)), **more}).encode()


def stored(bootstrap: str, topic: str) -> list[tuple[bytes, int]]:
    """(value, timestamp) of every record of the topic."""
    return [(record.value, record.timestamp) for record in records(bootstrap, topic)]


def records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    places = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(places)
    found = []
    while any(consumer.position(place) < ends[place] for place in places):
        for polled in consumer.poll(timeout_ms=500).values():
            found += polled
    consumer.close()
    return found


@contextmanager
def command(bootstrap: str, topic: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`sluice publish` as a user starts it; killed at the end if it still runs."""
    config = folder / "adx.yaml"
    config.write_text(json.dumps(pipeline_of(bootstrap, topic, folder).model_dump(mode="json", include=KEYS)))
    program = str(Path(sys.executable).with_name("sluice"))
    words = [program, "publish", "adx", *arguments, "--config", str(config), "--json"]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(bootstrap: str, topic: str, count: int) -> None:
    wait_until(lambda: arrived(bootstrap, topic) >= count, f"{count} records in {topic}", 60)


def arrived(bootstrap: str, topic: str) -> int:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, allow_auto_create_topics=False)
    try:
        if topic not in consumer.topics():
            return 0
        places = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
        return sum(consumer.end_offsets(places).values())
    finally:
        consumer.close()
