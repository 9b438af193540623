"""The broker goes away while Spark reads, and comes back; then it goes for good, and the lake is enough."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from local.readiness import wait_until
from local.services import KafkaBroker
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.lake.open import open_lake
from sluice.errors import SluiceError
from sluice.flow.land.merge import Merge
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task.reports import TaskReport, WrittenFile
from sluice.flow.land.task.task import Task
from tests.faults.topic_story import Story
from tests.faults.topics import Topic

pytestmark = pytest.mark.faults
PER_PARTITION = 20_000
PARTITIONS = 2
ROWS_PER_READ = 500
READS = PARTITIONS * PER_PARTITION // ROWS_PER_READ


@dataclass
class Apart:
    """Spark, with a task for each read, however few the records are: the middle is then wide."""

    spark: Any

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        return self.spark.land([(replace(run, together=False), task) for run, task in reads])

    def merge(self, merges: Sequence[Merge]) -> list[WrittenFile]:
        return self.spark.merge(merges)


@pytest.fixture(scope="module")
def engine(engine: Any) -> Apart:
    engine.session()  # however long that takes
    return Apart(engine)


def fill(topic: Topic) -> dict[int, list[int]]:
    """Record n is in hour 0 or 1, by its place in its partition; the numbers by hour."""
    half = PER_PARTITION // 2
    numbers = count()
    places: dict[int, list[int]] = {0: [], 1: []}
    for hour in places:
        for partition in range(PARTITIONS):
            own = [next(numbers) for _ in range(half)]
            topic.send(*own, at=hour + 0.5, partition=partition)
            places[hour] += own
    return places


def restart_in_the_middle(story: Story, broker: KafkaBroker, how: str, done: threading.Event) -> int:
    """Waits for the first finished files, ends the broker, and starts it again: how many reads had ended."""
    attempts = open_lake(story.pipeline).root / "_attempts"
    finished = lambda: len({p.name for p in attempts.glob("**/*.parquet")})  # noqa: E731
    wait_until(lambda: finished() > 0 or done.is_set(), "the first file", 300, poll=0.002)
    getattr(broker, how)()
    reads = finished()
    assert not done.is_set(), "the landing was over before the broker was ended"
    broker.start()
    return reads


# A clean stop is gentler than kill -9.
@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.long)])
@pytest.mark.long
def test_the_broker_restarts_while_spark_reads(
    start_kafka_broker, clickhouse_server, name, tmp_path, monkeypatch, engine, fault_log, how
):
    broker = start_kafka_broker()
    topic = Topic(broker.bootstrap, name).make(partitions=PARTITIONS)
    places = fill(topic)
    story = Story(topic, tmp_path, clickhouse_server, monkeypatch, rows_per_read=ROWS_PER_READ)
    story.resolve(0, 1)
    done, ends = threading.Event(), []

    def landing() -> None:
        try:
            ends.append(story.land(0, 1, engine=engine))
        except SluiceError as error:
            ends.append(error)
        finally:
            done.set()

    with fault_log.trial("kill", f"the broker ({how}) while Spark reads", victim="broker"):
        thread = threading.Thread(target=landing, daemon=True)
        thread.start()
        reads = restart_in_the_middle(story, broker, how, done)
        thread.join(300)
        assert done.is_set() and 0 < reads < READS
        assert not isinstance(ends[0], SluiceError) or ends[0].retryable, ends[0]
        story.run(0, 1, engine=engine)
        story.expect(places)
        broker.kill()
        story.client.command(f"TRUNCATE TABLE {topic.name}.events")
        story.run(0, 1, "reload")
        story.expect(places)


@pytest.mark.long
def test_the_broker_restarts_while_a_task_reads(start_kafka_broker, name, fault_log):
    """What was not read ahead comes after the restart: no record is left out, and none comes twice."""
    broker = start_kafka_broker()
    topic = Topic(broker.bootstrap, name).make(partitions=2)
    half, pad = 10_000, [("pad", b"x" * 4000)]
    topic.send(*range(half), at=0.5, partition=0, headers=pad)
    topic.send(*range(half, 2 * half), at=0.5, partition=1, headers=pad)
    settings = KafkaSettings("dc1", broker.bootstrap)
    read: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
    with fault_log.trial("kill", "the broker (kill) while a task reads", victim="broker"):
        with BoundedReader(settings, 1 << 20) as reader:
            for records in reader.read([OffsetSpan(name, 0, 0, half), OffsetSpan(name, 1, 0, half)]):
                found = read[records.partition]
                if not found:
                    assert len(records.offsets) < half // 2
                    broker.kill()
                    broker.start()
                texts = [(value or b"").decode() for value in records.values]
                found += zip(records.offsets, texts, strict=True)
        for partition, found in read.items():
            sent = [one for one in topic.sent.values() if one.partition == partition]
            assert found == [(one.offset, one.payload) for one in sorted(sent, key=lambda one: one.offset)]
