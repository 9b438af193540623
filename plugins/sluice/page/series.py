"""What the plots show: rows per hour, and what was rejected. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from sluice.page.history import ids_of
from sluice.page.pipeline_models import LagTrend, Series
from sluice.slices import HOUR, SliceRange
from sluice.state.lag_history import LagSample
from sluice.state.months import Summaries, UnitSummary, decode, summary_of
from sluice.state.status import UnitStatus

TYPES = 6
OTHERS = "(other types)"
MOST_POINTS = 9000  # of a plot: as many as a year has hours
_MONTH, _DAY = 7, 86400  # letters of a slice's id, and seconds
_KEPT = 1000  # as many as a pipeline has folders for, unless it says otherwise
_COUNTS = ("read", "rows", "unparsed", "misfits", "late")


def series_of(statuses: Iterable[UnitStatus]) -> Series:
    """Returns the exact series of a short range, with rows landed by type. Reads `statuses` once, and keeps
    none."""
    pairs: list[tuple[int, list[UnitSummary]]] = []
    by_slice: list[Counter[str]] = []
    for slice_, group in groupby(statuses, key=lambda s: s.unit.slice):
        units: list[UnitSummary] = []
        rows: Counter[str] = Counter()
        for status in group:
            units.append(summary_of(status))
            rows.update(status.manifest.rows_by_type() if status.manifest else {})
        pairs.append((int(slice_.start.timestamp()), units))
        by_slice.append(_most(rows))
    return _series(pairs, by_slice)


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
    starts: list[int] = []
    sums: dict[str, list[int]] = {name: [] for name in _COUNTS}
    numbered = enumerate(ids_of(slices))
    for name, group in groupby(numbered, key=lambda one: one[1][:_MONTH]):
        units = decode(months[name].data, months[name].place)
        for number, slice_id in group:
            if slice_units := units.get(slice_id):
                start = int(slices.start.timestamp()) + number * int(slices.length.total_seconds())
                _add(starts, sums, start - start % _DAY if by_day else start, slice_units.values())
    return Series.model_validate({**sums, "starts": starts, "types": {}, "by_day": by_day})


def _add(starts: list[int], sums: Mapping[str, list[int]], start: int, units: Iterable[UnitSummary]) -> None:
    if not starts or starts[-1] != start:
        starts.append(start)
        for column in sums.values():
            column.append(0)
    for unit in units:
        for name, column in sums.items():
            column[-1] += getattr(unit, name)


def _series(pairs: Sequence[tuple[int, Sequence[UnitSummary]]], types: Sequence[Counter[str]]) -> Series:
    sums = {name: [sum(getattr(u, name) for u in units) for _, units in pairs] for name in _COUNTS}
    starts = [start for start, _ in pairs]
    return Series.model_validate({**sums, "starts": starts, "types": _by_type(types)})


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


# The lag of past hours as a plot: an hour of which nothing is known is a gap. Pure.
_SECONDS = int(HOUR.total_seconds())


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
