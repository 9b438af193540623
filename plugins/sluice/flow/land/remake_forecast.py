"""What a `remake` would change of a unit, before it does: the landing's tasks, with files thrown away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import cast

import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Begun, Lake
from sluice.clients.lake.overlay import DiscardingLake
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.land.newly_rejected import NewlyRejected, Record, newly_rejected, rejected_of
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.remake import LakeSource, account, remade_reads
from sluice.flow.land.task import read_lake as lake_read
from sluice.flow.land.task.decode import decoding_of
from sluice.flow.land.task.reports import TaskReport
from sluice.flow.land.task.task import Task
from sluice.manifest import Manifest
from sluice.mask.mask_rules import keyless, mask_rules, said_by
from sluice.plan.dry_run import masked_so
from sluice.safe_text import line
from sluice.slices import Unit
from sluice.state.erasures import ErasureList, read_erasures

SAMPLED = 3
"""Units that a plan tries, unless it is asked for all."""
_MOST_SHOWN = 5
_ERASED = "erased"

Outcome = tuple[str, str]
"""A type and an event hour, or a reason and nothing."""


@dataclass(frozen=True)
class UnitChange:
    """Rows by outcome, `before` and `after`; or `why` the unit cannot be remade. `forgotten`: rejected
    records that stay, because the lake has forgotten their bytes. `lost`: rows that would be rejected, record
    by record. `masked`: it landed with today's mask."""

    unit: Unit
    before: Mapping[Outcome, int]
    after: Mapping[Outcome, int]
    why: str = ""
    forgotten: int = 0
    lost: NewlyRejected | None = None
    masked: bool = True

    def __str__(self) -> str:
        if self.why:
            return self.why
        if self.lost is not None and self.lost.rows:
            reasons = ", ".join(
                f"{line(reason, 200)} {rows:,}" for reason, rows in self.lost.reasons.most_common(3)
            )
            out = f"; {self.lost.rows:,} rows that are there would be rejected ({reasons}): it needs --yes"
            return f"{self._changes()}{out}"
        stay = f"; {self.forgotten:,} rejected ones stay: the lake forgot their bytes"
        return f"{self._changes()}{stay if self.forgotten else ''}"

    def _changes(self) -> str:
        changed = [o for o in {*self.before, *self.after} if self.before.get(o, 0) != self.after.get(o, 0)]
        if not changed:
            counts = f"{self.unit}: no row would come or go"
            return counts if self.masked else f"{counts}, and its rows would be masked as the file says now"
        changed.sort(key=lambda o: (-abs(self.after.get(o, 0) - self.before.get(o, 0)), o))
        rows = [sum(n for (_, hour), n in some.items() if hour) for some in (self.before, self.after)]
        shown = [self._one(outcome) for outcome in changed[:_MOST_SHOWN]]
        more = [f"{len(changed) - _MOST_SHOWN:,} more"] if len(changed) > _MOST_SHOWN else []
        return f"{self.unit}: {rows[0]:,} rows would be {rows[1]:,}: {'; '.join([*shown, *more])}"

    def _one(self, outcome: Outcome) -> str:
        name = line(" ".join(filter(None, outcome)), 200)
        return f"{name} {self.before.get(outcome, 0):,} → {self.after.get(outcome, 0):,}"


def sampled(old: Mapping[Unit, Manifest], most: int = SAMPLED) -> list[Unit]:
    """Returns those with most rejected records, of units that are one task's."""
    small = [unit for unit, manifest in old.items() if manifest.read <= lake_read.TOGETHER]
    return sorted(sorted(small, key=lambda unit: -sum(old[unit].held_by_reason().values()))[:most])


def forecast(pipeline: Pipeline, lake: Lake, old: Mapping[Unit, Manifest]) -> Iterator[UnitChange]:
    """Yields what would change of each of the units. Each is read whole, in this process."""
    erasures, mask = read_erasures(lake), said_by(pipeline)
    for unit, manifest in old.items():
        before = outcomes(manifest)
        mark = lake.read(layout.slice_success(manifest.slice, manifest.cluster))
        if mark is None or mark.data != manifest.id.encode():
            yield UnitChange(
                unit, before, {}, f"{unit}: its files are still moved: the next run finishes that"
            )
            continue
        try:
            seen = _SeesRejected(lake)  # it has what tasks use of a lake
            after = _after(pipeline, cast(Lake, seen), unit, manifest, erasures.over([unit.slice]))
            gone = sum(manifest.forgotten_by_reason().values())
            yield UnitChange(
                unit,
                before,
                after,
                forgotten=gone,
                lost=newly_rejected(lake, manifest, seen.rejected),
                masked=masked_so(manifest, mask),
            )
        except SluiceError as error:
            if error.retryable:
                raise
            yield UnitChange(unit, before, {}, str(error))


class _SeesRejected(DiscardingLake):
    """Keeps which records were rejected of all that is thrown away."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake)
        self.rejected: list[tuple[Record, str]] = []

    def put(self, key: str, data: bytes) -> None:
        self._see(pq.ParquetFile(BytesIO(data)))

    def finish(self, key: str, begun: Begun) -> None:
        with pq.ParquetFile(begun.path) as parquet:
            self._see(parquet)
        super().finish(key, begun)

    def _see(self, parquet: pq.ParquetFile) -> None:
        if "_reason" in parquet.schema_arrow.names:
            self.rejected += rejected_of(parquet)


def outcomes(manifest: Manifest) -> dict[Outcome, int]:
    rows: Counter[Outcome] = Counter()
    for file in manifest.files:
        rows.update({(kind, file.hour): count for kind, count in file.types().items()})
    rows.update({(reason, ""): count for reason, count in manifest.refused_by_reason().items()})
    rows[_ERASED, ""] += manifest.erased_rows
    return dict(+rows)


def _after(
    pipeline: Pipeline, lake: Lake, unit: Unit, manifest: Manifest, erasures: ErasureList
) -> dict[Outcome, int]:
    reads, refused = remade_reads(pipeline, {unit: manifest})
    if refused:
        raise refused[0]
    run = ReadGroup(unit.cluster, tuple(reads[unit.cluster]))
    decoding = decoding_of(pipeline.event)
    fileless = Task(
        pipeline=keyless(pipeline),
        lake=lake,
        cluster=unit.cluster,
        attempt="plan",
        slices=(unit.slice,),
        edges=run.edges(),
        decoding=decoding,
        erasures=erasures,
        mask=mask_rules(pipeline),
    )
    task = LakeSource(pipeline, lake, {unit: manifest}, "").reading(fileless, run)
    report = task.land(lake_read.batches(task), "plan") if manifest.read else TaskReport()
    account(unit, manifest, report.seen)
    stay = Counter({(reason, ""): count for reason, count in manifest.forgotten_by_reason().items()})
    stay[_ERASED, ""] += manifest.erased_rows
    return dict(Counter(_outcomes_of(report)) + stay)


def _outcomes_of(report: TaskReport) -> dict[Outcome, int]:
    rows: Counter[Outcome] = Counter()
    for file in (file for file in report.files if file.hour):
        kinds = file.rows_by_type if file.type is None else {file.type: file.rows}
        rows.update({(kind, file.hour): count for kind, count in kinds.items()})
    for part in report.seen:
        reasons = Counter(part.rejected_records) + Counter(part.rejected_elements)
        rows.update({(reason, ""): count for reason, count in reasons.items()})
        rows[_ERASED, ""] += part.erased if part.rows is None else part.rows_erased
    return dict(+rows)
