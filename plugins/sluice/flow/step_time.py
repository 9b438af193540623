"""How long a step may take over a range: from its offsets, and from the times of earlier runs."""

from __future__ import annotations

from datetime import timedelta

import pendulum

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.plan.estimate import rates
from sluice.plan.step_limits import limit
from sluice.slices import Slice, SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.timings import newest


def time_for(pipeline: Pipeline, step: str, slices: SliceRange, tries: int) -> timedelta:
    """Returns the limit of the `tries`-th try. Raises what the lake raises."""
    lake = open_lake(pipeline)
    rates_so_far = rates(newest(lake, pendulum.now("UTC")))
    units = len(slices) * len(pipeline.clusters)
    return limit(step, units, rows_in(pipeline, slices, BoundaryLog(lake).read()), rates_so_far, tries)


def rows_in(pipeline: Pipeline, slices: SliceRange, boundaries: Boundaries) -> int:
    """Counts offsets from the range's first boundary to its last; slice by slice where one of them is not
    stored."""
    return sum(
        _offsets(boundaries, slices, cluster.cluster, topic)
        for cluster in pipeline.kafka
        for topic in cluster.topics
    )


def _offsets(boundaries: Boundaries, slices: SliceRange, cluster: str, topic: str) -> int:
    ranges = boundaries.ranges(Slice(slices.start, slices.end - slices.start), cluster, [topic])
    if ranges is not None:
        return sum(offset_range.offsets for offset_range in ranges)
    ranges_by_slice = (boundaries.ranges(slice_, cluster, [topic]) for slice_ in slices)
    return sum(
        offset_range.offsets
        for slice_ranges in ranges_by_slice
        if slice_ranges is not None
        for offset_range in slice_ranges
    )
