"""The overview of past hours, and of days, from the summaries that the steps keep; lake and ledger are not
read. Pure.

A year of ten pipelines is 87,600 hours, so hours are identified by their ids alone, which sort as their
instants do, and a cell is worked out once for all hours that are alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter

from sluice.flow.verify.causes import broken_slices
from sluice.page.airflow_runs import SliceActivity
from sluice.page.models import URGENCY, Cell, CellFacts, OverviewCell, cell_of, worst
from sluice.page.odd import is_empty, is_odd
from sluice.page.overview import OverviewContext, hour_cell, sums_of, units_with_expired
from sluice.slices import HOUR, SliceRange
from sluice.state.months import StoredMonth, Summaries, Units, UnitSummary
from sluice.state.unit_state import UnitState

_NEVER = "9999"
_LOADED = frozenset({UnitState.COMPLETE, UnitState.COMPLETE_WITH_LOSS})
_MONTH, _DATE = slice(7), slice(10)
# Months of days that are kept: more than the longest range has.
_REMEMBERED = 72
_MONTHS = 128  # twice those of the longest range: of quarters of an hour 30 MB


@dataclass(frozen=True)
class _Edges:
    """Ids at which hours change: the last before the first that is expected, the last that is overdue, and
    the last that is over. `begins`: of clusters that were added later the first that waits for them."""

    unexpected: str
    overdue: str
    over: str
    clusters: tuple[str, ...]
    begins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, around: OverviewContext) -> _Edges:
        length, now = around.pipeline.slice, around.now
        due = now - around.pipeline.settle - 2 * length - timedelta(seconds=1)
        unexpected = _NEVER if around.first is None else _id(around.first - length, length)
        begins = {cluster: _id(begin, length) for cluster, begin in around.begins.items()}
        clusters = tuple(around.pipeline.clusters)
        return cls(unexpected, _id(due, length), _id(now - length, length), clusters, begins)

    def around(self, name: str) -> tuple[object, ...]:
        """Returns a key that is the same for hours between the same edges."""
        edges = (name > self.unexpected, name > self.overdue, name > self.over)
        return (*edges, *self.clusters_of(name)) if self.begins else edges

    def clusters_of(self, name: str) -> Sequence[str]:
        """Returns the clusters that the slice waits for."""
        if not self.begins:
            return self.clusters
        return [cluster for cluster in self.clusters if self.begins.get(cluster, "") <= name]


class Past:
    """Summarised hours, as a range of them is asked for: hours that no step has seen are missing; Airflow's
    work and verify's anomalies are current."""

    def __init__(self, noted: Summaries, around: OverviewContext) -> None:
        length = around.pipeline.slice
        self._noted = noted
        self._edges = _Edges.of(around)
        self._pipeline = around.pipeline
        self._gone = around.gone
        self._working = {_exact_id(at, length): work for at, work in around.work.items()}
        self._broken = broken_slices(around.verdict.anomalies)
        self._expired = around.expired
        self._special = {name[:10] for name in (*self._working, *self._broken, *self._expired)}
        self._alike: dict[tuple[object, ...], Cell] = {}

    def hour(self, name: str) -> OverviewCell:
        units, cell = self._units(name), self.cell(name)
        states = {cluster: unit.state for cluster, unit in units.items()}
        awaited = [
            (cluster, states.get(cluster, UnitState.MISSING)) for cluster in self._edges.clusters_of(name)
        ]
        work, anomalies = self._working.get(name), self._broken.get(name, 0)
        return hour_cell(name, cell, work, anomalies, units.values(), awaited)

    def cell(self, name: str) -> Cell:
        units, work, anomalies = self._units(name), self._working.get(name), self._broken.get(name, 0)
        key = (self._signature(units), self._edges.around(name), work, anomalies)
        cell = self._alike.get(key)
        if cell is None:
            cell = self._alike[key] = self._new_cell(name, units, work, anomalies)
        return cell

    def _units(self, name: str) -> Units:
        units = self._noted.of(name)
        return units_with_expired(units, self._expired[name]) if name in self._expired else units

    def _new_cell(self, name: str, units: Units, work: SliceActivity | None, anomalies: int) -> Cell:
        edges = self._edges
        if name > edges.over:
            return Cell.OPEN
        clusters = edges.clusters_of(name)
        summaries = [units[cluster] for cluster in clusters if cluster in units]
        lacking = len(clusters) - len(summaries)
        if len(summaries) < len(units):  # of a cluster that was taken away counts what has landed
            summaries += [unit for cluster, unit in units.items() if unit.seal and cluster not in clusters]
        # An hour that was not over when a step noted it counts as missing now.
        states = [UnitState.MISSING if unit.state == UnitState.NOT_OVER else unit.state for unit in summaries]
        if self._gone:  # every landed hour lacks the table, whatever a step noted before
            states = [UnitState.LANDED if state in _LOADED else state for state in states]
        whole = bool(summaries) and not lacking
        facts = CellFacts(
            states=tuple(states if whole else [*states, UnitState.MISSING]),
            verified=whole and all(unit.verified == unit.seal != "" for unit in summaries),
            anomalies=anomalies,
            work=work,
            overdue=name <= edges.overdue,
            expected=name > edges.unexpected and (whole or bool(clusters)),
            gone=bool(self._gone),
            odd=any(is_odd(self._pipeline, unit) for unit in summaries),
            empty=is_empty(self._pipeline, summaries),
        )
        return cell_of(facts)

    def constant(self, month: StoredMonth) -> tuple[object, ...] | None:
        """Returns a key: as long as it is the same, so are the hours of the month. None for a month with
        hours that depend on more than its summaries."""
        first, last = (self._edges.around(month.name + end) for end in ("-00", "-99"))
        special = any(day.startswith(month.name) for day in self._special)
        return None if first != last or special else (month.version, first, self._gone)

    def cells(self, names: Sequence[str], units: Sequence[Units]) -> Counter[Cell]:
        """Returns how many of one day's hours have each cell; `units` are theirs."""
        edges = self._edges.around(names[0])
        if names[0][:10] in self._special or edges != self._edges.around(names[-1]):
            return Counter([self.cell(name) for name in names])
        # These hours differ by their summaries alone, and most summaries are alike.
        signatures = [self._signature(hour_units) for hour_units in units]
        counts: Counter[Cell] = Counter()
        for signature in set(signatures):
            example = names[signatures.index(signature)]
            counts[self.cell(example)] += signatures.count(signature)
        return counts

    def _signature(self, units: Units) -> tuple[object, ...]:
        """Returns a key of what `_new_cell` reads of a slice's units."""
        if len(units) == 1:  # as nearly always, and a year has thousands
            ((cluster, unit),) = units.items()
            return self._of_unit(cluster, unit)
        return tuple([self._of_unit(cluster, unit) for cluster, unit in units.items()])

    def _of_unit(self, cluster: str, unit: UnitSummary) -> tuple[object, ...]:
        rows = (unit.read == 0, unit.rows == 0, is_odd(self._pipeline, unit))
        return (cluster, unit.state, unit.seal != "", unit.verified == unit.seal, *rows)

    def running(self, names: Sequence[str]) -> int:
        """Hours of one day that a run is at work on."""
        if names[0][:10] not in self._special:
            return 0
        return sum(name in self._working and self._working[name].running for name in names)


def hours_past(slices: SliceRange, noted: Summaries, around: OverviewContext) -> list[OverviewCell]:
    """Returns what `sluice.page.overview.hours_of` says, as of the last step over each hour."""
    return list(map(Past(noted, around).hour, ids_of(slices)))


# Days: one cell for each.
CachedDays = dict[str, tuple[tuple[object, ...], dict[str, OverviewCell]]]
"""By month its days, and what they depend on (`Past.constant`)."""


def days_of(
    slices: SliceRange, noted: Summaries, around: OverviewContext, cached: CachedDays | None = None
) -> list[OverviewCell]:
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


def _cached_days(past: Past, month: StoredMonth, cached: CachedDays) -> dict[str, OverviewCell]:
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


def _day(past: Past, noted: Summaries, date: str, names: list[str]) -> OverviewCell:
    by_hour = noted.of_day(names)
    counts, running = past.cells(names, by_hour), past.running(names)
    return OverviewCell(
        id=date,
        cell=worst(counts),
        running=str(running) if running else "",
        counts={str(cell): counts[cell] for cell in sorted(counts, key=URGENCY.__getitem__, reverse=True)},
        **sums_of([unit for hour_units in by_hour for unit in hour_units.values()]),
    )


@cache
def _format(length: timedelta) -> str:
    return "%Y-%m-%dT%H%MZ" if length % HOUR else "%Y-%m-%dT%HZ"


def _id(instant: datetime, length: timedelta) -> str:
    """Returns the id of the slice that holds the instant."""
    seconds = int(length.total_seconds())
    return _exact_id(int(instant.timestamp()) // seconds * seconds, length)


def _exact_id(start: int, length: timedelta) -> str:
    return datetime.fromtimestamp(start, UTC).strftime(_format(length))


@lru_cache(maxsize=_MONTHS)
def _month_ids(start: int, end: int, length: timedelta) -> tuple[str, ...]:
    return tuple(_exact_id(at, length) for at in range(start, end, int(length.total_seconds())))


def ids_of(slices: SliceRange) -> Iterator[str]:
    """Yields the ids of the range's slices, in order. Those of whole months are remembered."""
    step = int(slices.length.total_seconds())
    first, last = int(slices.start.timestamp()), int(slices.end.timestamp())
    month = slices.start.start_of("month")
    while (at := int(month.timestamp())) < last:
        month = month.add(months=1)
        ids = _month_ids(at, int(month.timestamp()), slices.length)
        yield from ids[max(first - at, 0) // step : (last - at) // step]
