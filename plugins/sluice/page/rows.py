"""The rows of the overview, one for each pipeline. One pipeline's failure does not affect the other rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pendulum

from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import brief_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, Unavailable, WrongUse
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.verdict import read_verdict
from sluice.page.airflow_runs import DagRunView, work_of
from sluice.page.findings import Known, findings_of, with_findings
from sluice.page.history import days_of, hours_past, ids_of
from sluice.page.models import Cell, Finding, Legend, OverviewCell, OverviewRow
from sluice.page.odd import Odd, UsualRows
from sluice.page.overview import (
    OverviewContext,
    OverviewSnapshot,
    expired_units,
    first_instant,
    hours_of,
    odd_of,
)
from sluice.page.status_cache import PendingLedgers, PipelineCache, StatusCache, ask_together
from sluice.page.table_marks import table_marks
from sluice.plan.lag import LONGEST
from sluice.slices import FIRST, Slice, SliceRange, ceil, parse_instant
from sluice.state.boundaries.model import Boundaries
from sluice.state.months import Summaries, read_summaries, summary_of
from sluice.state.status import UnitStatus, complete_slices
from sluice.state.unit_state import DONE, UnitState
from sluice.watch.expected import HISTORY_DAYS, Expected, expected, habit_of
from sluice.watch.problems import Alarm, AlarmStore, Problem, ProblemKind

HOURLY = timedelta(days=8)
EXACT = timedelta(days=2)
DEFECT = "Sluice failed ({}): report it with the traceback in the web server's log"
log = logging.getLogger(__name__)
# More threads are slower: much of a row is this process's own work.
_SIDE_BY_SIDE = 4


@dataclass(frozen=True)
class RequestedRange:
    """The range of an overview: a cell per hour where they fit on a screen, else one per day."""

    start: pendulum.DateTime
    end: pendulum.DateTime
    now: pendulum.DateTime

    @classmethod
    def of(cls, start: str, end: str, now: pendulum.DateTime) -> RequestedRange:
        """`end` may be `now`: then the open hour is part of it. `start` may be an age such as `48h`.

        Raises WrongUse for what is no range, or one of more than five years.
        """
        hour = timedelta(hours=1)
        until = ceil(now, hour) if end == "now" else parse_instant(end, now)
        age = start.removesuffix("h")
        if age != start and age.isdecimal():
            hours = timedelta(hours=int(age)) if len(age) < 6 else LONGEST
            since = max(until - min(hours, LONGEST), FIRST)
        else:
            since = parse_instant(start, now)
        widened = bounded(SliceRange.widen(since, until))
        return cls(widened.start, widened.end, now)

    @property
    def zoom(self) -> str:
        return "hours" if self.end - self.start <= HOURLY else "days"

    def slices(self, length: timedelta) -> SliceRange:
        return SliceRange.widen(self.start, self.end, length)

    def halves(self, length: timedelta) -> tuple[SliceRange, SliceRange]:
        """Divides hours into those read from summaries, which may be empty, and the newest, read exactly."""
        slices = self.slices(length)
        newest = SliceRange.widen(max(slices.start, slices.end - EXACT), slices.end, length)
        return SliceRange(slices.start, newest.start, length), newest


def bounded(slices: SliceRange) -> SliceRange:
    """Raises WrongUse for a range that is too long for one answer."""
    if slices.end - slices.start > LONGEST:
        raise WrongUse("the range has more than five years: ask for less")
    return slices


def legend() -> list[Legend]:
    return [Legend(cell=cell, sign=cell.sign, meaning=cell.meaning) for cell in Cell]


@dataclass(frozen=True)
class Schedule:
    """Whether the DAG of the hourly runs is paused (None: Airflow has none), when it makes the next run, and
    whether it runs the watch."""

    paused: bool | None = False
    next_run: str = ""
    watched: bool = True


def rows_of(
    memory: StatusCache,
    pipelines: Sequence[Pipeline],
    requested: RequestedRange,
    runs: Mapping[str, Sequence[DagRunView]],
    schedules: Mapping[str, Schedule] | None = None,
) -> list[OverviewRow]:
    """Returns a row for each of the pipelines, in their order; `runs` are Airflow's, by pipeline."""

    def row(pipeline: Pipeline, ledgers: PendingLedgers) -> OverviewRow:
        schedule = (schedules or {}).get(pipeline.name, Schedule())
        of_pipeline = runs.get(pipeline.name, ())
        return own_row(
            pipeline, schedule, lambda: _row(memory, pipeline, requested, of_pipeline, ledgers, schedule)
        )

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        exact_ranges = [(p, requested.halves(p.slice)[1]) for p in pipelines if requested.zoom == "hours"]
        answers = ask_together(memory.clients, pool, exact_ranges) or [dict] * len(pipelines)
        return list(pool.map(row, pipelines, answers))


def own_row(pipeline: Pipeline, schedule: Schedule, make: Callable[[], OverviewRow]) -> OverviewRow:
    """Returns what `make` makes. What stops it stops this row alone, which has no cells, and the error: that
    of a lake or a ClickHouse that does not answer, or the class of any other, which is a defect of Sluice."""
    try:
        return make()
    except SluiceError as error:
        return _failed_row(pipeline, schedule, error.public)
    except Exception as defect:
        log.exception("the overview's row of pipeline %s", pipeline.name)
        return _failed_row(pipeline, schedule, DEFECT.format(type(defect).__name__))


def _failed_row(pipeline: Pipeline, schedule: Schedule, error: str) -> OverviewRow:
    known = Known(
        pipeline, pendulum.now("UTC"), paused=schedule.paused, watched=schedule.watched, error=error
    )
    return with_findings(_as_row(pipeline, schedule, [], None, error=error), findings_of(known))


def _row(
    memory: StatusCache,
    pipeline: Pipeline,
    requested: RequestedRange,
    runs: Sequence[DagRunView],
    ledgers: PendingLedgers,
    schedule: Schedule,
) -> OverviewRow:
    slices, cache = requested.slices(pipeline.slice), memory.of(pipeline)
    lake = brief_lake(pipeline)
    verdict, alarms = read_verdict(lake), open_alarms(lake)
    hourly = requested.zoom == "hours"
    noted = read_summaries(lake, with_history(slices) if hourly else slices, cache.months)
    starts = range(int(slices.start.timestamp()), int(slices.end.timestamp()), _seconds(pipeline))
    work = work_of(runs, starts, pipeline.slice)
    table_seen = any(one.kind == AnomalyKind.TABLE_MISSING for one in verdict.anomalies) or any(
        alarm.problem.kind is ProblemKind.TABLE for alarm in alarms
    )
    usual: UsualRows = {}
    odd: list[Odd] = []
    lacking: Sequence[tuple[Slice, frozenset[str]]] = ()

    def around(first: datetime | None) -> OverviewContext:
        begins, expired = cache.begins(lake), expired_units(alarms)
        return OverviewContext(
            pipeline, work, verdict, first, requested.now, begins, expired=expired, usual=usual
        )

    if hourly:
        past, newest = requested.halves(pipeline.slice)
        usual = usual_rows(slices, noted, cache)
        snapshot = cache.snapshot(newest, ledgers)
        seen = around(first_instant(pipeline, snapshot.boundaries))
        odd = [one for odds in odd_of(snapshot, seen).values() for one in odds]
        cells, gone = _with_missing_tables(
            memory,
            seen,
            table_seen or any(status.state is UnitState.LANDED for status in snapshot.statuses),
            lambda facts: hours_past(past, noted, facts) + hours_of(snapshot, noted, facts),
        )
        lacking = snapshot.lacking
        done = complete_slices(snapshot.statuses)
        behind = _seconds_since(done[-1].end, requested) if done else _behind(past, noted, requested)
    else:
        boundaries = None if pipeline.since is not None else cache.boundaries(lake)
        cells, gone = _with_missing_tables(
            memory,
            around(first_instant(pipeline, boundaries, noted)),
            table_seen,
            lambda facts: days_of(slices, noted, facts, cache.days),
        )
        behind = _behind(slices, noted, requested)
    known = Known(
        pipeline=pipeline,
        now=requested.now,
        cells=cells,
        anomalies=verdict.anomalies,
        verifications=verdict.verifications,
        alarms=alarms,
        gone=gone,
        odd=odd,
        paused=schedule.paused,
        watched=schedule.watched,
    )
    ids, missing = {cell.id for cell in cells}, known.missing.keys()
    marks = table_marks(pipeline, lacking, verdict.anomalies, missing, ids, requested.now) if hourly else []
    row = _as_row(
        pipeline,
        schedule,
        cells,
        behind,
        lost=sum(cell.lost for cell in cells),
        expected=[_rounded(usual.get(start)) for start in starts] if hourly else [],
        marks=marks,
    )
    return with_findings(row, findings_of(known))


def _with_missing_tables(
    memory: StatusCache,
    around: OverviewContext,
    suspected: bool,
    make: Callable[[OverviewContext], list[OverviewCell]],
) -> tuple[list[OverviewCell], frozenset[str] | None]:
    """Returns what `make` makes of the hours, and the tables that are missing, None where nobody asked. Asks
    where an hour is late or a table is `suspected`, and caches the answer, so that days need not be computed
    twice."""
    cache = memory.of(around.pipeline)
    cells = make(replace(around, gone=cache.gone))
    late = {Cell.LATE, Cell.NO_TABLE}
    if not (suspected or cache.gone or any(late & (cell.counts.keys() or {cell.cell}) for cell in cells)):
        return cells, None
    gone = memory.clients.gone(around.pipeline)
    if gone != cache.gone:
        cache.gone = gone
        cells = make(replace(around, gone=gone))
    return cells, gone


def _seconds(pipeline: Pipeline) -> int:
    return int(pipeline.slice.total_seconds())


def _behind(slices: SliceRange, noted: Summaries, requested: RequestedRange) -> int | None:
    for back, name in enumerate(reversed(list(ids_of(slices)))):
        units = noted.of(name)
        if units and all(unit.state in DONE for unit in units.values()):
            return _seconds_since(slices.end - back * slices.length, requested)
    return None


def _seconds_since(instant: pendulum.DateTime, requested: RequestedRange) -> int:
    return int((requested.now - instant).total_seconds())


def _as_row(
    pipeline: Pipeline, schedule: Schedule, cells: list[OverviewCell], behind: int | None, **more: Any
) -> OverviewRow:
    return OverviewRow(
        pipeline=pipeline.name,
        slice_seconds=_seconds(pipeline),
        can_start=False,
        paused=bool(schedule.paused),
        next_run=schedule.next_run,
        arrays=pipeline.event.arrays,
        behind_seconds=behind,
        cells=cells,
        **more,
    )


# How many rows each slice is expected to have, from the summaries of earlier weeks. Pure.
BACK = timedelta(days=HISTORY_DAYS)


def with_history(slices: SliceRange) -> SliceRange:
    """Returns the range with the weeks before it that `usual_rows` reads."""
    return SliceRange.widen(max(slices.start - BACK, FIRST), slices.end, slices.length)


def usual_rows(slices: SliceRange, noted: Summaries, cache: PipelineCache | None = None) -> UsualRows:
    """Returns the expected rows of slices, in all tables, by their start; those without enough earlier days
    are left out. Slices that are not complete do not count for later ones. With `cache` nothing is computed
    again until a summary changes."""
    key = (slices, tuple(month.version for month in noted.months))
    if cache is not None and cache.usual[0] == key:
        return cache.usual[1]
    history = with_history(slices)
    step, first = int(history.length.total_seconds()), int(history.start.timestamp())
    rows_by_start: dict[int, int] = {}
    for number, name in enumerate(ids_of(history)):
        units = noted.of(name)
        if units and all(unit.state in DONE for unit in units.values()):
            rows_by_start[first + number * step] = sum(unit.rows for unit in units.values())
    starts = range(int(slices.start.timestamp()), int(slices.end.timestamp()), step)
    habit = habit_of(rows_by_start, starts[-1]) if starts else None
    found = ((at, expected(at, rows_by_start, habit)) for at in starts)
    usual = {at: one for at, one in found if one is not None and one.settled}
    if cache is not None:
        cache.usual = (key, usual)
    return usual


def _rounded(usual: Expected | None) -> int | None:
    return None if usual is None else round(usual.count)


def findings_of_units(
    pipeline: Pipeline, lake: Lake, statuses: Sequence[UnitStatus], gone: Collection[str]
) -> list[Finding]:
    """Returns what the page says of these hours, without what Airflow does to them. Raises what the lake
    raises."""
    verdict, alarms, now = read_verdict(lake), open_alarms(lake), pendulum.now("UTC")
    resolved = [one for one in statuses if one.ranges is not None] or statuses
    first = pipeline.since or min((one.unit.slice.start for one in resolved), default=None)
    snapshot = OverviewSnapshot(list(statuses), [summary_of(one) for one in statuses], Boundaries())
    around = OverviewContext(
        pipeline, {}, verdict, first, now, gone=frozenset(gone), expired=expired_units(alarms)
    )
    known = Known(
        pipeline=pipeline,
        now=now,
        cells=hours_of(snapshot, Summaries(), around),
        anomalies=verdict.anomalies,
        alarms=alarms,
        gone=gone,
        odd=[one for odds in odd_of(snapshot, around).values() for one in odds],
    )
    return findings_of(known)


# What the watch sees of a pipeline now.
def open_alarms(lake: Lake) -> tuple[Alarm, ...]:
    """Reads what is open. A damaged file of the watch is a problem itself. Raises Unavailable where the lake
    does not answer."""
    try:
        return tuple(alarm for alarm in AlarmStore(lake).read().alarms.values() if not alarm.over)
    except Unavailable:
        raise
    except SluiceError as error:
        return (Alarm(Problem(ProblemKind.MORE, "the watch's state", error.public), ""),)
