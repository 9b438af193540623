"""How fast `sluice publish` is, against a bare confluent producer: the same events, file and settings.

    python -m benchmarks.publish [--count 1000000] [--rounds 3]

The bare producer reads the lines and produces them with the file's own times, without headers, without a
parse the events, without counting answers: the least that a program of one's own would do.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.publish_events import Load, create_topic
from local import services

PARTITIONS = 4
SAME = {
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 50,
    "batch.size": 900_000,
    "queue.buffering.max.kbytes": 32 << 10,
    "queue.buffering.max.messages": 100_000,
}


def write_events(path: Path, count: int) -> None:
    with path.open("wb") as file:
        for _, event, _ in Load(count).events():
            file.write(event + b"\n")


def bare(bootstrap: str, topic: str, path: Path) -> None:
    """What the process of `python -m benchmarks.publish --bare …` does."""
    producer = Producer({"bootstrap.servers": bootstrap, **SAME})
    with path.open("rb") as file:
        for number, line in enumerate(file):
            while True:
                try:
                    producer.produce(topic, line[:-1], partition=number // 1000 % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush()


def timed(words: list[str]) -> tuple[float, float]:
    """Seconds and processor seconds of a command."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - started, cpu


def pipeline_file(folder: Path, bootstrap: str, topic: str) -> Path:
    path = folder / f"{topic}.yaml"
    content = {
        "kafka": [{"cluster": "dc1", "bootstrap": bootstrap, "topics": [topic]}],
        "event": {"type": {"field": "type"}, "time": {"field": "timestamp"}},
        "lake": f"file://{folder}/lake",
    }
    path.write_text(json.dumps(content))
    return path


def round_of(bootstrap: str, folder: Path, events: Path, number: int) -> dict[str, tuple[float, float]]:
    """Each on a topic of its own, so that nobody finds warm files."""
    program = str(Path(sys.executable).with_name("sluice"))
    found = {}
    for name in ("bare", "sluice", "sluice with keys"):
        topic = f"{name.replace(' ', '_')}{number}"
        create_topic(bootstrap, topic, PARTITIONS)
        config = ["--config", str(pipeline_file(folder, bootstrap, topic))]
        words = [program, "publish", topic, str(events), *config]
        if name == "bare":
            words = [sys.executable, "-m", "benchmarks.publish", "--bare", bootstrap, topic, str(events)]
        found[name] = timed([*words, "--key", "user"] if name.endswith("keys") else words)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare", nargs=3, metavar=("BOOTSTRAP", "TOPIC", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bare:
        return bare(given.bare[0], given.bare[1], Path(given.bare[2]))
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder, events = Path(name), Path(name, "events.ndjson")
        write_events(events, given.count)
        broker = services.kafka_broker(folder / "kafka")
        try:
            rounds = [round_of(broker.bootstrap, folder, events, n) for n in range(given.rounds)]
        finally:
            broker.kill()
        megabytes = events.stat().st_size / 1e6
    report(rounds, given.count, megabytes)


def report(rounds: list[dict[str, tuple[float, float]]], count: int, megabytes: float) -> None:
    """Medians; the ratio is to the bare producer of the same run."""
    print(f"{count:,} events, {megabytes:,.0f} MB, {len(rounds)} rounds, each command whole with its start")
    least = statistics.median(found["bare"][0] for found in rounds)
    for name in rounds[0]:
        seconds = statistics.median(found[name][0] for found in rounds)
        cpu = statistics.median(found[name][1] for found in rounds)
        rate = f"{count / seconds:,.0f} events/s, {megabytes / seconds:,.0f} MB/s"
        print(f"{name:<18}{seconds:6.1f} s {seconds / least:5.2f}×  cpu {cpu:5.1f} s  {rate}")


if __name__ == "__main__":
    main()
