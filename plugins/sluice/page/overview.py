"""The overview of a short range: one cell per slice, exact. Pure; long ranges are in `sluice.page.days`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from sluice.boundaries.model import Boundaries
from sluice.page.cells import Cell, Known, cell_of, is_overdue
from sluice.page.work import Work
from sluice.pipeline import Pipeline
from sluice.slices import Slice
from sluice.state import State
from sluice.status import UnitStatus
from sluice.summary.anomalies import Verdict
from sluice.summary.months import Month, UnitSummary, seal_of, summary_of


@dataclass(frozen=True)
class Hour:
    """One slice of the overview; counts are of all its clusters. `work` is what Airflow does to it."""

    slice: Slice
    cell: Cell
    work: Work | None
    anomalies: int
    read: int
    rows: int
    rejected: int
    late: int


@dataclass(frozen=True)
class Around:
    """What is known beside the units: the same for exact and for summarised hours. `first` is the first
    instant at which the pipeline has hours, or None when it has none yet."""

    pipeline: Pipeline
    work: Mapping[int, Work]
    verdict: Verdict
    first: datetime | None
    now: datetime


def first_instant(
    pipeline: Pipeline, boundaries: Boundaries | None, months: Sequence[Month] = ()
) -> datetime | None:
    """Where the pipeline's hours begin: its file's `start`, else the first hour that anybody resolved."""
    if pipeline.start is not None:
        return pipeline.start
    span = boundaries.span() if boundaries is not None else None
    known = [name for month in months for name, units in month.items() if _resolved(units)]
    if span is not None:
        return span[0]
    return Slice.from_id(min(known), pipeline.slice).start if known else None


def _resolved(units: Mapping[str, UnitSummary]) -> bool:
    return any(unit.seal or unit.offsets for unit in units.values())


def hours_of(found: Iterable[UnitStatus], summaries: Sequence[Month], around: Around) -> list[Hour]:
    """Exact hours; the summaries only say under which seal each unit was verified."""
    sealed = {
        (name, cluster): unit.verified
        for month in summaries
        for name, units in month.items()
        for cluster, unit in units.items()
    }
    hours = []
    for piece, group in groupby(found, key=lambda status: status.unit.slice):
        own = list(group)
        verified = all(s.state.done and sealed.get((piece.id, s.unit.cluster)) == seal_of(s) for s in own)
        hours.append(_hour(piece, [s.state for s in own], verified, [summary_of(s) for s in own], around))
    return hours


def _hour(
    piece: Slice, states: Sequence[State], verified: bool, units: Sequence[UnitSummary], around: Around
) -> Hour:
    work = around.work.get(int(piece.start.timestamp()))
    anomalies = sum(one.breaks and piece.id in one.slices for one in around.verdict.anomalies)
    known = Known(
        states=tuple(states),
        verified=verified,
        anomalies=anomalies,
        work=work,
        overdue=is_overdue(piece.end, around.pipeline.settle, piece.length, around.now),
        expected=around.first is not None and piece.end > around.first,
    )
    return Hour(
        slice=piece,
        cell=cell_of(known),
        work=work if work is not None and work.running else None,
        anomalies=anomalies,
        read=sum(unit.read for unit in units),
        rows=sum(unit.rows for unit in units),
        rejected=sum(unit.unparsed + unit.misfits for unit in units),
        late=sum(unit.late for unit in units),
    )
