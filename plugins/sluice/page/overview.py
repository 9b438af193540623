"""The overview's newest hours: one cell per slice, exact. Pure; older ones are in `sluice.page.history`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Any, Self

from pydantic import Field

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.causes import Cause, broken_slices, causes_of
from sluice.flow.verify.repairs import ranged
from sluice.flow.verify.verdict import OpenAnomaly, Verdict, Verification
from sluice.page.airflow_runs import SliceActivity
from sluice.page.models import (
    Cell,
    CellFacts,
    Model,
    NeedRow,
    OverviewCell,
    OverviewRow,
    cell_of,
    due_by,
    missing_from,
)
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


def hours_of(snapshot: OverviewSnapshot, noted: Summaries, around: OverviewContext) -> list[OverviewCell]:
    """Returns exact hours. The summaries only say under which seal each unit was verified."""
    broken = broken_slices(around.verdict.anomalies)
    due, hours = due_by(around.pipeline.settle, around.pipeline.slice, around.now), []
    statuses = with_expired(snapshot.statuses, around.expired)
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
            gone=around.gone,
        )
        missing = missing_from((status.unit.cluster, status.state) for status, _ in slice_pairs)
        units = [unit for _, unit in slice_pairs]
        hours.append(hour_cell(slice_.id, cell_of(facts), work, anomalies, units, missing))
    return hours


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
    missing: tuple[str, ...],
) -> OverviewCell:
    """Returns the cell of a slice as the overview shows it; `units` are its clusters'."""
    running = work if work is not None and work.running else None
    return OverviewCell(
        id=name,
        cell=cell,
        running=running.phase if running else "",
        run=running.run_id if running else "",
        anomalies=anomalies,
        late=sum(unit.late for unit in units),
        missing=() if cell is Cell.BEFORE else missing,
        **sums_of(units),
    )


def sums_of(units: Collection[UnitSummary]) -> dict[str, Any]:
    """Returns the counts of an hour or of a day."""
    return {
        "read": sum([unit.read for unit in units]),
        "rows": sum([unit.rows for unit in units]),
        "rejected": sum([unit.rejected_records + unit.rejected_rows for unit in units]),
        "lost": sum([unit.lost for unit in units]),
    }


@dataclass(frozen=True)
class OverviewSnapshot:
    """The state of a range: `statuses` slice by slice, each one's summary, and the boundaries they go by."""

    statuses: list[UnitStatus]
    summaries: list[UnitSummary]
    boundaries: Boundaries


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


# Which pipeline needs somebody, and for what: from its cells, its problems and its schedule.
#
# The overview is sorted by it. A pipeline has every need that it has a reason for; the most urgent one
# decides its place, then how often it has it, then its name.

# What is wrong, by cause, as the page shows it.

MOST_CAUSES, MOST_EXAMPLES, MOST_COMMANDS = 200, 20, 20


class RepairRow(Model):
    """A command that repairs. What a run of the backfill DAG has to be given for the same: a mode,
    `[start, end)`, and tables, none for all; all are empty for a command that is no run."""

    command: str
    mode: str = ""
    start: str = ""
    end: str = ""
    tables: list[str] = Field(default_factory=list)


class CauseRow(Model):
    """What is wrong, once for all `slices` hours, from `first` to `last`, that have it. `breaks`: a count is
    wrong; `examples` are the first of `anomalies`. `held_at`: when all of these hours were last verified
    without an anomaly, empty where no verification that is kept says so."""

    name: str
    place: str
    message: str
    breaks: bool
    advice: str
    repairs: list[RepairRow]
    slices: int
    first: str
    last: str
    found_at: str
    held_at: str
    anomalies: int
    examples: list[OpenAnomaly]


class Anomalies(Model):
    """What is open, by cause, and the last verifications, the newest first."""

    causes: list[CauseRow]
    verifications: list[Verification]


def cause_rows(
    anomalies: Iterable[OpenAnomaly], verifications: Sequence[Verification] = ()
) -> list[CauseRow]:
    """Returns the causes, wrong counts before unfinished hours. `verifications` are in order, the newest
    last."""
    sound = [verification for verification in reversed(verifications) if not verification.found]
    return [_row(cause, sound) for cause in causes_of(anomalies)[:MOST_CAUSES]]


def _row(cause: Cause, sound: Sequence[Verification]) -> CauseRow:
    slices = cause.slices
    return CauseRow(
        name=cause.name,
        place=cause.place,
        message=cause.message,
        breaks=cause.breaks,
        advice=cause.advice,
        repairs=[repair_row(command) for command in cause.commands[:MOST_COMMANDS]],
        slices=len(slices),
        first=slices[0] if slices else "",
        last=slices[-1] if slices else "",
        found_at=max(anomaly.found_at for anomaly in cause.anomalies),
        held_at=_held_at(slices, sound),
        anomalies=len(cause.anomalies),
        examples=list(cause.anomalies[:MOST_EXAMPLES]),
    )


def _held_at(slices: Sequence[str], sound: Sequence[Verification]) -> str:
    """Returns when all of the slices were last verified without an anomaly. `sound` are the verifications
    without any, the newest first."""
    if not slices:
        return ""
    first, last = _minute(slices[0]), _minute(slices[-1])
    covering = (
        verification.at
        for verification in sound
        if verification.start[:16] <= first and last < verification.until[:16]
    )
    return next(covering, "")


def _minute(slice_id: str) -> str:
    """Returns 2026-11-20T10:00 for 2026-11-20T10Z, 2026-11-20T10:15 for 2026-11-20T1015Z: as text these are
    in the order of time, like the edges of verifications, which are in UTC, too."""
    return f"{slice_id[:13]}:{slice_id[13:-1] or '00'}"


def repair_row(command: str) -> RepairRow:
    run = ranged(command)
    if run is None or not run.mode or run.yes:  # a yes is for a shell
        return RepairRow(command=command)
    return RepairRow(command=command, mode=run.mode, start=run.start, end=run.until, tables=run.tables)


class Need(StrEnum):
    """In the order of urgency, the most urgent first. A need of hours has the name of their cell. In `words`
    {0} is "1 hour" or "3 hours", {1} problems and {2} causes."""

    words: str

    UNAVAILABLE = "unavailable", "its lake or ClickHouse does not answer"
    BROKEN = "broken", "{0}: counts do not hold"
    ANOMALY = "anomaly", "{2} of counts that do not hold"
    EXPIRED = "expired", "{0}: Kafka no longer has the records"
    FAILED = "failed", "{0}: the last run failed"
    NO_TABLE = "no-table", "{0}: a table is not there"
    LATE = "late", "{0} late"
    PROBLEM = "problem", "{1} that the watch sees"
    PAUSED = "paused", "paused: no hour is landed by itself"
    STALE = "stale", "{0}: a table has the old rows"
    LOSSY = "lossy", "{0} with a recorded loss"

    def __new__(cls, name: str, words: str) -> Self:
        need = str.__new__(cls, name)
        need._value_, need.words = name, words
        return need

    def text(self, count: int, slice_seconds: int) -> str:
        noun = "hour" if slice_seconds == 3600 else "slice"
        return self.words.format(_number(count, noun), _number(count, "problem"), _number(count, "cause"))


URGENCY: dict[str, int] = {need: number for number, need in enumerate(Need)}


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def attended(row: OverviewRow) -> OverviewRow:
    """Returns the row with what the pipeline needs somebody for and how often, the most urgent first."""
    counts: Counter[str] = Counter()
    for cell in row.cells:
        counts.update(cell.counts or {cell.cell: 1})
    counts[Need.ANOMALY] = 0 if counts[Need.BROKEN] else row.anomalies
    counts[Need.PROBLEM] = sum(row.problems.values())
    counts[Need.PAUSED] = int(row.paused)
    counts[Need.UNAVAILABLE] = int(row.error != "")
    needs = [
        NeedRow(need=need, count=counts[need], text=need.text(counts[need], row.slice_seconds))
        for need in Need
        if counts[need]
    ]
    return row.model_copy(update={"needs": needs})


def by_need(rows: list[OverviewRow]) -> list[OverviewRow]:
    """Sorts rows that have their needs: what needs somebody most comes first."""
    return sorted(rows, key=_place)


def _place(row: OverviewRow) -> tuple[int, int, str]:
    if not row.needs:
        return len(URGENCY), 0, row.pipeline
    first = row.needs[0]
    return URGENCY[first.need], -first.count, row.pipeline
