"""Kafka and the landing's engine in this process: tests/support/landing_world.py with keys and headers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sluice.clients.kafka.records import RecordBody
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.flow.land.land import Landing, land
from sluice.flow.land.task.task import CUT_BYTES, Task
from sluice.slices import SliceRange
from tests.pairs.log import Place, Sent
from tests.support.landing_world import GAP, InProcess, World

_BATCH = 8  # records: a task gets many batches
Log = Mapping[Place, list[Sent]]


def world_of(log: Log) -> World:
    logs: dict[tuple[str, str], list[list]] = {}
    for (cluster, topic, _), sent in sorted(log.items()):
        records = [(one.message.value if one.message else GAP, one.stamp) for one in sent]
        logs.setdefault((cluster, topic), []).append(records)
    return World(logs)


@dataclass
class Engine(InProcess):
    """`log` has the records' keys and headers."""

    log: Log | None = None

    def _batches(
        self, task: Task, topic: str, partition: int, start: int, until: int
    ) -> Iterator[pa.RecordBatch]:
        sent = self.log[task.cluster, topic, partition]
        there = [offset for offset in range(start, until) if sent[offset].message]
        for first in range(0, len(there), _BATCH):
            some = [(offset, sent[offset]) for offset in there[first : first + _BATCH]]
            yield _batch(task.place(topic, partition), some, CUT_BYTES + 1)

    def _reader(self, task: Task) -> SentReader:
        return SentReader(self.log, task.cluster)


@dataclass
class SentReader:
    """Reads single records, as a task does where Spark has cut them."""

    log: Log
    cluster: str

    def each(self, topic: str, partition: int, offsets: Sequence[int]) -> Iterator[RecordBody]:
        for offset in offsets:
            sent = self.log[self.cluster, topic, partition][offset]
            yield RecordBody(sent.key, sent.message.value, list(sent.headers) or None)


def _batch(place: int, records: list[tuple[int, Sent]], most: int) -> pa.RecordBatch:
    """As Spark hands records over: of values and keys `most` bytes."""
    values = [one.message.value and one.message.value[:most] for _, one in records]
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "key": pa.array([one.key and one.key[:most] for _, one in records], pa.binary()),
            "headers": pa.array([_headers(one) for _, one in records], pa.string()),
            "place": pa.array([place] * len(records), pa.int32()),
            "offset": pa.array([offset for offset, _ in records], pa.int64()),
            "timestamp": pa.array([one.stamp for _, one in records], pa.int64()),
        }
    )


def _headers(sent: Sent) -> str | None:
    """A record's headers as Spark's to_json writes them: null without any, a null value left out."""
    if not sent.headers:
        return None
    found = []
    for key, value in sent.headers:
        told = {} if value is None else {"value": base64.b64encode(value).decode()}
        found.append({"key": key, **told})
    return json.dumps(found)


def land_in_process(
    log: Log,
    pipeline: Pipeline,
    lake: Lake,
    slices: SliceRange,
    mode: str,
    token: str,
    world: World,
    rows: int,
    say: Callable[[str], None],
) -> Landing:
    """`rows`: at most so many offsets in a read."""
    engine = Engine(world, rows_per_read=rows, log=log)
    return land(pipeline, lake, slices, mode, token, engine, say, world.topics_of)
