"""The overview's newest hours: one cell per slice, exact. Pure; older ones are in `sluice.page.history`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.causes import broken_slices
from sluice.flow.verify.verdict import Verdict
from sluice.page.airflow_runs import SliceActivity
from sluice.page.cells import Cell, CellFacts, cell_of, due_by, missing_from
from sluice.page.retention_facts import ExpiredUnits, with_expired
from sluice.slices import Slice
from sluice.state.boundaries.model import Boundaries
from sluice.state.months import Summaries, UnitSummary
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState


@dataclass(frozen=True)
class Hour:
    """One slice of the overview; counts are of all its clusters. `work` is what Airflow does to it, and
    `missing` the clusters that have not landed, where others have."""

    slice: Slice
    cell: Cell
    work: SliceActivity | None
    anomalies: int
    read: int
    rows: int
    rejected: int
    late: int
    missing: tuple[str, ...] = ()
    lost: int = 0

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.cell,)


@dataclass(frozen=True)
class OverviewContext:
    """What is known beside the units: the same for exact and for summarised hours. `first` is the first
    instant at which the pipeline has hours, or None when it has none yet; `begins` that of clusters which
    were added later. `gone`: a target table is not there; `expired`: what the watch has seen to be."""

    pipeline: Pipeline
    work: Mapping[int, SliceActivity]
    verdict: Verdict
    first: datetime | None
    now: datetime
    begins: Mapping[str, datetime] = field(default_factory=dict)
    gone: bool = False
    expired: ExpiredUnits = field(default_factory=dict)


def first_instant(
    pipeline: Pipeline, boundaries: Boundaries | None, noted: Summaries | None = None
) -> datetime | None:
    """Returns where the pipeline's hours begin: its file's `start`, else the first hour that was resolved."""
    if pipeline.start is not None:
        return pipeline.start
    span = boundaries.span() if boundaries is not None else None
    if span is not None:
        return span[0]
    for month in noted.months if noted is not None else ():
        resolved = [name for name, units in month.units.items() if _resolved(units)]
        if resolved:
            return Slice.from_id(min(resolved), pipeline.slice).start
    return None


def _resolved(units: Mapping[str, UnitSummary]) -> bool:
    return any(unit.seal or unit.offsets for unit in units.values())


def hours_of(snapshot: OverviewSnapshot, noted: Summaries, around: OverviewContext) -> list[Hour]:
    """Returns exact hours. The summaries only say under which seal each unit was verified."""
    broken = broken_slices(around.verdict.anomalies)
    due, hours = due_by(around.pipeline.settle, around.pipeline.slice, around.now), []
    statuses = with_expired(snapshot.statuses, around.expired)
    pairs = zip(statuses, snapshot.summaries, strict=True)
    for slice_, group in groupby(pairs, key=lambda pair: pair[0].unit.slice):
        slice_pairs = list(group)
        verified = all(_verified(status, unit, noted.of(slice_.id)) for status, unit in slice_pairs)
        states, units = [status.state for status, _ in slice_pairs], [unit for _, unit in slice_pairs]
        hour = _hour(slice_, states, verified, units, broken[slice_.id], slice_.end < due, around)
        missing = missing_from((status.unit.cluster, status.state) for status, _ in slice_pairs)
        awaited = missing and hour.cell is not Cell.BEFORE
        hours.append(replace(hour, missing=missing) if awaited else hour)
    return hours


def _verified(status: UnitStatus, now: UnitSummary, noted: Mapping[str, UnitSummary]) -> bool:
    """Returns whether the last verification of the unit found no anomaly in what is committed now."""
    then = noted.get(status.unit.cluster)
    return status.state.done and then is not None and then.verified == now.seal


def _hour(
    slice_: Slice,
    states: Sequence[UnitState],
    verified: bool,
    units: Sequence[UnitSummary],
    anomalies: int,
    overdue: bool,
    around: OverviewContext,
) -> Hour:
    work = around.work.get(int(slice_.start.timestamp()))
    facts = CellFacts(
        states=tuple(states),
        verified=verified,
        anomalies=anomalies,
        work=work,
        overdue=overdue,
        expected=around.first is not None and slice_.end > around.first,
        gone=around.gone,
    )
    return Hour(
        slice=slice_,
        cell=cell_of(facts),
        work=work if work is not None and work.running else None,
        anomalies=anomalies,
        read=sum(unit.read for unit in units),
        rows=sum(unit.rows for unit in units),
        rejected=sum(unit.unparsed + unit.misfits for unit in units),
        late=sum(unit.late for unit in units),
        lost=sum(unit.lost for unit in units),
    )


@dataclass(frozen=True)
class OverviewSnapshot:
    """The state of a range: `statuses` slice by slice, each one's summary, and the boundaries they go by."""

    statuses: list[UnitStatus]
    summaries: list[UnitSummary]
    boundaries: Boundaries
