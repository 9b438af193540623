"""Publishes a range: marks complete event hours and says what became available."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pendulum

from sluice import crash_points
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Publish
from sluice.errors import Refused
from sluice.flow.publish.event_hours import EventWindow, complete, event_window, publish_event_hours
from sluice.plan.plan import waiting
from sluice.slices import Slice, SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.notes import timed
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_past
from sluice.state.unit_state import UnitState


def publish_range(
    pipeline: Pipeline, slices: SliceRange, statuses: Sequence[UnitStatus] | None = None
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
        publish_event_hours(pipeline, lake, slices)
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
        manifests = {s.unit.cluster: s.manifest.id for s in units if s.manifest}
        for target in pipeline.targets:
            if not all(target.table in s.tables for s in units):
                continue  # the lake has forgotten the slice's files, and the table is a later one
            rows = sum(s.tables[target.table].rows for s in units)
            events.append({"table": target.table, "slice": slice_.id, "rows": rows, "manifests": manifests})
    crash_points.reached(Publish.GATHERED)
    return events


# Event hours that every table has: those are published to consumers of hours.
def proven_hours(pipeline: Pipeline, slices: SliceRange) -> list[pendulum.DateTime]:
    """Returns the event hours that wait for one of `slices` and are whole in every table, ascending.

    `_SUCCESS` says that an hour has landed. Here each slice that it waits for is loaded, too, also those that
    an earlier run has landed; and nothing of it was lost.
    """
    span = BoundaryLog(open_lake(pipeline)).read().span()
    if span is None:
        return []
    window = event_window(pipeline, span[0])
    hours = window.touched(slices, span[1])
    return whole_hours(hours, window, survey_past(pipeline, window.needed(hours))) if hours else []


def whole_hours(
    hours: Sequence[pendulum.DateTime], window: EventWindow, statuses: Iterable[UnitStatus]
) -> list[pendulum.DateTime]:
    """Returns those `hours` of which every unit is complete; `statuses` are those of all units that they wait
    for."""
    open_slices = {s.unit.slice.start for s in statuses if s.state is not UnitState.COMPLETE}
    return complete(hours, window, sorted(open_slices))
