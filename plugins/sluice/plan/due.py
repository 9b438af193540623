"""Which hours are old enough for the lake to forget files of them, by the months' summaries. Pure.

A summary is no evidence: what it calls due is surveyed and verified before anything is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.config.pipeline import Keep, Pipeline
from sluice.slices import Slice, SliceRange, ceil
from sluice.state.months import BEGUN, Summaries, UnitSummary
from sluice.state.unit_state import UnitState

NOTICE = timedelta(days=7)
"""Between the run that first reads a `keep` and the first hour that a run of the DAG forgets by it."""

_DONE = frozenset(str(state) for state in UnitState if state.done)


@dataclass(frozen=True)
class KeepEdges:
    """Instants: files of an hour that ended at or before one are old enough. None: they are kept for ever."""

    lake: datetime | None
    rejected: datetime | None

    @classmethod
    def of(cls, keep: Keep, now: datetime) -> KeepEdges:
        return cls(_before(now, keep.lake), _before(now, keep.rejected_for))

    def lake_due(self, slice_: Slice) -> bool:
        return self.lake is not None and slice_.end <= self.lake

    def rejected_due(self, slice_: Slice) -> bool:
        return self.rejected is not None and slice_.end <= self.rejected

    @property
    def last(self) -> datetime | None:
        """The later one."""
        return max((edge for edge in (self.lake, self.rejected) if edge is not None), default=None)


def _before(now: datetime, age: timedelta | None) -> datetime | None:
    return None if age is None else datetime.__sub__(now, age)


def due_slices(pipeline: Pipeline, noted: Summaries, edges: KeepEdges, done: bool = True) -> Iterator[Slice]:
    """Yields the slices with files to forget, the oldest first; with `done` only those of which a unit is
    complete by its summary. What a run has begun to forget is due at any age."""
    for month in noted.months:
        young = edges.last is None or month.name > f"{edges.last:%Y-%m}"
        for name, units in sorted(month.units.items()):
            landed = [unit for unit in units.values() if unit.seal and (not done or unit.state in _DONE)]
            begun = any(unit.forgotten == BEGUN for unit in landed)
            if not begun and (young or not any(_may_be_due(unit, pipeline.keep) for unit in landed)):
                continue
            slice_ = Slice.from_id(name, pipeline.slice)
            if begun or any(_is_due(unit, slice_, edges) for unit in landed):
                yield slice_


def _may_be_due(unit: UnitSummary, keep: Keep) -> bool:
    """Returns whether the unit has files to forget at any age: a check that parses no instant."""
    return unit.forgotten != "lake" and (keep.lake is not None or _has_rejected(unit))


def _is_due(unit: UnitSummary, slice_: Slice, edges: KeepEdges) -> bool:
    if unit.forgotten != "lake" and edges.lake_due(slice_):
        return True
    return _has_rejected(unit) and edges.rejected_due(slice_)


def _has_rejected(unit: UnitSummary) -> bool:
    return unit.rejected_records > 0 and not unit.forgotten


@dataclass(frozen=True)
class FirstForgotten:
    """When the lake begins to forget, and the first hour that it forgets. `complete`: an hour is old enough
    that every table has; others wait until they are."""

    at: datetime
    slice: Slice
    complete: bool = True


def first_forgotten(
    pipeline: Pipeline, noted: Summaries, since: datetime | None, now: datetime
) -> FirstForgotten | None:
    """Returns what a run of the DAG forgets first; None where nothing is old enough within NOTICE of `now`,
    or something was forgotten before. `since`: when a run first read the `keep` of the file."""
    units = (
        unit
        for month in noted.months
        for slice_units in month.units.values()
        for unit in slice_units.values()
    )
    if any(unit.forgotten for unit in units):
        return None
    edges = KeepEdges.of(pipeline.keep, datetime.__add__(now, NOTICE))
    complete = next(due_slices(pipeline, noted, edges), None)
    slice_ = complete or next(due_slices(pipeline, noted, edges, done=False), None)
    if slice_ is None:
        return None
    ages = [age for age in (pipeline.keep.lake, pipeline.keep.rejected_for) if age is not None]
    aged = datetime.__add__(slice_.end, min(ages))
    return FirstForgotten(max(aged, begins(since, now)), slice_, complete is not None)


def begins(since: datetime | None, now: datetime) -> datetime:
    """Returns from when on runs of the DAG forget."""
    return datetime.__add__(since or now, NOTICE)


def known_until(first: datetime, edges: KeepEdges, length: timedelta) -> SliceRange | None:
    """Returns the slices from the pipeline's first one that may be due; None where there are none."""
    last = edges.last
    if last is None or last <= first:
        return None
    return SliceRange.widen(first, ceil(last, length), length)
