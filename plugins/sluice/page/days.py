"""The overview of a long range: one cell per day. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import itemgetter

from sluice.page.cells import URGENCY, Cell, worst
from sluice.page.history import Past, ids_of
from sluice.page.overview import OverviewContext
from sluice.slices import SliceRange
from sluice.state.months import StoredMonth, Summaries

_MONTH, _DATE = slice(7), slice(10)
# More than the longest range has.
_REMEMBERED = 72


@dataclass(frozen=True)
class Day:
    """`counts` are its slices by cell, the worst first; `running` how many a run is at work on."""

    date: str
    cell: Cell
    counts: Mapping[Cell, int]
    running: int
    read: int
    rows: int
    rejected: int
    lost: int = 0

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(self.counts)


CachedDays = dict[str, tuple[tuple[object, ...], dict[str, Day]]]
"""By month its days, and what they depend on (`Past.constant`)."""


def days_of(
    slices: SliceRange, noted: Summaries, around: OverviewContext, cached: CachedDays | None = None
) -> list[Day]:
    """Returns the range's days. With `cached`, the days of one pipeline, an unchanged month is neither
    decoded nor computed again."""
    past, slices_per_day = Past(noted, around), timedelta(days=1) // slices.length
    months, days = {month.name: month for month in noted.months}, []
    for name, ids in groupby(ids_of(slices), key=itemgetter(_MONTH)):
        month_days = _cached_days(past, months[name], {} if cached is None else cached)
        for date, group in groupby(ids, key=itemgetter(_DATE)):
            names = list(group)
            day = month_days.get(date) if len(names) == slices_per_day else None
            if day is None:
                day = _day(past, noted, date, names)
            if len(names) == slices_per_day:
                month_days[date] = day
            days.append(day)
    return days


def _cached_days(past: Past, month: StoredMonth, cached: CachedDays) -> dict[str, Day]:
    """Returns the cached days of the month, to which the caller adds others."""
    key = past.constant(month)
    if key is None:
        return {}
    entry = cached.get(month.name)
    if entry is None or entry[0] != key:
        entry = cached[month.name] = (key, {})
        for oldest in list(cached)[:-_REMEMBERED]:
            cached.pop(oldest, None)
    return entry[1]


def _day(past: Past, noted: Summaries, date: str, names: list[str]) -> Day:
    by_hour = noted.of_day(names)
    counts = past.cells(names, by_hour)
    units = [unit for hour_units in by_hour for unit in hour_units.values()]
    return Day(
        date=date,
        cell=worst(counts),
        counts=dict(sorted(counts.items(), key=lambda item: -URGENCY[item[0]])),
        running=past.running(names),
        read=sum([unit.read for unit in units]),
        rows=sum([unit.rows for unit in units]),
        rejected=sum([unit.unparsed + unit.misfits for unit in units]),
        lost=sum([unit.lost for unit in units]),
    )
