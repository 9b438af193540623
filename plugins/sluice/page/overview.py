"""The overview's newest hours: one cell per slice, exact. Pure; older ones are in `sluice.page.history`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.causes import broken_slices
from sluice.flow.verify.verdict import Verdict
from sluice.page.airflow_runs import SliceActivity
from sluice.page.models import Cell, CellFacts, OverviewCell, cell_of, due_by, missing_from
from sluice.page.odd import Odd, UsualRows, is_empty, is_odd, odd_in
from sluice.slices import Slice
from sluice.state.boundaries.model import Boundaries
from sluice.state.months import Summaries, Units, UnitSummary
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.problems import Alarm, ProblemKind

ExpiredUnits = Mapping[str, frozenset[str]]
"""By slice id the clusters."""


@dataclass(frozen=True)
class OverviewContext:
    """What is known beside the units: the same for exact and for summarised hours. `first` is the first
    instant at which the pipeline has hours, or None when it has none yet; `begins` that of clusters which
    were added later. `gone`: target tables that are not there; `expired`: what the watch has seen to be;
    `usual`: the rows that exact hours are expected to have."""

    pipeline: Pipeline
    work: Mapping[int, SliceActivity]
    verdict: Verdict
    first: datetime | None
    now: datetime
    begins: Mapping[str, datetime] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    expired: ExpiredUnits = field(default_factory=dict)
    usual: UsualRows = field(default_factory=dict)


def first_instant(
    pipeline: Pipeline, boundaries: Boundaries | None, noted: Summaries | None = None
) -> datetime | None:
    """Returns where the pipeline's hours begin: its file's `start`, else the first hour that was resolved."""
    if pipeline.since is not None:
        return pipeline.since
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


def hours_of(snapshot: OverviewSnapshot, noted: Summaries, around: OverviewContext) -> list[OverviewCell]:
    """Returns exact hours. The summaries only say under which seal each unit was verified."""
    broken = broken_slices(around.verdict.anomalies)
    due, hours = due_by(around.pipeline.settle, around.pipeline.slice, around.now), []
    statuses = with_expired(snapshot.statuses, around.expired)
    odd = odd_of(snapshot, around)
    pairs = zip(statuses, snapshot.summaries, strict=True)
    for slice_, group in groupby(pairs, key=lambda pair: pair[0].unit.slice):
        slice_pairs = list(group)
        work, anomalies = around.work.get(int(slice_.start.timestamp())), broken[slice_.id]
        facts = CellFacts(
            states=tuple(status.state for status, _ in slice_pairs),
            verified=all(_verified(status, unit, noted.of(slice_.id)) for status, unit in slice_pairs),
            anomalies=anomalies,
            work=work,
            overdue=slice_.end < due,
            expected=around.first is not None and slice_.end > around.first,
            gone=bool(around.gone),
            odd=slice_.id in odd or any(is_odd(around.pipeline, unit) for _, unit in slice_pairs),
            empty=is_empty(around.pipeline, [unit for _, unit in slice_pairs]),
        )
        states = [(status.unit.cluster, status.state) for status, _ in slice_pairs]
        units = [unit for _, unit in slice_pairs]
        hours.append(hour_cell(slice_.id, cell_of(facts), work, anomalies, units, states))
    return hours


def odd_of(snapshot: OverviewSnapshot, around: OverviewContext) -> dict[str, list[Odd]]:
    return odd_in(around.pipeline, snapshot.statuses, snapshot.summaries, around.usual)


def _verified(status: UnitStatus, now: UnitSummary, noted: Mapping[str, UnitSummary]) -> bool:
    """Returns whether the last verification of the unit found no anomaly in what is committed now."""
    then = noted.get(status.unit.cluster)
    return status.state.done and then is not None and then.verified == now.seal


def hour_cell(
    name: str,
    cell: Cell,
    work: SliceActivity | None,
    anomalies: int,
    units: Collection[UnitSummary],
    states: Collection[tuple[str, UnitState]],
) -> OverviewCell:
    """Returns the cell of a slice as the overview shows it; `units` are its clusters', `states` those of
    all clusters that it waits for."""
    running = work if work is not None and work.running else None
    return OverviewCell(
        id=name,
        cell=cell,
        running=running.phase if running else "",
        run=running.run_id if running else "",
        anomalies=anomalies,
        late=sum(unit.late for unit in units),
        missing=() if cell is Cell.BEFORE else missing_from(states),
        unlanded=any(state is UnitState.MISSING for _, state in states),
        **sums_of(units),
    )


def sums_of(units: Collection[UnitSummary]) -> dict[str, Any]:
    """Returns the counts of an hour or of a day."""
    return {
        "read": sum([unit.read for unit in units]),
        "rows": sum([unit.rows for unit in units]),
        "rejected": sum([unit.rejected_records for unit in units]),
        "rejected_rows": sum([unit.rejected_rows for unit in units]),
        "lost": sum([unit.lost for unit in units]),
    }


@dataclass(frozen=True)
class OverviewSnapshot:
    """The state of a range: `statuses` slice by slice, each one's summary, the boundaries they go by, and of
    units that landed the tables that lack them."""

    statuses: list[UnitStatus]
    summaries: list[UnitSummary]
    boundaries: Boundaries
    lacking: Sequence[tuple[Slice, frozenset[str]]] = ()


# Units of which Kafka has deleted records before they landed, as the watch has seen it. Pure.
#
# A step notes that a unit has expired once it has tried to land it; the page does not ask Kafka for each
# cell.
_SLICE = "slice "
_UNLANDED = frozenset({str(UnitState.MISSING), str(UnitState.NOT_OVER)})


def expired_units(alarms: Iterable[Alarm]) -> dict[str, frozenset[str]]:
    """Returns the units with an open alarm that they have expired."""
    clusters_by_slice: dict[str, frozenset[str]] = {}
    for alarm in alarms:
        problem = alarm.problem
        if problem.kind is ProblemKind.EXPIRED and not alarm.over and problem.place.startswith(_SLICE):
            name, _, cluster = problem.place.removeprefix(_SLICE).partition("/")
            clusters_by_slice[name] = clusters_by_slice.get(name, frozenset()) | {cluster}
    return clusters_by_slice


def with_expired(statuses: Iterable[UnitStatus], expired: ExpiredUnits) -> list[UnitStatus]:
    """Returns the statuses. Those of unlanded units in `expired` say that the unit has expired."""
    return [
        replace(status, state=UnitState.EXPIRED)
        if status.state is UnitState.MISSING and status.unit.cluster in expired.get(status.unit.slice.id, ())
        else status
        for status in statuses
    ]


def units_with_expired(units: Units, clusters: Iterable[str]) -> Units:
    """Returns a slice's summaries, with the unlanded units of `clusters` as expired ones. A unit that no step
    has read has no summary before."""
    unlanded = [c for c in clusters if c not in units or units[c].state in _UNLANDED]
    return {**units, **{cluster: UnitSummary(UnitState.EXPIRED) for cluster in unlanded}}
