"""Brings in rejected records of a unit, by the pipeline file as it is now. Its rows stay as they are.

Only the files of `_rejected/` are read. What becomes a row goes into more files of events; what is rejected
again, for a new reason, and what cannot be tried stay rejected.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.temporary import DiscardingLake
from sluice.config.counts import Counts
from sluice.config.event import DELIMITED
from sluice.config.pipeline import Pipeline
from sluice.errors import Relanded
from sluice.flow.land.amend.amended import Amendment, CountChange, CountsOf, CountsRewrite
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.land.amend.rewrite import NewFile, Part, without
from sluice.flow.land.commit import commit_remade, discard
from sluice.flow.land.read import unit_fields
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.remake import landed_meanwhile
from sluice.flow.land.task.decode import Decoding, decoding_of
from sluice.flow.land.task.read_lake import Takes, rejected_batches, tried
from sluice.flow.land.task.reports import SeenOffsets, TaskReport, WrittenFile
from sluice.flow.land.task.task import LakeFile, Task
from sluice.flow.land.task.type_folders import folders_with, placed
from sluice.manifest import Manifest, Masked, TypeFields, bounded, merged
from sluice.mask.mask_rules import keyless, mask_rules
from sluice.safe_text import visible
from sluice.slices import Unit, last_late, to_ms
from sluice.state.erasures import NONE, read_erasures
from sluice.state.file_moves import move
from sluice.state.rules import LandingRules, RulesReader, write_rules

_READ = ("_payload", "_reason", "_size", "_row")


def _every(_: str) -> bool:
    return True


@dataclass(frozen=True)
class Tried:
    """What a retry makes of a unit's rejected records, and elements of arrays.

    `tried`: how many, by reason; `still`: how many of these are rejected again, by their new reasons. The
    others come in: `rows` by type and event hour, beside `elements` of theirs that are rejected by themselves
    now. `erased`: those that the erasure list names, now that they can be read.
    """

    unit: Unit
    tried: Mapping[str, int]
    still: Mapping[str, int]
    rows: Mapping[tuple[str, str], int]
    elements: Mapping[str, int] = field(default_factory=dict)
    erased: int = 0

    @property
    def came_in(self) -> int:
        return sum(self.tried.values()) - sum(self.still.values()) - self.erased

    def __str__(self) -> str:
        rows = sum(self.rows.values())
        said = f"{self.unit}: {self.came_in:,} of {sum(self.tried.values()):,} come in, as {rows:,} rows"
        left = Counter(self.still) + Counter(self.elements)
        shown = ", ".join(f"{visible(reason)} {count:,}" for reason, count in left.most_common(3))
        return f"{said}; still rejected: {shown}" if shown else said


@dataclass(frozen=True)
class UnitRetry:
    """Retries units by a pipeline file: the records of the reasons that it `takes`."""

    pipeline: Pipeline
    lake: Lake
    takes: Takes = _every

    def forecast(self, unit: Unit, manifest: Manifest) -> Tried:
        """Tries the unit's rejected records, and writes nothing. Raises what reading and decoding raise."""
        discarding = cast(Lake, DiscardingLake(self.lake))
        return _Retry(self.pipeline, discarding, unit, manifest, self.lake, self.takes).tried()

    def retry(self, unit: Unit, old: Manifest, now: datetime) -> Tried:
        """Commits a generation with what comes in, in place of `old`; nothing where nothing does.

        Raises Relanded where another run has replaced `old`, CannotRemake for a file that is missing or
        damaged, Conservation, and what the lake raises; then nothing of the attempt is left.
        """
        retry = _Retry(self.pipeline, self.lake, unit, old, self.lake, self.takes)
        try:
            outcome = retry.tried()
            amendment = retry.amendment(now) if outcome.came_in else None
        except Exception:
            discard(self.lake, [retry.attempt])
            raise
        if amendment is not None:
            committed = commit_remade(self.lake, old, partial(amendment.draft, old))
            move(self.lake, [committed])
            if committed.attempt != retry.attempt:
                discard(self.lake, [retry.attempt])
                raise Relanded(str(landed_meanwhile([str(unit)])))
        discard(self.lake, [retry.attempt])
        erase_owed(self.lake, [unit])
        return outcome


@dataclass
class _Retry:
    """`writing` is the lake, or one that throws away what is written."""

    pipeline: Pipeline
    writing: Lake
    unit: Unit
    old: Manifest
    lake: Lake
    takes: Takes
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    change: CountChange = field(default_factory=CountChange)

    def __post_init__(self) -> None:
        self.decoding: Decoding | None = decoding_of(self.pipeline.event)
        self.records, self.elements = TaskReport(), TaskReport()
        self._reads_elements = self._same_elements()

    def _same_elements(self) -> bool:
        """Returns whether rejected elements are read as they landed: those of arrays are JSON, those of
        messages with their lengths in front are not."""
        rules, now = RulesReader(self.lake), self.pipeline.event.rows == DELIMITED
        landed = (rules.landing(digest) for digest in (self.old.rules, *self.old.retried))
        then = {one.rows == DELIMITED for one in landed if one is not None and one.rows != "one"}
        return then <= {now} and (now or self.decoding is None)

    def tried(self) -> Tried:
        before: Counter[str] = Counter()
        for batch in self._rejected():
            reasons: list[Any] = batch.filter(pa.array(self._found(batch)))["_reason"].to_pylist()
            before.update(reasons)
        if not before:
            return Tried(self.unit, {}, {}, {})
        self.records = self._landed(elements=False)
        if self._reads_elements:
            self.elements = self._landed(elements=True)
        still, elements = Counter[str](), Counter[str]()
        rows: Counter[tuple[str, str]] = Counter()
        for seen in (*self.records.seen, *self.elements.seen):
            still.update(seen.rejected_records)
            elements.update(seen.rejected_elements)
        for file in self._files(events=True):
            types = file.rows_by_type if file.type is None else {file.type: file.rows}
            rows.update({(kind, file.hour): count for kind, count in types.items()})
        erased = sum(seen.erased for seen in self.records.seen)
        return Tried(self.unit, before, still, rows, elements, erased)

    def _rejected(self) -> Iterator[pa.RecordBatch]:
        for file in self.old.held_rejected:
            try:
                with self.lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                    names = [name for name in _READ if name in parquet.schema_arrow.names]
                    yield from parquet.iter_batches(columns=names)
            except FileNotFoundError:
                raise LakeFile.of(self.lake, self.unit, file).refusal("is missing") from None
            except pa.ArrowException as error:
                raise LakeFile.of(self.lake, self.unit, file).refusal(f"cannot be read ({error})") from error

    def _found(self, batch: pa.RecordBatch) -> np.ndarray:
        good = tried(batch, self.old.masked, self.takes)
        if not self._reads_elements and "_row" in batch.schema.names:
            good &= batch["_row"].is_null().to_numpy(zero_copy_only=False)
        return good

    def _landed(self, elements: bool) -> TaskReport:
        task = self._task(elements)
        return task.land(rejected_batches(task, elements, self.takes), "elements" if elements else "records")

    def _task(self, elements: bool) -> Task:
        """The rows are counted as the unit's others were. An element is an event that is not told apart from
        its message's others by the header that tells copies."""
        traffic = [Counts(table=t.table, by=t.by, types=t.types) for t in self.old.traffic]
        event = self.pipeline.event
        if elements:
            event = event.model_copy(update={"rows": "one", "batch": None})
        pipeline = keyless(self.pipeline).model_copy(update={"counts": tuple(traffic), "event": event})
        read = UnitRead(self.unit, self.old.ranges, self.old.ranges, self.old.lost)
        files = (LakeFile.of(self.lake, self.unit, file, self.old.masked) for file in self.old.held_rejected)
        return Task(
            pipeline=pipeline,
            lake=self.writing,
            cluster=self.unit.cluster,
            attempt=self.attempt,
            slices=(self.unit.slice,),
            edges=ReadGroup(self.unit.cluster, (read,)).edges(),
            decoding=self.decoding,
            exact_fields=self.pipeline.evolving_types,
            erasures=NONE if elements else read_erasures(self.lake).over([self.unit.slice]),
            mask=mask_rules(self.pipeline),
            files=tuple(files),
            masked=(self.old.masked,),
        )

    def _files(self, events: bool) -> list[WrittenFile]:
        return [f for report in (self.records, self.elements) for f in report.files if bool(f.hour) is events]

    def amendment(self, now: datetime) -> Amendment:
        arrays = self.old.rows is not None or self.pipeline.event.arrays
        rejected = [*self._left(), *(self._new(file, "_rejected/") for file in self._files(events=False))]
        for seen in self.records.seen:
            self._count_records(seen, arrays)
        for seen in self.elements.seen:
            self.change.rejected_elements.update(seen.rejected_records)
            self.change.at((seen.topic, seen.partition)).rejected_elements += sum(
                seen.rejected_records.values()
            )
        folders = folders_with(self.old, self._files(events=True), self.pipeline)
        files = [placed(file, folders) for file in self._files(events=True)]
        new = [self._new(file, layout.event_folder(file.type, file.hour)) for file in files]
        late = last_late(self.unit.slice, self.pipeline.success_grace)
        return Amendment(
            self.attempt,
            [*self.old.files, *new],
            rejected,
            self._traffic(),
            self.change,
            self.old.late + sum(file.rows for file in files if file.hour <= late),
            now,
            arrays,
            self._more(),
        )

    def _new(self, file: WrittenFile, folder: str) -> NewFile:
        return NewFile(file, folder)

    def _left(self) -> list[Part]:
        """Returns the files of `_rejected/` without the records that were tried."""
        parts: list[Part] = []
        for number, file in enumerate(self.old.held_rejected):
            key = f"{layout.attempt(self.old.slice, self.attempt)}left-{number}.parquet"
            new = WrittenFile(self.unit.cluster, self.old.slice, None, "", key, 0, 0, "")
            part = without(self.lake, file, new, _READ, self._found, self._take)
            parts += [part] if part is not None else []
        return parts

    def _take(self, batch: pa.RecordBatch) -> None:
        names = ("_topic", "_partition", "_reason")
        columns: list[list[Any]] = [batch[name].to_pylist() for name in names]
        none = [None] * batch.num_rows
        rows: list[Any] = batch["_row"].to_pylist() if "_row" in batch.schema.names else none
        for topic, partition, reason, row in zip(*columns, rows, strict=True):
            change = self.change.at((topic, partition))
            if row is None:
                self.change.rejected_records[reason] -= 1
                change.rejected_records -= 1
            else:
                self.change.rejected_elements[reason] -= 1
                change.rejected_elements -= 1

    def _count_records(self, seen: SeenOffsets, arrays: bool) -> None:
        change, rejected_records = (
            self.change.at((seen.topic, seen.partition)),
            sum(seen.rejected_records.values()),
        )
        self.change.rejected_records.update(seen.rejected_records)
        self.change.rejected_elements.update(seen.rejected_elements)
        self.change.empty += seen.empty
        change.rejected_records += rejected_records
        change.rejected_elements += sum(seen.rejected_elements.values())
        change.erased += seen.erased
        change.rows_erased += seen.rows_erased
        if arrays:
            change.rows += seen.records - rejected_records - seen.erased if seen.rows is None else seen.rows

    def _traffic(self) -> list[Any]:
        counts = {traffic.table: CountsOf(traffic) for traffic in self.old.traffic}
        for report in (self.records, self.elements):
            for file in report.traffic:
                of = counts[str(file.type)]
                of.types.update(file.rows_by_type)
                with self.lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                    for batch in parquet.iter_batches():
                        sums: list[Any] = batch.to_pylist()
                        for one in sums:
                            of.changes[one["key"]] += one["count"]
        rewrite = CountsRewrite(self.lake, self.old, self.attempt, to_ms(self.unit.slice.start))
        return [rewrite.changed(number, of) for number, of in enumerate(counts.values())]

    def _more(self) -> dict[str, Any]:
        rules = LandingRules.of(self.pipeline, self.decoding.schema if self.decoding else None)
        digest, retried = write_rules(self.lake, rules), self.old.retried
        seen = (*self.records.seen, *self.elements.seen)
        return {
            "retried": retried if digest in (self.old.rules, *retried) else (*retried, digest),
            "fields": self._fields(),
            "masked": _extended(self.old.masked, mask_rules(self.pipeline)),
            "long_numbers": self.old.long_numbers or any(part.long_numbers for part in seen),
        }

    def _fields(self) -> tuple[TypeFields, ...]:
        """Adds the new rows' fields to those of their types, where the manifest knows them all."""
        parts = (*self.records.fields, *self.elements.fields)
        new = unit_fields(parts, self.pipeline.types)
        known = {of.type for of in self.old.fields}
        unknown = self.old.rows_by_type().keys() - known
        return bounded(merged([*self.old.fields, *(of for of in new if of.type not in unknown)]))


def _extended(old: Masked | None, mask: Any) -> Masked | None:
    """Returns what may stand hashed in the unit now. Its rules stay those by which all of its rows landed."""
    if mask is None:
        return old
    new: Masked = mask.applied
    before = old or Masked({})
    hashed, keys = {*before.hashed, *new.hashed}, {*before.keys, *new.keys}
    return replace(before, hashed=tuple(sorted(hashed)), keys=tuple(sorted(keys)))
