"""`_SUCCESS` in a type/date/hour folder: the event hour is complete."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pendulum

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Publish
from sluice.errors import Refused
from sluice.plan.plan import waiting
from sluice.slices import HOUR, Slice, SliceRange, ceil, floor
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.file_moves import finish_moves
from sluice.state.notes import timed
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_past
from sluice.state.unit_state import UnitState
from sluice.state.units import spans


@dataclass(frozen=True)
class EventWindow:
    """The slices that an event hour waits for: those that may bring its events, up to `grace` after it.

    `first` is the pipeline's first slice. Without `max_early` any earlier slice may bring an event.
    """

    length: timedelta
    grace: timedelta
    max_early: timedelta | None
    first: pendulum.DateTime

    def of(self, hour: pendulum.DateTime) -> SliceRange:
        start = self.first if self.max_early is None else floor(hour - self.max_early, self.length)
        return SliceRange(max(start, self.first), ceil(hour + HOUR + self.grace, self.length), self.length)

    def touched(self, slices: SliceRange, end: pendulum.DateTime) -> list[pendulum.DateTime]:
        """Returns the event hours that wait for one of `slices`, with all they wait for before `end`."""
        last = (
            end - self.grace if self.max_early is None else min(end - self.grace, slices.end + self.max_early)
        )
        start = max(floor(slices.start - self.grace - HOUR, HOUR), floor(self.first, HOUR))
        hours = (int(ceil(last, HOUR).timestamp()) - int(start.timestamp())) // 3600
        candidates = (start + HOUR * number for number in range(hours))
        return [
            hour
            for hour in candidates
            if self.of(hour).start < slices.end and slices.start < self.of(hour).end <= end
        ]

    def needed(self, hours: Sequence[pendulum.DateTime]) -> SliceRange:
        """Returns all that ascending `hours`, of which there is one at least, wait for."""
        return SliceRange(self.of(hours[0]).start, self.of(hours[-1]).end, self.length)


def event_window(pipeline: Pipeline, first_resolved: pendulum.DateTime) -> EventWindow:
    first = floor(first_resolved if pipeline.since is None else pipeline.since, pipeline.slice)
    return EventWindow(pipeline.slice, pipeline.success_grace, pipeline.max_early, first)


def complete(
    hours: Iterable[pendulum.DateTime], window: EventWindow, incomplete: Sequence[pendulum.DateTime]
) -> list[pendulum.DateTime]:
    """Returns those `hours` that wait for none of the `incomplete` slices, whose starts are ascending."""
    complete_hours = []
    for hour in hours:
        slices = window.of(hour)
        number = bisect_left(incomplete, slices.start)
        if number == len(incomplete) or incomplete[number] >= slices.end:
            complete_hours.append(hour)
    return complete_hours


def publish_event_hours(
    pipeline: Pipeline, lake: Lake, slices: SliceRange, held: Collection[str] = ()
) -> list[str]:
    """Marks, for each configured type, the event hours that `slices` completed; returns them.

    An hour is complete when every slice that it waits for has landed from every cluster that had begun by
    then, its files are in place, nothing of it was lost or is forgotten, and its id is not `held` back.
    Repeatable.
    """
    boundaries = BoundaryLog(lake).read()
    span = boundaries.span()
    if span is None or not pipeline.types:
        return []
    window = event_window(pipeline, span[0])
    hours = window.touched(slices, span[1])
    if not hours:
        return []
    incomplete = _incomplete(pipeline, lake, boundaries, window.needed(hours), held)
    complete_hours = complete(hours, window, incomplete)
    names = [hour.strftime("%Y-%m-%dT%H") for hour in complete_hours]
    keys = [layout.hour_success(name, hour) for hour in names for name in pipeline.types]
    with lake.synced_at_end() as marked:
        each_if_slow(lambda key: _mark(marked, key), keys)
    return names


def _mark(lake: Lake, key: str) -> None:
    lake.put(key, b"")
    crash_points.reached(Publish.HOUR_MARKED)


def _incomplete(
    pipeline: Pipeline, lake: Lake, boundaries: Boundaries, slices: SliceRange, held: Collection[str]
) -> list[pendulum.DateTime]:
    unit_spans = spans(pipeline, boundaries)
    units = [unit for slice_ in slices for unit in unit_spans.awaited(slice_)]
    manifests = finish_moves(lake, units)
    intact = {unit for unit, manifest in manifests.items() if not (manifest.lost or manifest.forgotten_on)}
    return sorted({u.slice.start for u in units if u not in intact or u.slice.id in held})


# Publishes a range: marks complete event hours and says what became available.


def publish_range(
    pipeline: Pipeline,
    slices: SliceRange,
    statuses: Sequence[UnitStatus] | None = None,
    held: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Marks complete event hours, and returns for each table and complete slice what became available.

    `statuses` are what `verify_range` has just seen, where the same process verified. A slice that
    waits for one of several clusters is left out: it is published when that has landed. Raises Refused for
    one that is not complete for another reason.
    """
    lake = open_lake(pipeline)
    with timed(lake, "publish", slices) as count:
        statuses = survey_past(pipeline, slices) if statuses is None else statuses
        crash_points.reached(Publish.SURVEYED)
        publish_event_hours(pipeline, lake, slices, held)
        crash_points.reached(Publish.HOURS_MARKED)
        count({"units": len(statuses), "rows": 0})
    events = []
    by_slice: dict[Slice, list[UnitStatus]] = {}
    for status in statuses:
        by_slice.setdefault(status.unit.slice, []).append(status)
    waiting_slices = {unit.slice for part in waiting(pipeline, statuses) for unit in part.units}
    for slice_, units in (
        (slice_, units) for slice_, units in by_slice.items() if slice_ not in waiting_slices
    ):
        if not all(s.state.done for s in units):
            shows = pipeline.command("status", *slice_.words)
            raise Refused(f"slice {slice_.id} is not complete: `{shows}` shows what is missing")
        for target in pipeline.targets:
            if not all(target.table in s.tables for s in units):
                continue  # the lake has forgotten the slice's files, and the table is a later one
            rows = sum(s.tables[target.table].rows for s in units)
            events.append({"table": target.table, "slice": slice_.id, "rows": rows})
    crash_points.reached(Publish.GATHERED)
    return events


# Event hours that every table has: those are published to consumers of hours.
def proven_hours(
    pipeline: Pipeline, slices: SliceRange, held: Collection[str] = ()
) -> list[pendulum.DateTime]:
    """Returns the event hours that wait for one of `slices` and are whole in every table, ascending.

    `_SUCCESS` says that an hour has landed. Here each slice that it waits for is loaded, too, also those that
    an earlier run has landed; and nothing of it was lost.
    """
    span = BoundaryLog(open_lake(pipeline)).read().span()
    if span is None:
        return []
    window = event_window(pipeline, span[0])
    hours = window.touched(slices, span[1])
    needed = survey_past(pipeline, window.needed(hours)) if hours else []
    return whole_hours(hours, window, needed, held)


def whole_hours(
    hours: Sequence[pendulum.DateTime],
    window: EventWindow,
    statuses: Iterable[UnitStatus],
    held: Collection[str] = (),
) -> list[pendulum.DateTime]:
    """Returns those `hours` of which every unit is complete, and none `held` back; `statuses` are those of
    all units that they wait for."""
    open_slices = {
        s.unit.slice.start for s in statuses if s.state is not UnitState.COMPLETE or s.unit.slice.id in held
    }
    return complete(hours, window, sorted(open_slices))
