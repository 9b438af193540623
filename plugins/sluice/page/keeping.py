"""What the lake forgets next, for retention's card: by the months' summaries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.flow.forget.forget_due import keep_since
from sluice.page.pipeline_models import Keeping, NextForgotten
from sluice.plan.due import KeepEdges, begins, due_slices, known_until
from sluice.slices import Slice, SliceRange, utc
from sluice.state.boundaries.model import Boundaries
from sluice.state.file_versions import read_versions
from sluice.state.month_store import read_summaries

_YEAR = timedelta(days=366)


def read_keeping(pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime) -> Keeping | None:
    """Returns None where the pipeline file has no `keep`. Raises what the lake raises."""
    keep, following = pipeline.keep, list[NextForgotten]()
    if not keep.forgets and not keep.tables:
        return None
    if keep.lake is not None:
        following += _next(pipeline, lake, boundaries, now, "files", KeepEdges(now, None), keep.lake)
    if keep.rejected is not None:
        edges = KeepEdges(None, now)
        following += _next(pipeline, lake, boundaries, now, "unparsed records", edges, keep.rejected)
    return Keeping(
        lake_seconds=_seconds(keep.lake),
        rejected_seconds=_seconds(keep.rejected_for),
        table_seconds={table: int(length.total_seconds()) for table, length in keep.tables.items()},
        following=following,
    )


def _next(
    pipeline: Pipeline,
    lake: Lake,
    boundaries: Boundaries,
    now: datetime,
    what: str,
    edges: KeepEdges,
    age: timedelta,
) -> list[NextForgotten]:
    """Returns the oldest slice of which the lake still holds such files, and when it forgets them. Hours that
    a table lacks are left out."""
    span = boundaries.span()
    hours = None if span is None else known_until(span[0], edges, pipeline.slice)
    if hours is None:
        return []
    slice_ = next(_due(pipeline, lake, hours, edges), None)
    if slice_ is None:
        return []
    at = max(slice_.end + age, begins(keep_since(pipeline.keep, read_versions(lake)), now))
    return [NextForgotten(what=what, slice=slice_.id, at=utc(at).isoformat(timespec="seconds"))]


def _due(pipeline: Pipeline, lake: Lake, hours: SliceRange, edges: KeepEdges) -> Iterator[Slice]:
    """Yields the slices that still have such files, the oldest first. Reads a year at a time: a `keep` that
    is new finds files of any age."""
    start = hours.start
    while start < hours.end:
        end = min(hours.end, start + _YEAR)
        year = SliceRange.widen(start, end, pipeline.slice)
        yield from due_slices(pipeline, read_summaries(lake, year), edges)
        start = end


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else int(length.total_seconds())
