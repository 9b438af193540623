"""Reads units through the engine into the attempt, checks the counts, and merges small files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from sluice import crash_points
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.flow.land.conservation import check_rows, counted, gaps_of
from sluice.flow.land.count_totals import Total
from sluice.flow.land.engine import Engine
from sluice.flow.land.manifest_draft import Landed, summed_times
from sluice.flow.land.merge import Merge, merges
from sluice.flow.land.parse_rules import digest
from sluice.flow.land.read_plan import UnitRead, runs, together
from sluice.flow.land.record_source import RecordSource
from sluice.flow.land.task.decoding import Decoding, decoding_of
from sluice.flow.land.task.reports import SeenFields, SeenOffsets, SeenTimes, TaskReport, WrittenFile
from sluice.flow.land.task.task import Task
from sluice.flow.land.task.type_folders import own_folders, placed
from sluice.flow.land.unit_fields import unit_fields
from sluice.mask.mask_rules import MaskRules, keyless
from sluice.safe_text import Say
from sluice.slices import Slice, Unit, to_ms
from sluice.state.erasures.erasure_list import NONE, ErasureList

_MERGED_HERE = 16  # more of them are worth a Spark job
_SIDE_BY_SIDE = 2
_Own = TypeVar("_Own", WrittenFile, SeenOffsets, SeenFields, SeenTimes)


@dataclass(frozen=True)
class LandingAttempt:
    """One landing: where it reads and writes, and the id of its attempt for each cluster.

    `exact_fields` and `mask`: as in Task. `erasures`: the whole list, as it was before anything was read.
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

    def read(self, reads: Sequence[UnitRead]) -> list[Landed]:
        """Returns the files of every unit in its attempt, each record accounted for.

        Raises Conservation, SparkFailed, LakeUnavailable, and what the source raises.
        """
        decoding = decoding_of(self.pipeline.event)
        report, rules = (
            self._land(reads, decoding),
            digest(self.pipeline, decoding.schema if decoding else None),
        )
        crash_points.reached(Land.READ)
        files, seen = _by_unit(report.files), _by_unit(report.seen)
        own = {r.unit: seen.get(_name(r.unit), ()) for r in reads}
        gaps = {r.unit: gaps_of(r.unit, r.left, own[r.unit]) for r in reads}
        found = self.source.account(reads, gaps, own)
        crash_points.reached(Land.EXPLAINED)
        tidy = _by_unit(self._merged([f for own in files.values() for f in self._placed(own)]))
        traffic, fields = _by_unit(self._totals(report.traffic)), _by_unit(report.fields)
        times = _by_unit(report.times)
        crash_points.reached(Land.MERGED)
        for r in reads:
            check_rows(r.unit, found[r.unit].seen, tidy.get(_name(r.unit), ()))
        return [
            Landed(
                read=r,
                attempt=self.ids[r.unit.cluster],
                files=tuple(tidy.get(_name(r.unit), ())),
                seen=found[r.unit].seen,
                holes=found[r.unit].holes,
                counted=counted(
                    r.unit, self.pipeline.counts, tidy.get(_name(r.unit), ()), traffic.get(_name(r.unit), ())
                ),
                fields=unit_fields(fields.get(_name(r.unit), ()), self.pipeline.types),
                times=summed_times(times.get(_name(r.unit), ())),
                rules=rules,
                erasures=len(self.erasures.entries),
                masked=self.mask.applied if self.mask else None,
            )
            for r in reads
        ]

    def _land(self, reads: Sequence[UnitRead], decoding: Decoding | None) -> TaskReport:
        work = []
        pipeline = keyless(self.pipeline)
        for run in chain.from_iterable(map(together, runs(reads))):
            slices = tuple(read.unit.slice for read in run.units)
            attempt = self.ids[run.cluster]
            place = (pipeline, self.lake, run.cluster, attempt, slices, run.edges())
            more = (decoding, self.exact_fields)
            task = Task(*place, *more, erasures=self.erasures.over(slices), mask=self.mask)
            work.append((run, self.source.reading(task, run)))
        return self.engine.land(work) if work else TaskReport()

    def _placed(self, files: Sequence[WrittenFile]) -> list[WrittenFile]:
        own = own_folders(files, self.pipeline.types, self.pipeline.max_types)
        return [placed(file, own) for file in files]

    def _merged(self, files: Sequence[WrittenFile]) -> list[WrittenFile]:
        work: list[Merge] = []
        kept: list[WrittenFile] = []
        for cluster, attempt in self.ids.items():
            found, rest = merges(self.lake, attempt, [f for f in files if f.cluster == cluster])
            work += found
            kept += rest
        if not work:
            return kept
        self.say(f"merging {sum(len(merge.files) for merge in work):,} small files into {len(work):,}")
        if len(work) > _MERGED_HERE:
            return kept + self.engine.merge(work)
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            return kept + list(pool.map(lambda m: m[1].run(f"merged-{m[0]}"), enumerate(work)))

    def _totals(self, partial: Sequence[WrittenFile]) -> list[WrittenFile]:
        """The counts of each unit and table, out of the tasks' partial sums."""
        groups: dict[tuple[str, str, str | None], list[WrittenFile]] = {}
        for file in partial:
            groups.setdefault((file.slice_id, file.cluster, file.type), []).append(file)
        work = [
            Total(
                self.lake,
                self.ids[cluster],
                tuple(files),
                to_ms(Slice.from_id(slice_id, self.pipeline.slice).start),
            )
            for (slice_id, cluster, _), files in groups.items()
        ]
        return self.engine.merge(work) if work else []


def _name(unit: Unit) -> tuple[str, str]:
    return unit.slice.id, unit.cluster


def _by_unit(things: Sequence[_Own]) -> dict[tuple[str, str], list[_Own]]:
    found: dict[tuple[str, str], list[_Own]] = {}
    for thing in things:
        found.setdefault((thing.slice_id, thing.cluster), []).append(thing)
    return found
