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
    known = {one.at: one for one in samples if first <= one.at < end}
    starts = list(range(min(known), max(known) + 1, _SECONDS)) if known else []
    found = [known.get(at) for at in starts]
    return LagTrend(
        starts=starts,
        records=[one.records if one else None for one in found],
        seconds=[one.seconds if one else None for one in found],
        held=[one.held if one else None for one in found],
    )
