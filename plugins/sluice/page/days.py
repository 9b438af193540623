"""The overview of a long range: one cell per day. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from sluice.page.cells import URGENCY, Cell, worst
from sluice.page.overview import Around
from sluice.page.past import Past, ids_of
from sluice.slices import SliceRange
from sluice.summary.months import Month

_DATE = slice(10)


@dataclass(frozen=True)
class Day:
    """How many slices of a day are in each state (the worst first), and what they hold together."""

    date: str
    cell: Cell
    counts: Mapping[Cell, int]
    running: int
    read: int
    rows: int
    rejected: int


def days_of(slices: SliceRange, months: Sequence[Month], around: Around) -> list[Day]:
    past = Past(months, around)
    return [_day(past, date, list(names)) for date, names in groupby(ids_of(slices), key=itemgetter(_DATE))]


def _day(past: Past, date: str, names: Sequence[str]) -> Day:
    counts = past.cells(names)
    units = [unit for own in past.units(names) for unit in own.values()]
    return Day(
        date=date,
        cell=worst(counts),
        counts=dict(sorted(counts.items(), key=lambda item: -URGENCY[item[0]])),
        running=past.running(names),
        read=sum([unit.read for unit in units]),
        rows=sum([unit.rows for unit in units]),
        rejected=sum([unit.unparsed + unit.misfits for unit in units]),
    )
