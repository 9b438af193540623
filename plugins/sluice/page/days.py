"""The overview of a long range: one cell per day. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.page.cells import Cell, worst
from sluice.page.overview import Around
from sluice.page.past import past_hours
from sluice.slices import SliceRange
from sluice.summary.months import Month


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


@dataclass
class _Sum:
    cells: Counter[Cell] = field(default_factory=Counter)
    running: int = 0
    read: int = 0
    rows: int = 0
    rejected: int = 0

    def day(self, date: str) -> Day:
        order = list(Cell)
        counts = dict(sorted(self.cells.items(), key=lambda item: -order.index(item[0])))
        return Day(date, worst(counts), counts, self.running, self.read, self.rows, self.rejected)


def days_of(slices: SliceRange, months: Sequence[Month], around: Around) -> list[Day]:
    sums: dict[str, _Sum] = defaultdict(_Sum)
    for hour in past_hours(slices, months, around):
        own = sums[hour.id[:10]]
        own.cells[hour.cell] += 1
        own.running += hour.work is not None and hour.work.running
        for unit in hour.units.values():
            own.read += unit.read
            own.rows += unit.rows
            own.rejected += unit.unparsed + unit.misfits
    return [own.day(date) for date, own in sums.items()]
