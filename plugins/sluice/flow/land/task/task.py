"""Lands the records that one Spark task reads: stage by stage, into the files of the attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sluice import crash_points
from sluice.clients.lake.base import Lake, OfPipeline
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.errors import CannotRemake
from sluice.flow.land.expansion import bound_of
from sluice.flow.land.task import columns
from sluice.flow.land.task.count_fields import Tally
from sluice.flow.land.task.decode import Decoding, opener
from sluice.flow.land.task.erasing import Erasing
from sluice.flow.land.task.field_tally import FieldTally
from sluice.flow.land.task.masking import RecordMasks, marks_of
from sluice.flow.land.task.opened import Opened
from sluice.flow.land.task.parse import Parser
from sluice.flow.land.task.records import (
    FILE_TYPE,
    HOUR,
    SLICE,
    Deduplicator,
    WholeRecords,
    rejected_to_write,
    table_of,
    to_gather,
    to_write,
)
from sluice.flow.land.task.reports import (
    Explain,
    RecordTimes,
    SchemasAsked,
    SeenRecords,
    SeenSchemas,
    TaskReport,
    WrittenFile,
)
from sluice.flow.land.task.times import TimeBounds, hour_name
from sluice.flow.land.task.type_folders import OVERFLOW, Admission
from sluice.flow.land.task.writer import AttemptFiles, FilePlace, Gathering
from sluice.manifest import LandedFile, Masked
from sluice.mask.mask_rules import MaskRules
from sluice.runtime import deeper
from sluice.slices import Slice, Unit
from sluice.state.erasures import NONE, ErasureList


@dataclass(frozen=True)
class LakeFile:
    """`rejected`: it holds records, or rows of records, that were not parsed. `reland`: the command that
    reads its unit from Kafka again. `masked`: what was masked of the unit. `gaps`: rows of its records were
    erased, and the others have their numbers."""

    unit: str
    key: str
    rows: int
    sha256: str
    rejected: bool
    reland: str
    masked: Masked | None = None
    gaps: bool = False

    @classmethod
    def of(
        cls, lake: OfPipeline, unit: Unit, file: LandedFile, masked: Masked | None = None, gaps: bool = False
    ) -> LakeFile:
        reland = reland_of(lake, unit)
        return cls(str(unit), file.key, file.rows, file.sha256, not file.hour, reland, masked, gaps)

    def refusal(self, why: str) -> CannotRemake:
        return CannotRemake(self.unit, f"file {self.key} {why}", self.reland)


def reland_of(lake: OfPipeline, unit: Unit) -> str:
    """Returns the command that reads a unit from Kafka again."""
    return lake.command("run", *unit.slice.words, "--mode", "reland")


# A value, key or list of headers is handed over up to this size, so that a batch of records is bounded
# without weighing each: weighing them costs Spark as much as handing them over.
CUT_BYTES = 64 << 10


@dataclass(frozen=True)
class Task:
    """What every task of one read knows; it travels to the workers.

    `edges`: by (topic, partition) the offset at which each slice begins, and the last one's end. `whole`: the
    edges of the task that it is a part of.
    `decoding`: how messages are decoded that are not JSON.
    `exact_fields`: types whose fields are counted in every row, and not in a sample; `*` stands for those
    without a table of their own. `files`: those of the lake that hold the records, where a unit is
    remade; None: they are in Kafka. `erasures`: what is left out. `masked`: what is hidden already, by slice.
    """

    pipeline: Pipeline
    lake: Lake
    cluster: str
    attempt: str
    slices: tuple[Slice, ...]
    edges: Mapping[tuple[str, int], np.ndarray]
    decoding: Decoding | None = None
    exact_fields: frozenset[str] = frozenset()
    files: tuple[LakeFile, ...] | None = None
    erasures: ErasureList = NONE
    mask: MaskRules | None = None
    masked: tuple[Masked | None, ...] = ()
    whole: Mapping[tuple[str, int], np.ndarray] | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self.edges}))

    def columns(self) -> tuple[str, ...]:
        """Returns what Spark has to select: long texts are cut. `place` is one number for partition and
        topic: a text in every row costs Spark more to hand over."""
        names = ", ".join(f"'{topic}'" for topic in self.topics)
        number = f"partition * {len(self.topics)} + int(array_position(array({names}), topic)) - 1"
        place = "partition" if len(self.topics) == 1 else number
        texts = {"value": "value", "key": "key", "headers": columns.EXPRESSION}
        contents = [f"substring({text}, 1, {CUT_BYTES + 1}) as {name}" for name, text in texts.items()]
        return (*contents, f"{place} as place", "offset", "unix_millis(timestamp) as timestamp")

    def place(self, topic: str, partition: int) -> int:
        return partition * len(self.topics) + self.topics.index(topic)

    def land(
        self, batches: Iterable[pa.RecordBatch], name: str, explain: Explain | None = None
    ) -> TaskReport:
        """Writes the records of `batches`, which have `columns()`, whole, and each batch those of one topic
        and partition; `name` is unique in the attempt. `explain` reads offsets that they lack."""
        with deeper(), AttemptFiles(self.lake, self.cluster, self.attempt, name) as files:
            landing = _Landing(self, files, name)
            for batch in batches:
                if batch.num_rows:
                    landing.add(batch)
            report = landing.report(explain)
            crash_points.reached(Land.TASK_DONE)
            return report


class _Landing:
    """The stages of one task. Each takes a table, and returns the rows that go on and those that are rejected
    (records.py); what is rejected is erased and masked, too."""

    def __init__(self, task: Task, files: AttemptFiles, name: str) -> None:
        pipeline, event, slices = task.pipeline, task.pipeline.event, task.slices
        counted = {path for spec in pipeline.counts for path in spec.by.values()}
        self._task, self._files, self._name = task, files, name
        self._places = {task.place(*place): place for place in task.edges}
        # In the order in which records come to them:
        self._seen, self._times = SeenRecords(event.arrays), RecordTimes(slices)
        self._whole = WholeRecords(Deduplicator(event))
        self._asked = SchemasAsked()
        self._open = opener(event, task.decoding, bound_of(pipeline.max_record), self._asked)
        self._erasing = Erasing(task.erasures, slices, event)
        self._bounds = TimeBounds(slices, pipeline.max_early, pipeline.max_late)
        self._parser = Parser(event, counted, pipeline.types, self._bounds)
        self._type_names = self._parser.types.names
        self._masks = RecordMasks(task.mask, task.masked, self._type_names, marks_of(event))
        self._fields = FieldTally(
            task.whole or task.edges, self._type_names, pipeline.types, task.exact_fields
        )
        self._counts = Tally(pipeline.counts, self._type_names, [slice_.id for slice_ in slices])
        self._folders = Admission(pipeline.types, pipeline.max_types)
        self._rows, self._rejected = Gathering((SLICE, FILE_TYPE, HOUR)), Gathering((SLICE,))
        self._traffic: list[WrittenFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds records of one partition, in the order of their offsets."""
        topic, partition = self._places[batch["place"][0].as_py()]
        edges, offsets = self._task.edges[topic, partition], batch["offset"].to_numpy()
        slices = np.searchsorted(edges, offsets, "right") - 1
        records = table_of(batch, self._task.cluster, topic, partition, slices)
        self._seen.records(records)
        self._times.add(records)
        whole = self._kept(*self._whole.split(records, batch["headers"]))
        for opened in self._open(whole) if whole.num_rows else ():
            self._events(opened)
            if self._rows.full or self._rejected.full:
                self._write()
        self._seen.opened(records)

    def _events(self, opened: Opened) -> None:
        events = self._unerased(self._kept(opened.events, opened.rejected))
        if opened.empty is not None:
            self._seen.empty(self._unerased(opened.empty))
        for stage in (self._parser.split, self._bounds.split):
            if events.num_rows:
                events = self._kept(*stage(events))
        if events.num_rows:
            self._seen.landed(events)
            self._land(self._masks.rows(events))

    def _land(self, rows: pa.Table) -> None:
        self._fields.add(rows)
        self._counts.add(rows)
        if self._counts.full:
            self._write_counts()
        self._rows.add(to_gather(self._folders.placed(rows, self._type_names)))

    def _unerased(self, rows: pa.Table) -> pa.Table:
        kept, erased = self._erasing.split(rows)
        if erased is not None:
            self._seen.erased(erased)
        return kept

    def _kept(self, kept: pa.Table, rejected: pa.Table | None) -> pa.Table:
        """Returns what a stage kept; what it rejected is counted and gathered."""
        if rejected is not None:
            rejected, erased = self._erasing.split_rejected(rejected)
            if erased is not None:
                self._seen.erased(erased)
            if rejected.num_rows:
                self._seen.rejected(rejected)
                event = self._task.pipeline.event
                self._rejected.add(rejected_to_write(self._masks.rejected(rejected), event))
        return kept

    def _write(self) -> None:
        """Writes everything gathered, as one row group in each file that it belongs to."""
        names, slices = self._type_names, self._task.slices
        for (number, code, hour), rows in self._rows.drain():
            kind = None if code == OVERFLOW else names[code]
            codes = rows["type"].combine_chunks()
            types = columns.constant(kind, len(codes)) if kind is not None else columns.names(codes, names)
            kinds: list[Any] = [] if kind is not None else types.to_pylist()
            place = FilePlace(slices[number].id, kind, hour_name(hour))
            self._files.write(place, to_write(rows, types), Counter(kinds))
        for (number,), rows in self._rejected.drain():
            place = FilePlace(slices[number].id, None, "")
            self._files.write(place, rows.cast(columns.like(columns.REJECTED, rows.column_names)), {})

    def _write_counts(self) -> None:
        name = f"{self._name}-counts{len(self._traffic)}"
        self._traffic += self._counts.write(self._task.lake, self._task.cluster, self._task.attempt, name)

    def report(self, explain: Explain | None) -> TaskReport:
        """Ends the landing: all files are written."""
        self._write()
        files = self._files.finish()
        self._write_counts()
        cluster, slices = self._task.cluster, self._task.slices
        return TaskReport(
            files=files,
            seen=self._seen.report(cluster, slices, explain),
            traffic=tuple(self._traffic),
            fields=self._fields.report(cluster, slices),
            times=self._times.report(cluster),
            schemas=tuple(self._schemas()),
        )

    def _schemas(self) -> Iterator[SeenSchemas]:
        if self._asked.sizes or self._asked.without:
            for slice_ in self._task.slices:
                yield SeenSchemas(self._task.cluster, slice_.id, self._asked.sizes, self._asked.without)
