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
    slices: SliceRange, noted: Summaries, around: OverviewContext, seen: CachedDays | None = None
) -> list[Day]:
    """Returns the range's days. `seen`, of one pipeline, saves working out a day of a month again of which
    nothing has changed, and decoding the month."""
    past, whole = Past(noted, around), timedelta(days=1) // slices.length
    months, found = {month.name: month for month in noted.months}, []
    for name, ids in groupby(ids_of(slices), key=itemgetter(_MONTH)):
        known = _known(past, months[name], {} if seen is None else seen)
        for date, group in groupby(ids, key=itemgetter(_DATE)):
            names = list(group)
            day = known.get(date) if len(names) == whole else None
            if day is None:
                day = _day(past, noted, date, names)
            if len(names) == whole:
                known[date] = day
            found.append(day)
    return found


def _known(past: Past, month: StoredMonth, seen: CachedDays) -> dict[str, Day]:
    """Returns what is known of the month's days; more may be added to it."""
    key = past.constant(month)
    if key is None:
        return {}
    known = seen.get(month.name)
    if known is None or known[0] != key:
        known = seen[month.name] = (key, {})
        for oldest in list(seen)[:-_REMEMBERED]:
            seen.pop(oldest, None)
    return known[1]


def _day(past: Past, noted: Summaries, date: str, names: list[str]) -> Day:
    by_hour = noted.of_day(names)
    counts = past.cells(names, by_hour)
    units = [unit for own in by_hour for unit in own.values()]
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
