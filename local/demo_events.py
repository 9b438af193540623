"""Publishes the demo's sample events, hour by hour, and only those hours that Kafka does not hold yet."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from local.progress import CommandFailed, say
from local.sample_events import HOUR, LATE_SHARE, PER_HOUR, late, on_time

EXPECTED = PER_HOUR + int(PER_HOUR * LATE_SHARE)


def records_in(bootstrap: str, topic: str, hour: datetime) -> int:
    """Returns the records of the topic whose Kafka time is in the hour; 0 when there is no such topic."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        if not partitions:
            return 0
        ends = consumer.end_offsets(partitions)
        starts = offsets_at(consumer, ends, hour)
        stops = offsets_at(consumer, ends, hour + HOUR)
        return sum(stops[partition] - starts[partition] for partition in partitions)
    finally:
        consumer.close()


def offsets_at(consumer: KafkaConsumer, ends: Mapping, instant: datetime) -> dict:
    offsets = consumer.offsets_for_times(dict.fromkeys(ends, int(instant.timestamp() * 1000)))
    return {
        partition: offsets[partition].offset if offsets.get(partition) else end
        for partition, end in ends.items()
    }


def publish(lines: Iterable[str], folder: Path, name: str, env: Mapping[str, str], *options: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.ndjson"
    file.write_text("".join(line + "\n" for line in lines))
    command = [str(Path(sys.executable).with_name("sluice")), "publish", "adx", str(file), *options]
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True)
    if done.returncode:
        raise CommandFailed(f"sluice publish failed ({done.returncode}): {done.stderr.strip()}")


def publish_hour(hour: datetime, folder: Path, env: Mapping[str, str]) -> None:
    name = f"{hour:%Y-%m-%dT%HZ}"
    # In this order: the late ones stand behind the hour's own and before the next hour's.
    publish(on_time(hour), folder, name, env)
    publish(late(hour), folder, f"{name}-late", env, "--lag", "1h")


def publish_missing(hours: list[datetime], bootstrap: str, folder: Path, env: Mapping[str, str]) -> None:
    for hour in hours:
        records = records_in(bootstrap, "adx", hour)
        if records == 0:
            publish_hour(hour, folder, env)
            say(f"published {EXPECTED:,} events of {hour:%Y-%m-%d %H:00}")
        else:
            note = "" if records == EXPECTED else f" of {EXPECTED:,}; an earlier publish was cut short"
            say(f"Kafka holds {hour:%Y-%m-%d %H:00} already: {records:,} events{note}")
