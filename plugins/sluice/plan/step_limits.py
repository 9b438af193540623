"""How long one try of a step may take before it counts as hung: by its offsets and the times of earlier runs.

It is generous: a limit that is too short does the same work again, and one that is too long only waits. Each
further try has twice as long, so that one that was too short does not stop a pipeline for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import pendulum

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.slices import Slice, SliceRange

if TYPE_CHECKING:  # a DAG file asks for BASE, and must not import numpy
    from sluice.plan.estimate import Rate
    from sluice.state.boundaries.model import Boundaries
from sluice.state.units import all_topics

BASE = timedelta(hours=1)
"""The least limit of a step, however little it has to do: a Spark cluster may be busy, a server may be
slow."""
FACTOR = 10
"""The limit, as a multiple of what the same units and rows took in earlier runs."""
# What was not timed yet: half as fast as the slowest case of docs/guide/performance.md.
UNIT_SECONDS, ROW_SECONDS = 0.1, 0.0002
LONGEST = timedelta(days=30)
PARTS = {"verify_all": ("verify",), "cluster": ("land", "load", "verify", "publish")}
"""The timed steps that a step consists of, where it is not one itself."""


def limit(step: str, units: int, rows: int, rate_by_step: Mapping[str, Rate], tries: int = 1) -> timedelta:
    """Returns the limit of the `tries`-th try of a step over so many units and rows; `rate_by_step` has the
    timed steps.

    land, 3 units, 0 rows, nothing timed: 1 h and 0.3 s; its second try: 2 h and 0.6 s.
    """
    seconds = 0.0
    for part in PARTS.get(step, (step,)):
        timed = rate_by_step[part].seconds(units, rows) if part in rate_by_step else 0.0
        seconds += max(FACTOR * timed, units * UNIT_SECONDS + rows * ROW_SECONDS)
    once = BASE.total_seconds() + seconds
    most = LONGEST.total_seconds()
    return timedelta(seconds=min(once * 2 ** min(max(tries - 1, 0), 20), most))


def time_for(pipeline: Pipeline, step: str, slices: SliceRange, tries: int) -> timedelta:
    """Returns the limit of the `tries`-th try over `slices`. Raises what the lake raises."""
    from sluice.plan.estimate import rates
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.notes import newest

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
        for topic in all_topics(cluster, boundaries)
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
