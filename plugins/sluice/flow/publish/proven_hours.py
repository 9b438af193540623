"""Event hours that every table has: those are published to consumers of hours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pendulum

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.flow.publish.event_hours import EventWindow, complete, event_window
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_past
from sluice.state.unit_state import UnitState


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
