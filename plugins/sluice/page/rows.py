"""The rows of the overview, one for each pipeline. One pipeline's failure does not affect the other rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pendulum

from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import brief_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, Unavailable, WrongUse
from sluice.flow.verify.causes import causes_of
from sluice.flow.verify.verdict import read_verdict, within
from sluice.page.airflow_runs import DagRunView, work_of
from sluice.page.history import days_of, hours_past, ids_of
from sluice.page.models import Cell, Legend, OverviewCell, OverviewRow
from sluice.page.overview import ExpiredUnits, OverviewContext, expired_units, first_instant, hours_of
from sluice.page.status_cache import PendingLedgers, StatusCache, ask_together
from sluice.plan.lag import LONGEST
from sluice.slices import FIRST, SliceRange, ceil, parse_instant
from sluice.state.months import Summaries, read_summaries
from sluice.state.status import complete_slices
from sluice.state.unit_state import DONE
from sluice.watch.expected import DAYS_NEEDED, expected
from sluice.watch.problems import AlarmStore

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
    return [Legend(cell=cell, sign=cell.sign, meaning=cell.meaning) for cell in Cell if cell.sign]


def rows_of(
    memory: StatusCache,
    pipelines: Sequence[Pipeline],
    requested: RequestedRange,
    runs: Mapping[str, Sequence[DagRunView]],
) -> list[OverviewRow]:
    """Returns a row for each of the pipelines, in their order; `runs` are Airflow's, by pipeline."""

    def row(pipeline: Pipeline, ledgers: PendingLedgers) -> OverviewRow:
        return own_row(
            pipeline, lambda: _row(memory, pipeline, requested, runs.get(pipeline.name, ()), ledgers)
        )

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        exact_ranges = [(p, requested.halves(p.slice)[1]) for p in pipelines if requested.zoom == "hours"]
        answers = ask_together(memory.clients, pool, exact_ranges) or [dict] * len(pipelines)
        return list(pool.map(row, pipelines, answers))


def own_row(pipeline: Pipeline, make: Callable[[], OverviewRow]) -> OverviewRow:
    """Returns what `make` makes. What stops it stops this row alone, which has no cells, and the error: that
    of a lake or a ClickHouse that does not answer, or the class of any other, which is a defect of Sluice."""
    try:
        return make()
    except SluiceError as error:
        return _as_row(pipeline, [], None, anomalies=0, error=error.public)
    except Exception as defect:
        log.exception("the overview's row of pipeline %s", pipeline.name)
        return _as_row(pipeline, [], None, anomalies=0, error=DEFECT.format(type(defect).__name__))


def _row(
    memory: StatusCache,
    pipeline: Pipeline,
    requested: RequestedRange,
    runs: Sequence[DagRunView],
    ledgers: PendingLedgers,
) -> OverviewRow:
    slices, cache = requested.slices(pipeline.slice), memory.of(pipeline)
    lake = brief_lake(pipeline)
    verdict = within(read_verdict(lake), slices)
    hourly = requested.zoom == "hours"
    noted = read_summaries(lake, with_history(slices) if hourly else slices, cache.months)
    watched = open_problems(lake)
    starts = range(int(slices.start.timestamp()), int(slices.end.timestamp()), _seconds(pipeline))
    work = work_of(runs, starts, pipeline.slice)

    def around(first: datetime | None) -> OverviewContext:
        begins = cache.begins(lake)
        return OverviewContext(pipeline, work, verdict, first, requested.now, begins, expired=watched.expired)

    if hourly:
        past, newest = requested.halves(pipeline.slice)
        snapshot = cache.snapshot(newest, ledgers)
        cells = _with_missing_tables(
            memory,
            around(first_instant(pipeline, snapshot.boundaries)),
            lambda facts: hours_past(past, noted, facts) + hours_of(snapshot, noted, facts),
        )
        done = complete_slices(snapshot.statuses)
        behind = _seconds_since(done[-1].end, requested) if done else _behind(past, noted, requested)
    else:
        log = None if pipeline.start is not None else cache.boundaries(lake)
        cells = _with_missing_tables(
            memory,
            around(first_instant(pipeline, log, noted)),
            lambda facts: days_of(slices, noted, facts, cache.days),
        )
        behind = _behind(slices, noted, requested)
    return _as_row(
        pipeline,
        cells,
        behind,
        anomalies=sum(cause.breaks for cause in causes_of(verdict.anomalies)),
        lost=sum(cell.lost for cell in cells),
        problems=watched.counts,
        expected=expected_rows(slices, noted) if hourly else [],
    )


def _with_missing_tables(
    memory: StatusCache, around: OverviewContext, make: Callable[[OverviewContext], list[OverviewCell]]
) -> list[OverviewCell]:
    """Returns what `make` makes of the hours. Where some are late, asks whether a target table is missing,
    and caches the answer, so that days need not be computed twice."""
    cache = memory.of(around.pipeline)
    cells = make(replace(around, gone=cache.gone))
    if not any({Cell.LATE, Cell.NO_TABLE} & (cell.counts.keys() or {cell.cell}) for cell in cells):
        return cells
    gone = bool(memory.clients.gone(around.pipeline))
    if gone != cache.gone:
        cache.gone = gone
        cells = make(replace(around, gone=gone))
    return cells


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


def _as_row(pipeline: Pipeline, cells: list[OverviewCell], behind: int | None, **more: Any) -> OverviewRow:
    return OverviewRow(
        pipeline=pipeline.name,
        slice_seconds=_seconds(pipeline),
        can_start=False,
        paused=False,
        arrays=pipeline.event.arrays,
        behind_seconds=behind,
        cells=cells,
        **more,
    )


# How many rows each slice is expected to have, from the summaries of earlier weeks. Pure.
BACK = timedelta(days=DAYS_NEEDED)


def with_history(slices: SliceRange) -> SliceRange:
    """Returns the range with the weeks before it that `expected_rows` reads."""
    return SliceRange.widen(max(slices.start - BACK, FIRST), slices.end, slices.length)


def expected_rows(slices: SliceRange, noted: Summaries) -> list[int | None]:
    """Returns the expected rows of each slice, in all tables; None without an earlier day. Slices that are
    not complete do not count for later ones."""
    history = with_history(slices)
    step, first = int(history.length.total_seconds()), int(history.start.timestamp())
    rows_by_start: dict[int, int] = {}
    for number, name in enumerate(ids_of(history)):
        units = noted.of(name)
        if units and all(unit.state in DONE for unit in units.values()):
            rows_by_start[first + number * step] = sum(unit.rows for unit in units.values())
    starts = range(int(slices.start.timestamp()), int(slices.end.timestamp()), step)
    usual = (expected(at, rows_by_start) for at in starts)
    return [None if expectation is None else round(expectation.count) for expectation in usual]


# What the watch sees of a pipeline now: problems by kind, and units that have expired.
UNREADABLE = "the watch's state is not readable"


@dataclass(frozen=True)
class OpenProblems:
    """`counts` says how many are open of each kind."""

    counts: Mapping[str, int]
    expired: ExpiredUnits = field(default_factory=dict)


def open_problems(lake: Lake) -> OpenProblems:
    """Reads what is open. A damaged file of the watch is a problem itself: its line is on the pipeline's
    page. Raises Unavailable where the lake does not answer."""
    try:
        alarms = AlarmStore(lake).read().alarms.values()
    except Unavailable:
        raise
    except SluiceError:
        return OpenProblems({UNREADABLE: 1})
    counts = Counter(str(alarm.problem.kind) for alarm in alarms if not alarm.over)
    return OpenProblems(dict(counts), expired_units(alarms))
