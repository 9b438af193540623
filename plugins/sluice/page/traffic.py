"""What the cards on traffic and lag show: rows by hour, late events, sizes, freshness, lag. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from pydantic import Field

from sluice.page.history import ids_of
from sluice.page.models import Model
from sluice.plan.lag import Lag
from sluice.slices import HOUR, SliceRange, floor, from_seconds
from sluice.state.months import SUMMARIES, Summaries, Units, UnitSummary, summary_of
from sluice.state.notes import Delay, FreshTable, LagSample, Timing, quantile
from sluice.state.status import UnitStatus
from sluice.watch.expected import DAY, expected, habit_of

_SECONDS = int(HOUR.total_seconds())


# Rows by hour, and what was rejected.
class Series(Model):
    """One value per slice, or per day (`by_day`); `starts` in seconds since the epoch. `types` only where the
    range is short."""

    starts: list[int]
    read: list[int]
    rows: list[int]
    rejected_records: list[int]
    rejected_rows: list[int]
    late: list[int]
    types: dict[str, list[int]]
    by_day: bool = False


TYPES = 6
OTHERS = "(other types)"
MOST_POINTS = 9000  # of a plot: as many as a year has hours
_MONTH, _DAY = 7, 86400  # letters of a slice's id, and seconds
_KEPT = 1000  # as many as a pipeline has folders for, unless it says otherwise
_COUNTS = ("read", "rows", "rejected_records", "rejected_rows", "late")


def series_of(statuses: Iterable[UnitStatus]) -> Series:
    """Returns the exact series of a short range, with rows landed by type. Reads `statuses` once, and keeps
    none."""
    counts = _Counts()
    by_slice: list[Counter[str]] = []
    for slice_, group in groupby(statuses, key=lambda s: s.unit.slice):
        rows: Counter[str] = Counter()
        for status in group:
            counts.add(int(slice_.start.timestamp()), summary_of(status))
            rows.update(status.manifest.rows_by_type() if status.manifest else {})
        by_slice.append(_most(rows))
    return counts.series(types=_by_type(by_slice))


def _most(rows: Counter[str]) -> Counter[str]:
    """Returns the types of one slice that may be among the largest of the range, and the others together. A
    slice may have any number of types."""
    largest = Counter(dict(rows.most_common(_KEPT)))
    return largest + Counter({OTHERS: rows.total() - largest.total()})


def long_series_of(slices: SliceRange, noted: Summaries) -> Series:
    """Returns the series of a long range from the summaries; slices without one are left out. For more slices
    than a year has hours it has sums of days. One month is in memory at a time."""
    by_day = len(slices) > MOST_POINTS
    months = {month.name: month for month in noted.months}
    counts = _Counts()
    numbered = enumerate(ids_of(slices))
    for name, group in groupby(numbered, key=lambda one: one[1][:_MONTH]):
        units = SUMMARIES.decode(months[name].data, months[name].place)
        for number, slice_id in group:
            start = int(slices.start.timestamp()) + number * int(slices.length.total_seconds())
            for unit in units.get(slice_id, {}).values():
                counts.add(start - start % _DAY if by_day else start, unit)
    return counts.series(types={}, by_day=by_day)


class _Counts:
    """The counts of slices or days, in their order."""

    def __init__(self) -> None:
        self._sums: dict[int, list[int]] = {}

    def add(self, start: int, unit: UnitSummary) -> None:
        sums = self._sums.setdefault(start, [0] * len(_COUNTS))
        for number, name in enumerate(_COUNTS):
            sums[number] += getattr(unit, name)

    def series(self, **more: Any) -> Series:
        columns = {
            name: [sums[number] for sums in self._sums.values()] for number, name in enumerate(_COUNTS)
        }
        return Series.model_validate({**columns, "starts": list(self._sums), **more})


def _by_type(slices: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """Returns the types with the most rows in the range, and the others together."""
    total: Counter[str] = Counter()
    for rows in slices:
        total.update(rows)
    del total[OTHERS]
    largest = [name for name, _ in total.most_common(TYPES)]
    rows_by_type = {name: [rows.get(name, 0) for rows in slices] for name in largest}
    if len(total) > TYPES:
        rows_by_type[OTHERS] = [sum(n for t, n in rows.items() if t not in rows_by_type) for rows in slices]
    return rows_by_type


# Events that came late: by the slice that brought them and their own hour, and by their delay.
class LateCell(Model):
    arrival: str
    event: str
    rows: int


class LateDelay(Model):
    """Rows that came from `hours` to `until` (not included; None: without an end) whole hours after their own
    hour; 0 to 1 came in it."""

    hours: int
    until: int | None
    rows: int


class LateTable(Model):
    """Rows by the slice that brought them and their own hour, without those that came in their own hour.
    `delays` is the histogram of all rows, empty where nothing has landed."""

    arrivals: list[str]
    events: list[str]
    cells: list[LateCell]
    most: int
    delays: list[LateDelay] = Field(default_factory=list)


DELAYS = (0, 1, 2, 3, 6, 12, 24, 48, 168, 744)
"""Edges of the histogram, in whole hours between the event's hour and the slice that brought it; the first
bin is of events that came in their own hour, the last has no end."""


def late_table(statuses: Iterable[UnitStatus], most: int = 48) -> LateTable:
    """Returns the rows whose own hour is before the slice that brought them, by both, for the newest `most`
    event hours: all before them are one, `older`. The histogram counts every row of the landed hours."""
    rows: Counter[tuple[str, str]] = Counter()
    delays: Counter[int] = Counter()
    arrivals: dict[str, None] = {}
    for status in statuses:
        slice_id, arrival = status.unit.slice.id, floor(status.unit.slice.start, HOUR)
        arrivals[slice_id] = None
        for file in status.manifest.files if status.manifest else ():
            delays[_bin(_hours_late(file.hour, arrival))] += file.rows
            if file.hour < f"{arrival:%Y-%m-%dT%H}":
                rows[slice_id, file.hour] += file.rows
    events = sorted({event for _, event in rows})
    older, events = set(events[:-most]), events[-most:]
    cells: Counter[tuple[str, str]] = Counter()
    for (slice_id, event), count in rows.items():
        cells[slice_id, "older" if event in older else event] += count
    brought = {slice_id for slice_id, _ in cells}
    bins = zip(DELAYS, (*DELAYS[1:], None), strict=True)
    return LateTable(
        arrivals=[slice_id for slice_id in arrivals if slice_id in brought],
        events=(["older"] if older else []) + events,
        cells=[LateCell(arrival=a, event=e, rows=n) for (a, e), n in sorted(cells.items())],
        most=max(cells.values(), default=0),
        delays=[LateDelay(hours=a, until=b, rows=delays[a]) for a, b in bins] if delays else [],
    )


def _hours_late(hour: str, arrival: datetime) -> int:
    """`hour` is an event hour as a file has it, `2026-11-20T10`. An event before its time is not late."""
    event = datetime.fromisoformat(f"{hour}:00+00:00")  # pendulum would take ten times as long
    return max(int(arrival.timestamp() - event.timestamp()) // _SECONDS, 0)


def _bin(hours: int) -> int:
    return max(edge for edge in DELAYS if edge <= hours)


# How large and how fast each of the last hours was, against those before and against what was expected.
class HourSize(Model):
    """A slice against the same one a day and a week before. Records are those that landed, None where a
    cluster has not; `expected`, `low` and `high` as the watch judges (sluice.watch.expected), None with
    little history. Rates are rows a second of the batch that held the slice: of this one, of the
    one a day and a week before."""

    slice: str
    records: int | None
    bytes: int | None
    yesterday: int | None
    week_ago: int | None
    expected: int | None
    low: int | None
    high: int | None
    land_rates: tuple[float | None, float | None, float | None]
    load_rates: tuple[float | None, float | None, float | None]


class Sizes(Model):
    """The newest slice first."""

    hours: list[HourSize]


MOST_HOURS = 48
WEEK = 7 * DAY


@dataclass(frozen=True)
class Amount:
    """What landed of a slice: records, and bytes of its files."""

    records: int
    bytes: int


@dataclass(frozen=True)
class _Batch:
    """One step over `[start, until)` in seconds since the epoch."""

    start: int
    until: int
    rows: int
    seconds: float

    @property
    def rate(self) -> float | None:
        return self.rows / self.seconds if self.seconds > 0 else None


def landed_amounts(slices: SliceRange, noted: Summaries) -> dict[int, Amount]:
    """Returns the amounts by the slice's start, of slices that every cluster has landed."""
    amounts: dict[int, Amount] = {}
    first, step = int(slices.start.timestamp()), int(slices.length.total_seconds())
    for number, name in enumerate(ids_of(slices)):
        units = noted.of(name)
        if units and all(unit.seal for unit in units.values()):
            amounts[first + number * step] = _amount(units)
    return amounts


def _amount(units: Units) -> Amount:
    return Amount(sum(unit.read for unit in units.values()), sum(unit.bytes for unit in units.values()))


def sizes_of(slices: SliceRange, landed: Mapping[int, Amount], timings: Sequence[Timing]) -> list[HourSize]:
    """Returns the sizes of `slices`, the newest first. `landed` may begin weeks earlier: expected counts are
    computed from it."""
    records_by_start = {at: amount.records for at, amount in landed.items()}
    habit = habit_of(records_by_start, int(slices.end.timestamp()))
    land, load = _batches(timings, "land"), _batches(timings, "load")
    sizes = []
    for slice_ in reversed(list(slices)):
        at = int(slice_.start.timestamp())
        usual, amount = expected(at, records_by_start, habit), landed.get(at)
        usual = usual if usual is not None and usual.settled else None
        sizes.append(
            HourSize(
                slice=slice_.id,
                records=records_by_start.get(at),
                bytes=amount.bytes if amount else None,
                yesterday=records_by_start.get(at - DAY),
                week_ago=records_by_start.get(at - WEEK),
                expected=round(usual.count) if usual else None,
                low=None if usual is None or usual.low is None else round(usual.low),
                high=None if usual is None or usual.high is None else round(usual.high),
                land_rates=_rates_of(land, at),
                load_rates=_rates_of(load, at),
            )
        )
    return sizes[:MOST_HOURS]


def _rates_of(batches: Sequence[_Batch], at: int) -> tuple[float | None, float | None, float | None]:
    """Returns the rates of the slice, of the one a day before, and of the one a week before."""
    return _rate_of(batches, at), _rate_of(batches, at - DAY), _rate_of(batches, at - WEEK)


def _rate_of(batches: Sequence[_Batch], at: int) -> float | None:
    """Returns the rate of the last batch that held the slice; `batches` are the newest first."""
    return next((batch.rate for batch in batches if batch.start <= at < batch.until), None)


def _batches(timings: Iterable[Timing], step: str) -> list[_Batch]:
    """Returns a step's batches, the newest first; the loads of a run into several tables are one."""
    batches: dict[tuple[str, str, str], _Batch] = {}
    for step_timing in (timing for timing in timings if timing.step == step):
        key = (step_timing.start, step_timing.until, step_timing.run)
        before = batches.pop(key, None)
        rows, seconds = (before.rows, before.seconds) if before else (0, 0.0)
        batches[key] = _Batch(
            _at(step_timing.start),
            _at(step_timing.until),
            rows + step_timing.rows,
            seconds + step_timing.seconds,
        )
    return list(reversed(batches.values()))


def _at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


# How fresh each table is: the age that records had when their hour was committed and verified.
class FreshnessRow(Model):
    """Of one table, the age in seconds that half of the records, and 99 of 100, had at most when their hour
    was first committed and verified, in the last day and week; None without such an hour. `newest` is its
    id."""

    table: str
    records_day: int
    p50_day: float | None
    p99_day: float | None
    p50_week: float | None
    p99_week: float | None
    newest: str
    verified: str


class Freshness(Model):
    tables: list[FreshnessRow]


SPAN = timedelta(days=7)


def freshness_of(tables: Iterable[str], fresh_tables: Iterable[FreshTable], now: datetime) -> Freshness:
    """Returns a row for each of `tables`, those of the pipeline file, in their order."""
    by_table: dict[str, list[FreshTable]] = {table: [] for table in tables}
    for fresh in fresh_tables:
        if fresh.table in by_table:
            by_table[fresh.table].append(fresh)
    return Freshness(tables=[_freshness_row(table, own, now) for table, own in by_table.items()])


def _freshness_row(table: str, units: list[FreshTable], now: datetime) -> FreshnessRow:
    def last(span: timedelta) -> list[Delay]:
        return [delay for unit in units if unit.slice.end > now - span for delay in unit.delays]

    day, week = last(timedelta(days=1)), last(SPAN)
    newest = max(units, key=lambda unit: (unit.slice.end, unit.verified), default=None)
    return FreshnessRow(
        table=table,
        records_day=sum(delay.records for delay in day),
        p50_day=quantile(day, 0.5),
        p99_day=quantile(day, 0.99),
        p50_week=quantile(week, 0.5),
        p99_week=quantile(week, 0.99),
        newest=newest.slice.id if newest else "",
        verified=from_seconds(newest.verified).isoformat() if newest else "",
    )


# How far the pipeline is behind Kafka, now and in past hours; an hour of which nothing is known is a gap.
class LagNow(Model):
    """A pipeline's lag as it was `at`: `records` in Kafka that are not landed, `seconds` since the end of the
    newest landed slice of the partition that is furthest behind, `rate` in records a second, `gone` offsets
    that Kafka deleted before they had landed, and a line for each cluster that did not answer. `lacking` of
    the records are in hours that have landed without their topic; `outside` offsets lie before the first
    boundary."""

    at: str
    records: int
    seconds: int | None
    rate: float
    gone: int
    lacking: int
    outside: int
    errors: list[str]


class LagTrend(Model):
    """A value for each hour from the first that is known in the range: the highest that the watch saw, None
    for an hour in which it saw nothing. `starts` in seconds since the epoch, `seconds` as `PartitionLag`."""

    starts: list[int]
    records: list[int | None]
    seconds: list[int | None]
    held: list[int | None]


def lag_now(lag: Lag) -> LagNow:
    behind = [part for part in lag.partitions if part.records > 0]
    ages = [part.seconds for part in behind if part.seconds is not None]
    return LagNow(
        at=lag.at,
        records=sum(part.records for part in behind),
        seconds=max(ages, default=None),
        rate=round(sum(part.rate for part in lag.partitions), 3),
        gone=sum(part.gone for part in lag.partitions),
        lacking=sum(part.lacking for part in lag.partitions),
        outside=sum(part.outside for part in lag.partitions),
        errors=lag.errors,
    )


def trend_of(samples: Sequence[LagSample], slices: SliceRange) -> LagTrend:
    """`samples` are of different hours, the oldest first."""
    first, end = int(slices.start.timestamp()), int(slices.end.timestamp())
    by_start = {sample.at: sample for sample in samples if first <= sample.at < end}
    starts = list(range(min(by_start), max(by_start) + 1, _SECONDS)) if by_start else []
    hourly = [by_start.get(at) for at in starts]
    return LagTrend(
        starts=starts,
        records=[sample.records if sample else None for sample in hourly],
        seconds=[sample.seconds if sample else None for sample in hourly],
        held=[sample.held if sample else None for sample in hourly],
    )
