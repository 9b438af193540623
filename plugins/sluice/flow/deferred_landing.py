"""The land step of an application that another process has started and this one did not wait for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.flow.counted_landing import counted_landing
from sluice.flow.lineage.observe import observed
from sluice.slices import SliceRange


@observed("land")
def deferred_landing(pipeline: Pipeline, slices: SliceRange, since: datetime, end: Callable[[], int]) -> int:
    """Ends the landing of a range that has gone on since an instant (UTC), by the clock of its driver's host:
    `end` gives the exit code. Raises what `end` raises.
    """
    with counted_landing(pipeline, slices, since):
        return end()
