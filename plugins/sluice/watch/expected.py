"""What is expected of a slice, and which counts are usual for it. Pure.

One rule for alarms, page and `sluice traffic`: expected is the mean of the same hour of day, of the same
weekday in the last four weeks where at least three of those four are known, else of the last seven days.
include/sql/load/create_expected.sql says the same in SQL.

The band is learned from the last LEARNED days: how far their slices were from what was expected of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median, median_low

import msgspec

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.slices import Slice, SliceRange, Unit, floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.months import read_summaries
from sluice.state.notes import MonthlyNotes
from sluice.state.units import ClusterSpans, spans
from sluice.stored_json import Whole

DAY = 86_400
_DAYS, _WEEKS = (1, 2, 3, 4, 5, 6, 7), (7, 14, 21, 28)
_FEWEST_WEEKS = _FEWEST_DAYS = 3
LEARNED = 14
HISTORY_DAYS = LEARNED + _WEEKS[-1]
"""Days of history that are of use."""
DAYS_NEEDED = 28
"""Days of history without which there is no band: three weeks of the same weekday, and a week to compare."""
_COMPARED_DAYS, _COMPARED_SLICES = 7, 48
NARROWEST = 0.25
"""Share of what is expected by which a slice may always differ from it."""
WIDTH = 4.5
"""Half of the band, in standard deviations: about one normal count in 300,000 falls below the band."""
LEAST_BURST = 1.25
"""Variance of the difference of a Poisson count and the mean of four such, as a multiple of the count."""
_INNER, _NORMAL = 0.8, 1.2815515655446004
"""The share _INNER of normal deviations is within _NORMAL standard deviations. What is beyond, such as a
holiday or a drop that was noticed, does not make the band wider."""
_NEAREST_CENTRE = 0.5
_UNEVEN = 1.5

Counts = Mapping[int, int]
"""Rows by the start of their slice, in seconds since the epoch. A slice that is not there is unknown."""


@dataclass(frozen=True)
class Habit:
    """How counts differ from what was expected of them: `centre` is their median as a share of it, and the
    variance of that share is `burst` / expected + `noise`."""

    centre: float
    burst: float
    noise: float

    def width(self, expected: float) -> float:
        """Returns half of the band, as a share of what is expected."""
        return max(NARROWEST, WIDTH * math.sqrt(self.burst / expected + self.noise))


@dataclass(frozen=True)
class Expected:
    """`count` is the mean of the slices that begin at `days`; what is between `low` and `high` is usual.

    Both are None where less than DAYS_NEEDED days are known.
    """

    count: float
    days: tuple[int, ...]
    low: float | None = None
    high: float | None = None

    @property
    def settled(self) -> bool:
        """Returns whether enough days are known to compare with: one or two may be empty, or a start."""
        return len(self.days) >= _FEWEST_DAYS


@dataclass(frozen=True)
class _Compared:
    """A landed slice: its start, the rows expected of it, and its rows as a share of these."""

    at: int
    expected: float
    share: float


def days_of(at: int, counts: Counts) -> tuple[int, ...]:
    """Returns the earlier slices whose mean is expected of the one at `at`, the newest first."""
    weekly = _earlier(at, _WEEKS, counts)
    return weekly if len(weekly) >= _FEWEST_WEEKS else _earlier(at, _DAYS, counts)


def _earlier(at: int, back: Sequence[int], counts: Counts) -> tuple[int, ...]:
    return tuple(at - days * DAY for days in back if at - days * DAY in counts)


def expected(at: int, counts: Counts, habit: Habit | None = None) -> Expected | None:
    """Returns what is expected of a slice, with its band by `habit`; None without an earlier day."""
    days = days_of(at, counts)
    if not days:
        return None
    rows = [counts[day] for day in days]
    count = sum(rows) / len(rows)
    if habit is None or count <= 0 or not _are_weekly(at, days):
        return Expected(count, days)
    # A peak of one earlier day raises the mean, but what came in the weeks after it is not too few.
    width, usual = habit.width(count), min(count, median_low(rows))
    return Expected(count, days, max(usual * (habit.centre - width), 0.0), count * (habit.centre + width))


def habit_of(counts: Counts, until: int) -> Habit | None:
    """Returns the habit of the slices before `until`; None where too few can be compared."""
    compared = sorted(_compared(counts, until), key=lambda one: one.expected)
    if len({one.at // DAY for one in compared}) < _COMPARED_DAYS or len(compared) < _COMPARED_SLICES:
        return None
    centre = min(max(median(one.share for one in compared), _NEAREST_CENTRE), 1 / _NEAREST_CENTRE)
    third = len(compared) // 3
    few, low = _variance(compared[:third], centre)
    many, high = _variance(compared[-third:], centre)
    noise = max(high - low, 0.0) / (many - few) if many > few * _UNEVEN else 0.0
    burst = max(low - noise * few, LEAST_BURST)
    return Habit(centre, burst, max(high - burst, 0.0) / many)


def _compared(counts: Counts, until: int) -> Iterator[_Compared]:
    """Yields the slices of the last LEARNED days that have slices of the same weekday before them."""
    for at in counts:
        if until - LEARNED * DAY <= at < until and _are_weekly(at, days := days_of(at, counts)):
            count = sum(counts[day] for day in days) / len(days)
            if count > 0:
                yield _Compared(at, count, counts[at] / count)


def _are_weekly(at: int, days: Sequence[int]) -> bool:
    return len(days) >= _FEWEST_WEEKS and all((at - day) % (7 * DAY) == 0 for day in days)


def _variance(part: Sequence[_Compared], centre: float) -> tuple[float, float]:
    """Returns the median count, and the variance of counts as a multiple of them."""
    scaled = sorted(abs(one.share - centre) * math.sqrt(one.expected) for one in part)
    return median(one.expected for one in part), (scaled[int(_INNER * len(scaled))] / _NORMAL) ** 2


# Rows of the last weeks by slice and type, which the watch compares new slices with.
#
# `_alarms/rows-2026-11.json` is a copy of what manifests say, written by the watch alone. Slices that it has
# not seen, such as those of a backfill, it reads from their manifests, some in each run.

MOST_TYPES, TYPE_CHARACTERS = 100, 200
"""Types of a slice that are kept by name, those with most rows; the others count in the sum alone."""
_READ_AT_ONCE = 240


class SliceRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows that one slice landed, of all clusters, and those of its largest types."""

    rows: Whole
    types: dict[str, Whole]

    @property
    def has_all(self) -> bool:
        return sum(self.types.values()) == self.rows


RowMonth = dict[str, SliceRows]
"""By slice id."""
ROWS = MonthlyNotes[SliceRows](
    "_alarms/rows-", RowMonth, "holds no rows", "delete it, the watch writes it again"
)


@dataclass(frozen=True)
class RowHistory:
    """By slice; a slice that is not there has not landed from every cluster, or is not known yet. `new`: the
    slices that are still to be written to the lake."""

    slices: Mapping[Slice, SliceRows] = field(default_factory=dict)
    new: RowMonth = field(default_factory=dict)

    def total(self) -> Counts:
        return {int(slice_.start.timestamp()): slice_rows.rows for slice_, slice_rows in self.slices.items()}

    def by_type(self) -> Mapping[str, Counts]:
        """Returns each type's rows. Of a slice that keeps some of its types only, the others are unknown."""
        starts = {int(slice_.start.timestamp()): slice_rows for slice_, slice_rows in self.slices.items()}
        counts_by_type: dict[str, dict[int, int]] = {
            name: {} for slice_rows in starts.values() for name in slice_rows.types
        }
        exact_starts = [start for start, slice_rows in starts.items() if slice_rows.has_all]
        for rows in counts_by_type.values():
            rows.update(dict.fromkeys(exact_starts, 0))
        for start, slice_rows in starts.items():
            for name, count in slice_rows.types.items():
                counts_by_type[name][start] = count
        return counts_by_type


def rows_of(manifests: Iterable[Manifest]) -> SliceRows:
    """Returns the rows of one slice, from the manifests of its clusters."""
    types: dict[str, int] = {}
    for manifest in manifests:
        for name, rows in manifest.rows_by_type().items():
            types[name] = types.get(name, 0) + rows
    largest = sorted(types, key=lambda name: (-types[name], name))[:MOST_TYPES]
    named = {name: types[name] for name in largest if len(name) <= TYPE_CHARACTERS and types[name]}
    return SliceRows(sum(types.values()), named)


def read_history(
    pipeline: Pipeline,
    lake: Lake,
    recent: SliceRange,
    boundaries: Boundaries,
    landed: Mapping[Unit, Manifest],
) -> RowHistory:
    """Returns the history up to the end of `recent`, whose manifests are `landed`. Raises LakeUnavailable."""
    start = floor(recent.end - timedelta(days=HISTORY_DAYS), pipeline.slice)
    cluster_spans = spans(pipeline, boundaries)
    weeks = SliceRange(start, recent.end, pipeline.slice)
    stored = ROWS.read(lake, weeks)
    every = list(weeks)
    unseen = [slice_ for slice_ in every if slice_.id not in stored and slice_.start < recent.start]
    older = read_manifests(lake, _units(lake, weeks, unseen, cluster_spans))
    new_rows = dict(_complete([*unseen, *recent], cluster_spans, {**older, **landed}))
    slices = {slice_: stored[slice_.id] for slice_ in every if slice_.id in stored} | new_rows
    new = {slice_.id: rows for slice_, rows in new_rows.items() if stored.get(slice_.id) != rows}
    return RowHistory(slices, new)


def _units(
    lake: Lake, weeks: SliceRange, unseen: Sequence[Slice], cluster_spans: ClusterSpans
) -> Iterator[Unit]:
    """Yields the units of the newest slices that the summaries say have landed."""
    if not unseen:
        return
    noted, count = read_summaries(lake, weeks), 0
    for slice_ in reversed(unseen):
        units, summaries = cluster_spans.awaited(slice_), noted.of(slice_.id)
        if units and all(unit.cluster in summaries and summaries[unit.cluster].seal for unit in units):
            yield from (
                *units,
                *(unit for unit in cluster_spans.no_longer_awaited(slice_) if unit.cluster in summaries),
            )
            count += 1
        if count == _READ_AT_ONCE:
            return


def _complete(
    slices: Iterable[Slice], cluster_spans: ClusterSpans, manifests: Mapping[Unit, Manifest]
) -> Iterator[tuple[Slice, SliceRows]]:
    """Yields the rows of slices of which every cluster has landed."""
    for slice_ in slices:
        units = cluster_spans.awaited(slice_)
        if units and all(unit in manifests for unit in units):
            gone = [unit for unit in cluster_spans.no_longer_awaited(slice_) if unit in manifests]
            yield slice_, rows_of(manifests[unit] for unit in (*units, *gone))


def keep(lake: Lake, history: RowHistory) -> None:
    """Writes what is new. Raises LakeUnavailable."""
    ROWS.add(lake, history.new, lambda old, new: {**old, **new})
