"""Reads units through the engine into the attempt, checks the counts, and merges small files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Protocol, TypeVar

from sluice import crash_points
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.errors import SluiceError
from sluice.flow.land import reject_reasons as why
from sluice.flow.land.commit import Landed, summed_times
from sluice.flow.land.conservation import check_rows, counted
from sluice.flow.land.gaps import gaps_of
from sluice.flow.land.merge import Merge, Total, merges
from sluice.flow.land.newly_rejected import NotReplaced
from sluice.flow.land.read_plan import ReadGroup, UnitRead, runs, together
from sluice.flow.land.task import times, type_folders
from sluice.flow.land.task.decode import Decoding, decoding_of
from sluice.flow.land.task.field_tally import keeps
from sluice.flow.land.task.reports import (
    Gap,
    SchemasAsked,
    SeenFields,
    SeenOffsets,
    SeenTimes,
    TaskReport,
    WrittenFile,
)
from sluice.flow.land.task.task import Task
from sluice.flow.land.task.type_folders import own_folders, placed
from sluice.manifest import Manifest, TopicPartitionKey, TypeFields, bounded, merged
from sluice.mask.mask_rules import MaskRules, keyless
from sluice.safe_text import Say
from sluice.slices import Slice, Unit, to_ms
from sluice.state.erasures import NONE, ErasureList
from sluice.state.rules import LandingRules, write_rules

# Which units one task has to read: those in which a bound of a task may reject records.
#
# Such a bound takes what comes first. Several tasks would each let as much pass, and how an hour is cut would
# decide which rows land. So one task reads the unit, in the order of topics, partitions and offsets.

BY_ORDER = frozenset(
    (why.TOO_MANY_HOURS, why.TOO_MANY_TYPES, why.TOO_MANY_SCHEMAS, why.TOO_MANY_UNKNOWN_SCHEMAS)
)
"""Reasons that depend on what a task has read before."""

_MOST_TOLD = 5
UnitName = tuple[str, str]
"""A slice's id and a cluster."""


def at_bounds(reads: Iterable[UnitRead], report: TaskReport, pipeline: Pipeline) -> list[UnitRead]:
    """Returns the units of which a task has rejected records by a bound, or one task that read all of the
    unit might have."""
    hours, types = _hours_and_types(report)
    schemas = _schemas(report)
    rejecting = {
        (part.slice_id, part.cluster)
        for part in report.seen
        if not BY_ORDER.isdisjoint((*part.rejected_records, *part.rejected_elements))
    }

    def is_at_one(read: UnitRead) -> bool:
        name = read.unit.slice.id, read.unit.cluster
        far = times.TimeBounds([read.unit.slice], pipeline.max_early, pipeline.max_late)
        return (
            name in rejecting
            or sum(far.may_have(hour) for hour in hours[name]) > times.MOST
            or len(types[name] - {*pipeline.types}) > type_folders.MOST_TYPES
            or _are_many(schemas[name])
        )

    return [read for read in reads if is_at_one(read)]


def _hours_and_types(report: TaskReport) -> tuple[dict[UnitName, set[int]], dict[UnitName, set[str]]]:
    """Returns by unit the event hours since the epoch and the types of its rows."""
    names: dict[UnitName, set[str]] = defaultdict(set)
    types: dict[UnitName, set[str]] = defaultdict(set)
    for file in report.files:
        if file.hour:
            names[file.slice_id, file.cluster].add(file.hour)
            types[file.slice_id, file.cluster].update([file.type] if file.type else file.rows_by_type)
    hours = defaultdict(set, {unit: {_hour(name) for name in some} for unit, some in names.items()})
    return hours, types


def _hour(name: str) -> int:
    return int(datetime.fromisoformat(f"{name}:00Z").timestamp()) * 1000 // times.HOUR_MS


def _schemas(report: TaskReport) -> dict[UnitName, SchemasAsked]:
    schemas: dict[UnitName, SchemasAsked] = defaultdict(SchemasAsked)
    for part in report.schemas:
        asked = schemas[part.slice_id, part.cluster]
        asked.sizes.update(part.sizes)
        asked.without.update(part.without)
    return schemas


def bad_schemas(report: TaskReport) -> list[str]:
    """Returns of the first schemas that cannot be used why."""
    told = {str(number): why for part in report.schemas for number, why in part.without.items() if why}
    lines = [f"schema {number} cannot be used: {why}" for number, why in sorted(told.items())]
    more = len(lines) - _MOST_TOLD
    return [*lines[:_MOST_TOLD], *([f"{more:,} more schemas cannot be used"] if more > 0 else [])]


def _are_many(asked: SchemasAsked) -> bool:
    if not asked.sizes and not asked.without:
        return False
    from sluice.flow.land.formats.decoders import MOST_KEPT, MOST_WITHOUT_SCHEMA

    return sum(asked.sizes.values()) > MOST_KEPT or len(asked.without) > MOST_WITHOUT_SCHEMA


_MERGED_HERE = 16  # more of them are worth a Spark job
_SIDE_BY_SIDE = 2
_OfUnit = TypeVar("_OfUnit", WrittenFile, SeenOffsets, SeenFields, SeenTimes)


@dataclass(frozen=True)
class LandingAttempt:
    """One landing: where it reads and writes, and the id of its attempt for each cluster.

    `exact_fields` and `mask`: as in Task. `erasures`: the whole list, as it was before anything was read.
    `schema`: the prepared content of a schema file that the pipeline no longer names.
    """

    pipeline: Pipeline
    lake: Lake
    ids: Mapping[str, str]
    engine: Engine
    say: Say
    source: RecordSource
    exact_fields: frozenset[str] = frozenset()
    erasures: ErasureList = NONE
    mask: MaskRules | None = None
    schema: bytes | None = None

    def read(self, reads: Sequence[UnitRead]) -> list[Landed]:
        """Returns the files of every unit in its attempt, each record accounted for.

        Raises Conservation, SparkFailed, LakeUnavailable, and what the source raises.
        """
        decoding = decoding_of(self.pipeline.event, self.schema)
        report = self._land(reads, decoding)
        for told in bad_schemas(report):
            self.say(told)
        crash_points.reached(Land.READ)
        rules = write_rules(self.lake, LandingRules.of(self.pipeline, decoding.schema if decoding else None))
        crash_points.reached(Land.RULES_KEPT)
        files, seen = _by_unit(report.files), _by_unit(report.seen)
        seen_by_unit = {r.unit: seen.get(_name(r.unit), ()) for r in reads}
        gaps = {r.unit: gaps_of(r.unit, r.left, seen_by_unit[r.unit]) for r in reads}
        accounted = self.source.account(reads, gaps, seen_by_unit)
        crash_points.reached(Land.EXPLAINED)
        tidy = _by_unit(self._merged([f for unit_files in files.values() for f in self._placed(unit_files)]))
        traffic, fields = _by_unit(self._totals(report.traffic)), _by_unit(report.fields)
        times = _by_unit(report.times)
        crash_points.reached(Land.MERGED)
        for r in reads:
            check_rows(r.unit, accounted[r.unit].seen, tidy.get(_name(r.unit), ()))
        return [
            Landed(
                read=r,
                attempt=self.ids[r.unit.cluster],
                files=tuple(tidy.get(_name(r.unit), ())),
                seen=accounted[r.unit].seen,
                gaps=accounted[r.unit].gaps,
                counted=counted(
                    r.unit, self.pipeline.counts, tidy.get(_name(r.unit), ()), traffic.get(_name(r.unit), ())
                ),
                fields=unit_fields(fields.get(_name(r.unit), ()), self.pipeline.types),
                times=summed_times(times.get(_name(r.unit), ())),
                rules=rules,
                isolation=self.pipeline.cluster(r.unit.cluster).isolation,
                erasures=len(self.erasures.entries),
                masked=self.mask.applied if self.mask else None,
            )
            for r in reads
        ]

    def _land(self, reads: Sequence[UnitRead], decoding: Decoding | None) -> TaskReport:
        cut = partial(together, large_apart=self.pipeline.event.batch is not None)
        report = self._land_in(chain.from_iterable(map(cut, runs(reads))), decoding)
        alone = at_bounds(reads, report, self.pipeline)
        if not alone:
            return report
        self.say(f"{len(alone):,} units pass a bound of a task: one task reads each of them again")
        again = [ReadGroup(read.unit.cluster, (read,), together=True) for read in alone]
        others = report.without({_name(read.unit) for read in alone})
        return TaskReport.of([others, self._land_in(again, decoding)])

    def _land_in(self, groups: Iterable[ReadGroup], decoding: Decoding | None) -> TaskReport:
        tasks = []
        pipeline = keyless(self.pipeline)
        for run in groups:
            slices = tuple(read.unit.slice for read in run.units)
            attempt = self.ids[run.cluster]
            task = Task(
                pipeline=pipeline,
                lake=self.lake,
                cluster=run.cluster,
                attempt=attempt,
                slices=slices,
                edges=run.edges(),
                decoding=decoding,
                exact_fields=self.exact_fields,
                erasures=self.erasures.over(slices),
                mask=self.mask,
            )
            tasks.append((run, self.source.reading(task, run)))
        return self.engine.land(tasks) if tasks else TaskReport()

    def _placed(self, files: Sequence[WrittenFile]) -> list[WrittenFile]:
        types_with_folder = own_folders(files, self.pipeline.types, self.pipeline.max_types)
        return [placed(file, types_with_folder) for file in files]

    def _merged(self, files: Sequence[WrittenFile]) -> list[WrittenFile]:
        all_merges: list[Merge] = []
        kept: list[WrittenFile] = []
        for cluster, attempt in self.ids.items():
            cluster_merges, rest = merges(self.lake, attempt, [f for f in files if f.cluster == cluster])
            all_merges += cluster_merges
            kept += rest
        if not all_merges:
            return kept
        small = sum(len(merge.files) for merge in all_merges)
        self.say(f"merging {small:,} small files into {len(all_merges):,}")
        if len(all_merges) > _MERGED_HERE:
            return kept + self.engine.merge(all_merges)
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            return kept + list(pool.map(lambda m: m[1].run(f"merged-{m[0]}"), enumerate(all_merges)))

    def _totals(self, partial: Sequence[WrittenFile]) -> list[WrittenFile]:
        """Returns the counts of each unit and table, out of the tasks' partial sums."""
        groups: dict[tuple[str, str, str | None], list[WrittenFile]] = {}
        for file in partial:
            groups.setdefault((file.slice_id, file.cluster, file.type), []).append(file)
        totals = [
            Total(
                self.lake,
                self.ids[cluster],
                tuple(files),
                to_ms(Slice.from_id(slice_id, self.pipeline.slice).start),
            )
            for (slice_id, cluster, _), files in groups.items()
        ]
        return self.engine.merge(totals) if totals else []


def _name(unit: Unit) -> tuple[str, str]:
    return unit.slice.id, unit.cluster


def _by_unit(reports: Sequence[_OfUnit]) -> dict[tuple[str, str], list[_OfUnit]]:
    by_unit: dict[tuple[str, str], list[_OfUnit]] = {}
    for report in reports:
        by_unit.setdefault((report.slice_id, report.cluster), []).append(report)
    return by_unit


# What carries the landing's work out: Spark, in spark_jobs/.
class Engine(Protocol):
    """Both methods raise SparkFailed, or the SluiceError that a task met."""

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        """Reads exactly the offsets of each run and lands them; the reports of the tasks that succeeded."""

    def merge(self, merges: Sequence[Merge | Total]) -> list[WrittenFile]:
        """Returns the merged files, in the order of `merges`."""


# The fields of a unit's types, out of what its tasks have seen. Pure.
def unit_fields(parts: Sequence[SeenFields], configured: Collection[str]) -> tuple[TypeFields, ...]:
    """Merges the `parts` of one unit. Where a task kept fewer fields, only those are complete, and kept."""
    thinned = max((part.thinned for part in parts), default=0)
    types = [
        _thinned(type_fields, thinned)
        for part in parts
        for type_fields in part.types
        if type_fields.type in configured or keeps(thinned, type_fields.type)
    ]
    return bounded(merged(types))


def _thinned(type_fields: TypeFields, thinned: int) -> TypeFields:
    kept = {name: seen for name, seen in type_fields.fields.items() if keeps(thinned, type_fields.type, name)}
    left = sum(seen.rows for name, seen in type_fields.fields.items() if name not in kept)
    return replace(type_fields, fields=kept, others=type_fields.others + left) if left else type_fields


# Where a landing's records come from, and what explains that some offsets have none.
Gaps = Mapping[Unit, Mapping[TopicPartitionKey, Sequence[Gap]]]
"""By unit and partition the offsets that no task brought."""


@dataclass(frozen=True)
class Accounted:
    """The records of a unit, each counted once, and how many offsets are explained to hold none."""

    seen: tuple[SeenOffsets, ...]
    gaps: int


class RecordSource(Protocol):
    """Kafka, or the lake's own files."""

    def reading(self, task: Task, run: ReadGroup) -> Task:
        """Returns the task with what it has to know to read the run's records."""

    def account(
        self, reads: Sequence[UnitRead], gaps: Gaps, seen: Mapping[Unit, Sequence[SeenOffsets]]
    ) -> Mapping[Unit, Accounted]:
        """Explains the gaps of each unit. Raises Conservation, and what the source raises."""

    def check(self, landed: Sequence[Landed]) -> None:
        """Raises what forbids to commit the units, though all of their records are there."""

    def answers(self, cluster: str) -> bool:
        """Returns whether it can be asked now: where not, no unit is to blame for a failure."""

    def replaced(self, reads: Sequence[UnitRead]) -> SluiceError | None:
        """Returns the error that explains any other, where another run has replaced what is read."""

    def commit(self, landed: Sequence[Landed]) -> list[Manifest | NotReplaced]:
        """Returns for each unit the manifest that stands afterwards (this one, or that of who was first), or
        why the old one is not replaced."""
