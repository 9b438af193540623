"""The lag of past hours as a plot: an hour of which nothing is known is a gap. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.page.pipeline_models import LagTrend
from sluice.slices import HOUR, SliceRange
from sluice.state.lag_history import LagSample

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
