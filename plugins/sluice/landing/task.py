"""Lands the records that one Spark task reads: parses them, and writes them into the attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice import points
from sluice.lake.base import Lake
from sluice.landing import columns, headers
from sluice.landing.gathering import Codes, Gathering
from sluice.landing.overflow import Admission
from sluice.landing.parse import Parsed, Parser, Records
from sluice.landing.reports import Report, WrittenFile
from sluice.landing.seen import SeenRecords
from sluice.landing.times import HOUR_MS, event_bounds, hour_name
from sluice.landing.writer import AttemptFiles, Place
from sluice.pipeline import Pipeline
from sluice.points import Land
from sluice.slices import Slice

# A value, key or list of headers is handed over up to this size, so that a batch of records is bounded
# without weighing each: weighing them costs Spark as much as handing them over.
CUT_BYTES = 64 << 10


@dataclass(frozen=True)
class Task:
    """What every task of one read knows; it travels to the workers.

    `edges`: by (topic, partition) the offset at which each slice begins, and the last one's end.
    `whole`: records come as they are; otherwise cut, and a slice with a record that was is not landed but
    reported, to be read once more.
    """

    pipeline: Pipeline
    lake: Lake
    cluster: str
    attempt: str
    slices: tuple[Slice, ...]
    edges: Mapping[tuple[str, int], np.ndarray]
    whole: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self.edges}))

    def columns(self) -> tuple[str, ...]:
        """What Spark has to select. `place` is one number for partition and topic: a text in every row
        costs Spark more to hand over."""
        names = ", ".join(f"'{topic}'" for topic in self.topics)
        number = f"partition * {len(self.topics)} + int(array_position(array({names}), topic)) - 1"
        place = "partition" if len(self.topics) == 1 else number
        texts = {"value": "value", "key": "key", "headers": headers.EXPRESSION}
        cut = texts if self.whole else {n: f"substring({t}, 1, {CUT_BYTES + 1})" for n, t in texts.items()}
        contents = [f"{text} as {name}" for name, text in cut.items()]
        return (*contents, f"{place} as place", "offset", "timestamp")

    def place(self, topic: str, partition: int) -> int:
        return partition * len(self.topics) + self.topics.index(topic)

    def land(self, batches: Iterable[pa.RecordBatch], name: str) -> Report:
        """Writes the records of `batches`, which have `columns()`; `name` is unique in the attempt."""
        with AttemptFiles(self.lake, self.cluster, self.attempt, name) as files:
            landing = _Landing(self, files)
            for batch in batches:
                for part in _by_place(batch):
                    landing.add(part)
            landing.write()
            report = landing.report(files.finish())
            points.reached(Land.TASK_DONE)
            return report


class _Landing:
    def __init__(self, task: Task, files: AttemptFiles) -> None:
        pipeline = task.pipeline
        self.seen = SeenRecords()
        self._task = task
        self._places = {task.place(*place): place for place in task.edges}
        self._files = files
        self._parser = Parser(pipeline.event)
        self._earliest, self._latest = event_bounds(task.slices, pipeline.max_early, pipeline.max_late)
        self._admission = Admission(pipeline.types, pipeline.max_types)
        self._rows, self._rejected = Gathering(), Gathering()
        self._cut: set[int] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Records of one partition, in the order of their offsets."""
        topic, partition = self._places[batch["place"][0].as_py()]
        slices = self._slices(topic, partition, batch)
        self._cut |= set() if self._task.whole else set(slices[_cut(batch)].tolist())
        if self._cut:
            left = ~np.isin(slices, list(self._cut))
            batch, slices = batch.filter(pa.array(left)), slices[left]
        if batch.num_rows:
            self._add(topic, partition, batch, slices)

    def report(self, files: tuple[WrittenFile, ...]) -> Report:
        """Files of slices with a cut record are left out: they stay behind in the attempt."""
        found = Report(files, self.seen.report(self._task.cluster, self._task.slices))
        return found.without(frozenset((self._task.slices[n].id, self._task.cluster) for n in self._cut))

    def _slices(self, topic: str, partition: int, batch: pa.RecordBatch) -> np.ndarray:
        offsets = batch["offset"].to_numpy()
        return np.searchsorted(self._task.edges[topic, partition], offsets, "right") - 1

    def _add(self, topic: str, partition: int, batch: pa.RecordBatch, slices: np.ndarray) -> None:
        offsets = batch["offset"].to_numpy()
        times = batch["timestamp"].view(pa.int64()).to_numpy() // 1000
        earliest, latest = self._earliest[slices], self._latest[slices]
        found = headers.from_json(batch["headers"])
        parsed = self._parser.parse(Records(batch["value"], topic, found, times, earliest, latest))
        self.seen.add(topic, partition, slices, offsets, parsed.refused)
        taken = columns.taken(batch, self._task.cluster, topic, partition, found)
        self._gather(taken, slices, parsed)
        if self._rows.full or self._rejected.full:
            self.write()

    def write(self) -> None:
        """Everything gathered, as one row group in each file that it belongs to."""
        names = self._parser.types.names
        for run in self._rows.drain():
            own = None if run.type == len(names) else names[run.type]
            codes = run.rows["_type"].combine_chunks()
            found = columns.constant(own, len(codes)) if own is not None else columns.names(codes, names)
            counts = {} if own is not None else Counter(found.to_pylist())
            place = Place(self._task.slices[run.slice].id, own, hour_name(run.hour))
            self._files.write(place, columns.rows(run.rows, found), counts)
        for run in self._rejected.drain():
            place = Place(self._task.slices[run.slice].id, None, "")
            self._files.write(place, run.rows.cast(columns.REJECTED), {})

    def _gather(self, taken: pa.Table, slices: np.ndarray, parsed: Parsed) -> None:
        if not parsed.refused:
            self._keep(taken, slices, parsed)
            return
        self._keep(taken.take(pa.array(parsed.rows)), slices[parsed.rows], parsed)
        positions = np.array(sorted(parsed.refused), np.int64)
        reasons = pa.array([parsed.refused[position] for position in positions.tolist()], pa.string())
        rejected = taken.take(pa.array(positions)).add_column(1, "_reason", reasons)
        nothing = np.zeros(len(positions), np.int32)
        self._rejected.add(rejected, Codes(slices[positions], nothing, nothing))

    def _keep(self, rows: pa.Table, slices: np.ndarray, parsed: Parsed) -> None:
        types = self._admission.codes(slices, parsed.types, self._parser.types.names)
        rows = rows.add_column(1, "_type", pa.array(parsed.types))
        self._rows.add(rows, Codes(slices, types, parsed.times // HOUR_MS))


def _cut(batch: pa.RecordBatch) -> np.ndarray:
    """Which records are longer than CUT_BYTES in what was handed over of them."""
    lengths = (pc.fill_null(pc.binary_length(batch[name]), 0) for name in ("value", "key", "headers"))
    return np.flatnonzero(np.maximum.reduce([length.to_numpy() for length in lengths]) > CUT_BYTES)


def _by_place(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of one topic and partition; as Spark reads, that is the batch itself."""
    if not batch.num_rows:
        return
    others = np.flatnonzero(np.diff(batch["place"].to_numpy())) + 1
    edges = [0, *others.tolist(), batch.num_rows]
    yield from (batch.slice(start, until - start) for start, until in pairwise(edges))
