"""Lands the records that one Spark task reads: parses them, and writes them into the attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sluice import crash_points
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.flow.land.expansion import bound_of
from sluice.flow.land.task import columns, headers
from sluice.flow.land.task.count_tally import Tally
from sluice.flow.land.task.decoding import Decoding, opener
from sluice.flow.land.task.dedup import Deduplicator
from sluice.flow.land.task.erased_rejects import unerased_rejects
from sluice.flow.land.task.erasing import BatchErasing, Erasing
from sluice.flow.land.task.far_hours import FarHours
from sluice.flow.land.task.field_tally import FieldTally
from sluice.flow.land.task.lake_file import LakeFile
from sluice.flow.land.task.long_numbers import may_be_long_in
from sluice.flow.land.task.masking import RecordMasks
from sluice.flow.land.task.parse import ParsedRecords, Parser, RecordColumns
from sluice.flow.land.task.read_counts import Explain, SeenRecords
from sluice.flow.land.task.record_times import RecordTimes
from sluice.flow.land.task.reports import TaskReport, WrittenFile
from sluice.flow.land.task.row_buffer import Codes, Gathering
from sluice.flow.land.task.times import HOUR_MS, event_bounds, hour_name
from sluice.flow.land.task.type_folders import OVERFLOW, Admission
from sluice.flow.land.task.unpack import UnpackedEvents, numbers_in
from sluice.flow.land.task.whole_records import carried, numbered, refused_unread, sizes_of, unerased
from sluice.flow.land.task.writer import AttemptFiles, FilePlace
from sluice.manifest import Masked
from sluice.mask.mask_rules import MaskRules
from sluice.runtime import deeper
from sluice.slices import Slice
from sluice.state.erasures.erasure_list import NONE, ErasureList

# A value, key or list of headers is handed over up to this size, so that a batch of records is bounded
# without weighing each: weighing them costs Spark as much as handing them over.
CUT_BYTES = 64 << 10


@dataclass(frozen=True)
class Task:
    """What every task of one read knows; it travels to the workers.

    `edges`: by (topic, partition) the offset at which each slice begins, and the last one's end.
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

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self.edges}))

    def columns(self) -> tuple[str, ...]:
        """Returns what Spark has to select: long texts are cut. `place` is one number for partition and
        topic: a text in every row costs Spark more to hand over."""
        names = ", ".join(f"'{topic}'" for topic in self.topics)
        number = f"partition * {len(self.topics)} + int(array_position(array({names}), topic)) - 1"
        place = "partition" if len(self.topics) == 1 else number
        texts = {"value": "value", "key": "key", "headers": headers.EXPRESSION}
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
            landing.write()
            report = landing.report(files.finish(), explain)
            crash_points.reached(Land.TASK_DONE)
            return report


class _Landing:
    def __init__(self, task: Task, files: AttemptFiles, name: str) -> None:
        pipeline = task.pipeline
        self._arrays = pipeline.event.arrays
        self.seen = SeenRecords(self._arrays)
        self._times = RecordTimes(task.slices)
        self._opener = opener(pipeline.event, task.decoding, bound_of(pipeline.max_record))
        self._task, self._files, self._name, self._cluster = task, files, name, task.cluster
        self._places = {task.place(*place): place for place in task.edges}
        counted = {path for spec in pipeline.counts for path in spec.by.values()}
        self._parser = Parser(pipeline.event, counted, pipeline.types)
        names = self._parser.types.names
        self._masks = RecordMasks(task.mask, task.masked, names)
        self._shipped = Deduplicator(pipeline.event)
        self._erasing = Erasing(task.erasures, task.slices, pipeline.event)
        self._earliest, self._latest = event_bounds(task.slices, pipeline.max_early, pipeline.max_late)
        self._far = FarHours(task.slices, pipeline.max_early, pipeline.max_late)
        self._admission = Admission(pipeline.types, pipeline.max_types)
        self._rows, self._rejected = Gathering(), Gathering()
        self._tally = Tally(pipeline.counts, names, [slice_.id for slice_ in task.slices])
        self._traffic: list[WrittenFile] = []
        self._fields = FieldTally(task.edges, names, pipeline.types, task.exact_fields)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds records of one partition, in the order of their offsets."""
        topic, partition = self._places[batch["place"][0].as_py()]
        edges, offsets = self._task.edges[topic, partition], batch["offset"].to_numpy()
        self._once(topic, partition, batch, np.searchsorted(edges, offsets, "right") - 1)

    def report(self, files: tuple[WrittenFile, ...], explain: Explain | None) -> TaskReport:
        self._write_counts()
        seen = self.seen.report(self._task.cluster, self._task.slices, explain)
        fields = self._fields.report(self._task.cluster, self._task.slices)
        times = self._times.report(self._task.cluster)
        return TaskReport(files, seen, tuple(self._traffic), fields, times)

    def _once(self, topic: str, partition: int, batch: pa.RecordBatch, slices: np.ndarray) -> None:
        """Rejects records that are not read or were shipped twice, and takes the others on."""
        self.seen.add(topic, partition, slices, batch["offset"].to_numpy())
        self._times.add(slices, batch["timestamp"].to_numpy())
        refused = self._shipped.refused(topic, partition, batch["headers"], slices) | refused_unread(batch)
        gone = frozenset(refused)
        if refused:
            refused, erased = unerased(self._erasing, topic, batch, slices, refused)
            self.seen.erase(topic, partition, slices[erased], slices[:0])
            self.seen.refuse(topic, partition, slices, refused)
            record_headers = headers.from_json(batch["headers"])
            unmasked = columns.taken(batch, self._cluster, topic, partition, record_headers)
            self._reject(self._masks.taken(unmasked, slices), slices, refused, sizes_of(batch))
            left = np.setdiff1d(np.arange(batch.num_rows), list(gone))
            batch, slices = batch.take(pa.array(left, pa.int64())), slices[left]
        if batch.num_rows:
            self._add(topic, partition, batch, slices)

    def _add(self, topic: str, partition: int, batch: pa.RecordBatch, slices: np.ndarray) -> None:
        times = batch["timestamp"].to_numpy()
        earliest, latest = self._earliest[slices], self._latest[slices]
        record_headers = headers.from_json(batch["headers"])
        erasing = self._erasing.of(topic, slices, batch, record_headers)
        records = RecordColumns(
            batch["value"], topic, record_headers, times, earliest, latest, erasing, numbers_in(batch)
        )
        unmasked = numbered(batch, columns.taken(batch, self._cluster, topic, partition, record_headers))
        taken = self._masks.taken(unmasked, slices)
        for opened in self._opener.open(records, carried(batch)):
            self._take(topic, partition, taken, slices, opened, erasing)
            if self._rows.full or self._rejected.full:
                self.write()

    def _take(
        self,
        topic: str,
        partition: int,
        taken: pa.Table,
        slices: np.ndarray,
        opened: UnpackedEvents,
        erasing: BatchErasing | None,
    ) -> None:
        """Takes events that came out of the `taken` records; `slices` are those of the records."""
        self.seen.erase(topic, partition, slices[[*opened.erased]], slices[[*opened.rows_erased]])
        rows, row_slices = taken, slices
        if opened.kept is not None:
            rows, row_slices = taken.take(pa.array(opened.kept, pa.int64())), slices[opened.kept]
        elif opened.positions is not None:
            rows = columns.opened(taken, opened.positions, opened.events.values, opened.numbers)
            row_slices = slices[opened.positions]
        parsed = self._far.bounded(self._parser.parse(opened.events), row_slices)
        if (left := unerased_rejects(erasing, opened, parsed)) is not None:
            self.seen.erase(topic, partition, slices[left.records], slices[left.rows])
            rows, row_slices, parsed = rows.take(pa.array(left.kept)), row_slices[left.kept], left.parsed
        if opened.numbers is None:
            self.seen.refuse(topic, partition, row_slices, parsed.refused)
        else:
            self.seen.rows(topic, partition, row_slices, parsed.refused, slices[list(opened.empty)])
        self.seen.refuse(topic, partition, slices, opened.refused)
        self._reject(rows, row_slices, parsed.refused)
        self._reject(taken, slices, opened.refused)
        if parsed.refused:
            rows, row_slices = rows.take(pa.array(parsed.rows, pa.int64())), row_slices[parsed.rows]
        for number in may_be_long_in(rows["_payload"], row_slices):
            self.seen.long_number(number, topic, partition)
        rows = self._masks.rows(rows, row_slices, parsed.types)
        offsets = rows["_offset"].to_numpy()
        self._fields.add((topic, partition), rows["_payload"], offsets, row_slices, parsed.types)
        self._keep(rows, row_slices, parsed)

    def write(self) -> None:
        """Writes everything gathered, as one row group in each file that it belongs to."""
        names = self._parser.types.names
        for run in self._rows.drain():
            kind = None if run.type == OVERFLOW else names[run.type]
            codes = run.rows["_type"].combine_chunks()
            types = columns.constant(kind, len(codes)) if kind is not None else columns.names(codes, names)
            kinds: list[Any] = [] if kind is not None else types.to_pylist()
            place = FilePlace(self._task.slices[run.slice].id, kind, hour_name(run.hour))
            self._files.write(place, columns.rows(run.rows, types), Counter(kinds))
        for run in self._rejected.drain():
            place = FilePlace(self._task.slices[run.slice].id, None, "")
            schema = columns.like(columns.REJECTED, run.rows.column_names)
            self._files.write(place, run.rows.cast(schema), {})

    def _write_counts(self) -> None:
        name = f"{self._name}-counts{len(self._traffic)}"
        self._traffic += self._tally.write(self._task.lake, self._task.cluster, self._task.attempt, name)

    def _reject(
        self,
        rows: pa.Table,
        slices: np.ndarray,
        refused: Mapping[int, str],
        sizes: pa.Array[Any] | None = None,
    ) -> None:
        if refused:
            nothing = np.zeros(len(refused), np.int32)
            codes = Codes(slices[sorted(refused)], nothing, nothing)
            records = self._masks.rejected(columns.rejected(rows, refused, self._arrays, sizes), codes.slices)
            self._rejected.add(records, codes)

    def _keep(self, rows: pa.Table, slices: np.ndarray, parsed: ParsedRecords) -> None:
        hours = parsed.times // HOUR_MS
        self._tally.add(rows["_payload"], slices, parsed.types, hours)
        if self._tally.full:
            self._write_counts()
        types = self._admission.codes(slices, parsed.types, hours, self._parser.types.names)
        self._rows.add(columns.timed(rows, parsed.types, parsed.times), Codes(slices, types, hours))
