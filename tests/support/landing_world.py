"""A Kafka of lists and an engine in this process, for tests of the land step without a broker and Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import pendulum
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.kafka.records import RecordBody
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import KafkaUnavailable
from sluice.flow.land.land import Landing, land
from sluice.flow.land.merge import Merge
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task.columns import to_json
from sluice.flow.land.task.read_kafka import whole
from sluice.flow.land.task.read_lake import TOGETHER, shares
from sluice.flow.land.task.read_lake import batches as lake_batches
from sluice.flow.land.task.records import table_of
from sluice.flow.land.task.reports import TaskReport, WrittenFile
from sluice.flow.land.task.task import CUT_BYTES, Task
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import SliceRange, to_ms
from tests.support.fakes import FakeKafka, FakeReader, FakeTopic

START = pendulum.datetime(2026, 1, 1)
NOW = pendulum.datetime(2026, 2, 1)
SPEC = {
    "name": "demo",
    "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
    "event": {"type": {"field": "type"}, "time": {"field": "at"}},
    "lake": "file:///nowhere",
    "tables": {"click": "db.click"},
}


def event(kind: str = "click", minute: float = 0.0, **more: object) -> tuple[bytes, int]:
    """(value, record time in ms) of an event that happened `minute` minutes after START."""
    at = START.add(seconds=round(minute * 60))
    fields = "".join(f',"{key}":"{value}"' for key, value in more.items())
    return f'{{"type":"{kind}","at":"{at.isoformat()}"{fields}}}'.encode(), to_ms(at)


def hours(count: int, first: int = 0) -> SliceRange:
    return SliceRange(START.add(hours=first), START.add(hours=first + count))


def kafka_away() -> AbstractContextManager[object]:
    """What a receipt asks of Kafka is refused at once: a client tries a port without a broker for 10 s."""
    away = KafkaUnavailable("dc1", "127.0.0.1:1", "no broker")
    return patch("sluice.flow.erase.what_is_left.open_inquiry", side_effect=away)


@dataclass
class World:
    """`logs`: by (cluster, topic) a list of (value, record time) for each partition, some with headers and a
    key; a value of GAP is an offset without a record. `plain`: no topic is compacted or has transactions.
    `reads` are what Spark was asked for, `long` the records that tasks read themselves, `out_of_lake` how
    many files of the lake. `aborted`: offsets that only readers of uncommitted records are shown.
    """

    logs: dict[tuple[str, str], list[list[tuple]]]
    kafka: FakeKafka = field(init=False)
    reads: list[tuple[str, int, int, int]] = field(default_factory=list)
    plain: bool = False
    long: list[tuple[str, int, int]] = field(default_factory=list)
    out_of_lake: int = 0
    aborted: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.kafka = FakeKafka({})
        for (cluster, topic), partitions in self.logs.items():
            stamps = {number: [at for _, at, *_ in log] for number, log in enumerate(partitions)}
            self.kafka.topics[cluster, topic] = FakeTopic(f"id-{topic}", stamps)

    def expire(self, cluster: str, topic: str, partition: int, start: int) -> None:
        self.kafka.topics[cluster, topic].starts[partition] = start

    @contextmanager
    def topics_of(self, cluster: Cluster) -> Iterator[FakeReader]:
        if cluster.cluster in self.kafka.silent:
            raise KafkaUnavailable(cluster.cluster, cluster.bootstrap or "", "it is silent")
        yield _Reader(self.kafka, cluster, self)

    def unseen(self, cluster: Cluster) -> frozenset[int]:
        return self.aborted if cluster.isolation == "read_committed" else frozenset()

    def resolve(self, pipeline: Pipeline, lake: Lake, slices: SliceRange) -> None:
        resolve(pipeline, lake, list(slices), NOW, self.topics_of)

    def land(
        self,
        pipeline: Pipeline,
        lake: Lake,
        slices: SliceRange,
        mode: str = "fill",
        token: str = "t",
        say: Say = lambda line: None,
        **options,
    ) -> Landing:
        accept_loss = options.pop("accept_loss", True)
        engine = InProcess(self, **options)
        return land(pipeline, lake, slices, mode, token, engine, say, self.topics_of, accept_loss)


GAP = b"gap"


class _Reader(FakeReader):
    def __init__(self, kafka: FakeKafka, cluster: Cluster, world: World) -> None:
        super().__init__(kafka, cluster.cluster)
        self.world, self.unseen = world, world.unseen(cluster)

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        log = self.world.logs[self.cluster, topic][partition]
        return ((o, log[o][1]) for o in range(start, end) if log[o][0] is not GAP and o not in self.unseen)

    def left(self, topic: str, partition: int, gaps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        return list(gaps)

    def compacted(self, topic: str) -> bool:
        return not self.world.plain

    def unhidden(self, topic: str, partition: int, gaps: Sequence[tuple[int, int]]) -> tuple | None:
        return next(iter(gaps), None) if self.world.plain else None


@dataclass
class InProcess:
    """An engine that runs the tasks here; `twice` runs each a second time and drops what that reports, as a
    task of Spark's that was tried again; `hidden` offsets are not brought. Of more than `most_rows` records
    those that are in the lake are divided. `batch`: how many records Spark hands over at once; 0: half of
    them."""

    world: World
    rows_per_read: int = 10
    twice: bool = False
    hidden: frozenset[int] = frozenset()
    most_rows: int = TOGETHER
    batch: int = 0
    lands: int = 0

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        reports: list[TaskReport] = []
        self.lands += 1
        for number, (run, task) in enumerate(reads):
            read = f"{self.lands}-{number}"
            if task.files is not None:
                self.world.out_of_lake += len(task.files)
                own = shares(task, run.together, self.most_rows)
                reports += (t.land(lake_batches(t), f"{read}-lake-{n}") for n, t in enumerate(own))
                continue
            if run.together:
                batches = whole(task, self._all(run, task), self._reader(task))
                reports.append(task.land(batches, f"{read}-together"))
                continue
            for (topic, partition), edges in run.edges().items():
                own = task.pipeline.model_copy(update={"rows_per_read": self.rows_per_read})
                for start in range(edges[0], edges[-1], own.rows_per_task):
                    until = min(start + own.rows_per_task, int(edges[-1]))
                    self.world.reads.append((topic, partition, start, until))
                    batches = list(self._batches(task, topic, partition, start, until))
                    name = f"{read}-{topic}-{partition}-{start}"
                    if self.twice:
                        task.land(whole(task, batches, self._reader(task)), name + "-first")
                    reports.append(task.land(whole(task, batches, self._reader(task)), name))
        return TaskReport.of(reports)

    def merge(self, merges: Sequence[Merge]) -> list[WrittenFile]:
        return [merge.run(f"merged-{number}") for number, merge in enumerate(merges)]

    def _all(self, run: ReadGroup, task: Task) -> Iterator[pa.RecordBatch]:
        """All partitions in one task, as coalesce(1) gives them."""
        for (topic, partition), edges in run.edges().items():
            self.world.reads.append((topic, partition, int(edges[0]), int(edges[-1])))
            yield from self._batches(task, topic, partition, int(edges[0]), int(edges[-1]))

    def _batches(
        self, task: Task, topic: str, partition: int, start: int, until: int
    ) -> Iterator[pa.RecordBatch]:
        log = self.world.logs[task.cluster, topic][partition]
        unseen = self.hidden | self.world.unseen(task.pipeline.cluster(task.cluster))
        offsets = [o for o in range(start, until) if log[o][0] is not GAP and o not in unseen]
        size = self.batch or len(offsets) // 2 + 1
        for some in (offsets[at : at + size] for at in range(0, len(offsets), size)):
            yield kafka_batch(task.place(topic, partition), [(o, *log[o]) for o in some], CUT_BYTES + 1)

    def _reader(self, task: Task) -> LogReader:
        return LogReader(self.world, task.cluster, task.pipeline.max_record)


@dataclass
class LogReader:
    """Reads single records, as a task does where Spark has cut them."""

    world: World
    cluster: str
    max_record: int

    def each(self, topic: str, partition: int, offsets: Sequence[int]) -> Iterator[RecordBody]:
        for offset in offsets:
            value, _, *more = self.world.logs[self.cluster, topic][partition][offset]
            self.world.long.append((topic, partition, offset))
            size = len(value or b"")
            if size > self.max_record:
                yield RecordBody(None, None, None, size)
            else:
                yield RecordBody(b"k%d" % offset, value, more[0] if more else None)


def kafka_batch(place: int, rows: Sequence[tuple], most: int | None = None) -> pa.RecordBatch:
    """A batch of (offset, value, record time in ms), some with headers and a key, as Spark hands it over:
    `most` bytes of each value."""
    texts = [to_json(row[3]) if row[3:] and row[3] is not None else None for row in rows]
    return pa.record_batch(
        {
            "value": pa.array([value and value[:most] for _, value, *_ in rows], pa.binary()),
            "key": pa.array([row[4] if row[4:] else b"k%d" % row[0] for row in rows], pa.binary()),
            "headers": pa.array([text and text[:most] for text in texts], pa.string()),
            "place": pa.array([place] * len(rows), pa.int32()),
            "offset": pa.array([offset for offset, *_ in rows], pa.int64()),
            "timestamp": pa.array([at for _, _, at, *_ in rows], pa.int64()),
        }
    )


def record_table(
    values: Sequence[bytes | None], headers: Sequence | None = None, stamps: Sequence[int] | None = None
) -> pa.Table:
    """Records of one slice and partition of the topic `orders`, as a task's stages hand them on; the offset
    of each is its position. `headers` are lists of (key, value)."""
    pairs = headers or [None] * len(values)
    stored = [None if one is None else [(h["key"], h["value"]) for h in one] for one in pairs]
    at = stamps or [0] * len(values)
    batch = kafka_batch(0, list(zip(range(len(values)), values, at, stored, strict=True)))
    return table_of(batch, "dc1", "orders", 0, np.zeros(len(values), np.int64))


def pipeline(**changes: object) -> Pipeline:
    return Pipeline.model_validate({**SPEC, **changes})


def rows_in(lake: Lake, manifests: Sequence[Manifest]) -> list[tuple]:
    """(key's folder, cluster, topic, partition, offset, payload, type) of every row the manifests name."""
    found = []
    for manifest in manifests:
        for file in manifest.files:
            with lake.local(file.key) as path:
                for row in pq.read_table(path).to_pylist():
                    place = (row["_cluster"], row["_topic"], row["_partition"], row["_offset"])
                    found.append((file.key.rpartition("/")[0], *place, row["_payload"], row["_type"]))
    return sorted(found)


def state_of(lake: Lake) -> dict[str, bytes]:
    """Every visible object but boundaries; of manifests only that they are there, for they name attempts."""
    found = {}
    for item in lake.list(""):
        if not item.key.startswith("_boundaries/"):
            stored = lake.read(item.key)
            assert stored is not None
            found[item.key] = b"" if item.key.startswith("_slices/") else stored.data
    return found
