"""An engine that reads a real broker with a plain consumer and lands in this process, without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition

from sluice.clients.kafka.settings import BOOTSTRAP_MS, REQUEST_MS, KafkaSettings, reached, settings_of
from sluice.errors import KafkaUnavailable
from sluice.flow.land.merge import Merge
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task.reports import TaskReport, WrittenFile
from sluice.flow.land.task.task import Task
from tests.support.landing_world import kafka_batch

PIECE = 4
SILENT_SECONDS = 10


@contextmanager
def consumer(settings: KafkaSettings) -> Iterator[KafkaConsumer]:
    """A consumer of no group, with the cluster's isolation, that never moves by itself."""
    client = KafkaConsumer(
        isolation_level=settings.isolation,
        enable_auto_commit=False,
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        bootstrap_timeout_ms=BOOTSTRAP_MS,
        request_timeout_ms=REQUEST_MS,
        **settings.for_client(),
    )
    try:
        yield client
    finally:
        client.close(autocommit=False)


@dataclass(frozen=True)
class FromBroker:
    """`piece`: how many records a task has."""

    piece: int = PIECE

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        found = []
        for number, (run, task) in enumerate(reads):
            for (topic, partition), edges in run.edges().items():
                rows = self._records(task, topic, partition, int(edges[0]), int(edges[-1]))
                for start in range(0, len(rows), self.piece):
                    batch = self._batch(task, topic, partition, rows[start : start + self.piece])
                    found.append(task.land([batch], f"{number}-{partition}-{start}"))
        return TaskReport.of(found)

    def merge(self, merges: Sequence[Merge]) -> list[WrittenFile]:
        return [merge.run(f"merged-{number}") for number, merge in enumerate(merges)]

    def _records(self, task: Task, topic: str, partition: int, start: int, until: int) -> list[tuple]:
        settings, place = settings_of(task.pipeline.cluster(task.cluster)), TopicPartition(topic, partition)
        rows: list[tuple] = []
        with reached(settings), consumer(settings) as reader:
            reader.assign([place])
            reader.seek(place, start)
            deadline = time.monotonic() + SILENT_SECONDS
            while reader.position(place) < until:
                if time.monotonic() > deadline:
                    raise KafkaUnavailable(task.cluster, settings.bootstrap, "no records")
                found = reader.poll(timeout_ms=500).get(place, ())
                rows += (_row(r) for r in found if r.offset < until)
        return rows

    def _batch(self, task: Task, topic: str, partition: int, rows: list[tuple]) -> pa.RecordBatch:
        return kafka_batch(task.place(topic, partition), rows)


def _row(record: Any) -> tuple:
    place = (record.offset, record.value, record.timestamp)
    return place if record.key is None else (*place, None, record.key)
