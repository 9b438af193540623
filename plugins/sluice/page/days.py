"""The overview of a long range: one cell per day, from the summaries that the steps keep. Pure.

A year of ten pipelines is 87,600 hours, so hours are told apart by their ids alone, which sort as their
instants do, and a cell is worked out once for all hours that are alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple

from sluice.page.cells import Cell, Known, cell_of, worst
from sluice.page.overview import Around
from sluice.page.work import Work
from sluice.slices import HOUR, SliceRange
from sluice.state import State
from sluice.summary.months import Month, UnitSummary

Units = Mapping[str, UnitSummary]
_NOBODY: Units = {}
_NEVER = "9999"


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


@dataclass(frozen=True)
class _Edges:
    """Ids at which hours change: the last before the first that is expected, the last that is overdue, and
    the last that is over. `begins`: of clusters that were added later the first that waits for them."""

    unexpected: str
    overdue: str
    over: str
    begins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, around: Around) -> _Edges:
        length, now = around.pipeline.slice, around.now
        due = now - around.pipeline.settle - 2 * length - timedelta(seconds=1)
        unexpected = _NEVER if around.first is None else _id(around.first - length, length)
        begins = {cluster: _id(begin, length) for cluster, begin in around.begins.items()}
        return cls(unexpected, _id(due, length), _id(now - length, length), begins)


def days_of(slices: SliceRange, months: Sequence[Month], around: Around) -> list[Day]:
    """Hours that no step has seen are missing; Airflow's work and verify's anomalies are as of now."""
    known = {name: units for month in months for name, units in month.items()}
    edges, clusters = _Edges.of(around), around.pipeline.clusters
    alike: dict[tuple[_Look, Work | None, bool], Cell] = {}
    working = {_exact_id(at, slices.length): work for at, work in around.work.items()}
    broken = Counter(name for one in around.verdict.anomalies if one.breaks for name in one.slices)
    sums: dict[str, _Sum] = defaultdict(_Sum)
    for name in ids_of(slices):
        units = known.get(name, _NOBODY)
        own, work = sums[name[:10]], working.get(name)
        look = _look(name, units, clusters, edges)
        key = (look, work, name in broken)
        if key not in alike:
            alike[key] = _cell(look, work, broken[name])
        own.cells[alike[key]] += 1
        own.running += work is not None and work.running
        for unit in units.values():
            own.read += unit.read
            own.rows += unit.rows
            own.rejected += unit.unparsed + unit.misfits
    return [own.day(date) for date, own in sums.items()]


class _Look(NamedTuple):
    """What of a slice decides its cell; `states` are those of its units."""

    states: tuple[str, ...]
    over: bool = True
    verified: bool = False
    overdue: bool = False
    expected: bool = True


_OPEN = _Look((), over=False)


def _look(name: str, units: Units, clusters: Sequence[str], edges: _Edges) -> _Look:
    if name > edges.over:
        return _OPEN
    overdue, expected = name <= edges.overdue, name > edges.unexpected
    if edges.begins:
        clusters = [cluster for cluster in clusters if edges.begins.get(cluster, "") <= name]
    # Of a cluster that was taken away counts what has landed.
    gone = [unit for cluster, unit in units.items() if unit.seal and cluster not in clusters]
    own = [units[cluster] for cluster in clusters if cluster in units] + gone
    if len(own) < len(clusters) + len(gone) or not own:
        missing = [State.MISSING] * max(len(clusters) - len(own) + len(gone), 1)
        states = (*(unit.state for unit in own), *missing)
        return _Look(states, True, False, overdue, expected and bool(clusters))
    verified = all(unit.verified and unit.verified == unit.seal for unit in own)
    return _Look(tuple(unit.state for unit in own), True, verified, overdue, expected)


def _cell(look: _Look, work: Work | None, anomalies: int) -> Cell:
    """What a step wrote of an hour that was not over then says nothing of it now."""
    states = [State.MISSING if state == State.NOT_OVER else State(state) for state in look.states]
    known = tuple(states) if look.over else (State.NOT_OVER,)
    return cell_of(Known(known, look.verified, anomalies, work, look.overdue, look.expected))


@cache
def _format(length: timedelta) -> str:
    return "%Y-%m-%dT%H%MZ" if length % HOUR else "%Y-%m-%dT%HZ"


def _id(instant: datetime, length: timedelta) -> str:
    """The id of the slice that holds the instant."""
    seconds = int(length.total_seconds())
    return _exact_id(int(instant.timestamp()) // seconds * seconds, length)


def _exact_id(start: int, length: timedelta) -> str:
    return datetime.fromtimestamp(start, UTC).strftime(_format(length))


@lru_cache(maxsize=64)
def _ids(start: int, end: int, length: timedelta) -> tuple[str, ...]:
    return tuple(_exact_id(at, length) for at in range(start, end, int(length.total_seconds())))


def ids_of(slices: SliceRange) -> Iterable[str]:
    """The ids of the range's slices, in order."""
    return _ids(int(slices.start.timestamp()), int(slices.end.timestamp()), slices.length)


def pairs_of(slices: SliceRange, months: Sequence[Month]) -> Iterator[tuple[int, Units]]:
    """(start in seconds since the epoch, units) of every slice of the range that a step has seen."""
    known = {name: units for month in months for name, units in month.items()}
    start, step = int(slices.start.timestamp()), int(slices.length.total_seconds())
    for number, name in enumerate(ids_of(slices)):
        if name in known:
            yield start + number * step, known[name]
