"""Lands the records that one Spark task reads: parses them, and writes them into the attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from sluice import crash_points
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import bound_of
from sluice.flow.land.task import columns
from sluice.flow.land.task import columns as headers
from sluice.flow.land.task.count_fields import Tally
from sluice.flow.land.task.decoding import Decoding, opener
from sluice.flow.land.task.dedup import Deduplicator
from sluice.flow.land.task.erasing import BatchErasing, Erasing
from sluice.flow.land.task.field_tally import FieldTally
from sluice.flow.land.task.lake_file import LakeFile
from sluice.flow.land.task.long_numbers import may_be_long_in
from sluice.flow.land.task.masking import RecordMasks
from sluice.flow.land.task.parse import ParsedRecords, Parser, RecordColumns
from sluice.flow.land.task.read_counts import Explain, SeenRecords
from sluice.flow.land.task.reports import SchemasAsked, SeenSchemas, SeenTimes, TaskReport, WrittenFile
from sluice.flow.land.task.times import HOUR_MS, event_bounds, hour_name
from sluice.flow.land.task.type_folders import OVERFLOW, Admission
from sluice.flow.land.task.unpack import UnpackedEvents, numbers_in
from sluice.flow.land.task.whole_records import carried, numbered, refused_unread, sizes_of, unerased
from sluice.flow.land.task.writer import AttemptFiles, Codes, FilePlace, Gathering
from sluice.manifest import TWELFTHS, Masked
from sluice.mask.mask_rules import MaskRules
from sluice.runtime import deeper
from sluice.slices import Slice
from sluice.state.erasures import NONE, ErasureList

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
        self._asked = SchemasAsked()
        self._opener = opener(pipeline.event, task.decoding, bound_of(pipeline.max_record), self._asked)
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
        self._fields = FieldTally(task.whole or task.edges, names, pipeline.types, task.exact_fields)

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
        return TaskReport(files, seen, tuple(self._traffic), fields, times, tuple(self._schemas()))

    def _schemas(self) -> Iterator[SeenSchemas]:
        if self._asked.sizes or self._asked.without:
            without = tuple(sorted(self._asked.without))
            for slice_ in self._task.slices:
                yield SeenSchemas(self._cluster, slice_.id, self._asked.sizes, without)

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


# Bounds the event hours of a slice that are far from it: each is a file for each type.
NEAR = timedelta(days=31)
MOST = 1_000


class FarHours:
    """Admits, in one task, all event hours that are near their slice, and the first MOST others of each.

    On a side where `max_early` or `max_late` is set, that setting is the bound, and no hour is far.
    """

    def __init__(
        self, slices: Sequence[Slice], max_early: timedelta | None, max_late: timedelta | None
    ) -> None:
        early, late = (NEAR if limit is None else None for limit in (max_early, max_late))
        self._first, self._last = event_bounds(slices, early, late)
        self._admitted: dict[int, set[int]] = {}

    def may_have(self, hour: int) -> bool:
        """Returns whether events of an hour since the epoch may be far from the first slice."""
        first, last = int(self._first[0]), int(self._last[0])
        return hour * HOUR_MS < first or (hour + 1) * HOUR_MS > last + 1

    def bounded(self, parsed: ParsedRecords, slices: np.ndarray) -> ParsedRecords:
        """Refuses rows of too many far hours. `slices` are those of all records that were parsed."""
        row_slices = slices[parsed.rows]
        far = (parsed.times < self._first[row_slices]) | (parsed.times > self._last[row_slices])
        if not far.any():
            return parsed
        hours = parsed.times // HOUR_MS
        good = ~far
        for row in np.flatnonzero(far).tolist():
            good[row] = self._admits(int(row_slices[row]), int(hours[row]))
        if good.all():
            return parsed
        refused = dict.fromkeys(parsed.rows[~good].tolist(), reject_reasons.TOO_MANY_HOURS)
        return replace(
            parsed,
            rows=parsed.rows[good],
            types=parsed.types[good],
            times=parsed.times[good],
            refused={**parsed.refused, **refused},
        )

    def _admits(self, slice_number: int, hour: int) -> bool:
        admitted = self._admitted.setdefault(slice_number, set())
        if hour not in admitted and len(admitted) < MOST:
            admitted.add(hour)
        return hour in admitted


# Erases what would be rejected: it has no type, so that an entry of any type is about it. Pure.
@dataclass(frozen=True)
class Unerased:
    """`kept`: the events that are left, of which `parsed` is. `records`: those of which nothing is left, and
    `rows` the record of each element of an array that is erased, by their positions."""

    parsed: ParsedRecords
    kept: np.ndarray
    records: np.ndarray
    rows: np.ndarray


def unerased_rejects(
    erasing: BatchErasing | None, opened: UnpackedEvents, parsed: ParsedRecords
) -> Unerased | None:
    """Returns None where no rejected event is erased."""
    if erasing is None or not parsed.refused:
        return None
    values = opened.events.values
    sources = opened.positions if opened.positions is not None else opened.kept
    sources = np.arange(len(values)) if sources is None else sources
    gone = [p for p in sorted(parsed.refused) if erasing.has_rejected(int(sources[p]), values[p].as_py())]
    if not gone:
        return None
    kept = np.setdiff1d(np.arange(len(values)), gone)
    places = {int(old): new for new, old in enumerate(kept.tolist())}
    refused = {places[p]: reason for p, reason in parsed.refused.items() if p in places}
    left = replace(parsed, rows=np.searchsorted(kept, parsed.rows), refused=refused)
    records, nothing = sources[gone], np.zeros(0, np.int64)
    if opened.numbers is None:
        return Unerased(left, kept, records, nothing)
    remaining = Counter(sources[kept].tolist())
    whole = [position for position in dict.fromkeys(records.tolist()) if not remaining[position]]
    return Unerased(left, kept, np.array(whole, np.int64), records)


# Counts when within their slice records were stamped, in TWELFTHS equal parts of it.
class RecordTimes:
    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices
        self._starts = np.array([int(slice_.start.timestamp()) * 1000 for slice_ in slices], np.int64)
        self._part = max(int(slices[0].length.total_seconds()) * 1000 // TWELFTHS, 1) if slices else 1
        self._counts = np.zeros(len(slices) * TWELFTHS, np.int64)

    def add(self, slices: np.ndarray, times: np.ndarray) -> None:
        """Adds records: the slice's number and the stamp (ms) of each. A stamp outside its slice, as a record
        has that is not in the order of the stamps, counts at the nearer end."""
        parts = np.clip((times - self._starts[slices]) // self._part, 0, TWELFTHS - 1)
        self._counts += np.bincount(slices * TWELFTHS + parts, minlength=len(self._counts))

    def report(self, cluster: str) -> tuple[SeenTimes, ...]:
        """Returns the slices that have records."""
        rows = self._counts.reshape(-1, TWELFTHS).tolist()
        return tuple(
            SeenTimes(cluster, slice_.id, tuple(counts))
            for slice_, counts in zip(self._slices, rows, strict=True)
            if any(counts)
        )
