"""Finds what is due by the months' summaries, and forgets it window by window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import ValidationError

from sluice.clients.lake.base import Lake
from sluice.config.keep import Keep
from sluice.config.pipeline import Pipeline
from sluice.config.yaml_text import NotYaml, parse
from sluice.flow.forget.forget import Forgetting, forget_window
from sluice.metrics import sink
from sluice.plan.batches import SliceWeight, cut
from sluice.plan.due import (
    NOTICE,
    FirstForgotten,
    KeepEdges,
    begins,
    due_slices,
    first_forgotten,
    known_until,
)
from sluice.safe_text import Say
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.file_versions import FileVersion, read_versions
from sluice.state.month_store import read_summaries

MOST_SLICES = 240
"""Slices that are verified at once."""
_YEAR = timedelta(days=366)
MOST_WINDOWS = 4
"""Such windows in one run of the DAG; the others follow in the next ones."""


def due_windows(
    pipeline: Pipeline, lake: Lake, now: datetime, only: SliceRange | None = None, done: bool = False
) -> list[SliceRange]:
    """Returns ranges that hold every slice with files to forget, oldest first: of those in the range `only`.

    With `done` hours that a table lacks are left out. All months are read: a run that was killed may have
    begun with hours that today's `keep` finds too young. Raises what the lake raises.
    """
    edges = KeepEdges.of(pipeline.keep, now)
    span = BoundaryLog(lake).read().span()
    if span is None:
        return []
    hours = SliceRange.widen(*span, pipeline.slice)
    slices = [
        slice_
        for slice_ in due_slices(pipeline, read_summaries(lake, hours), edges, done)
        if only is None or only.start <= slice_.start < only.end
    ]
    return cut([SliceWeight(slice_, 0) for slice_ in slices], max_slices=MOST_SLICES)


def forget_due(
    pipeline: Pipeline, lake: Lake, windows: Sequence[SliceRange], now: datetime, say: Say
) -> Forgetting:
    """Forgets window after window, and counts it. Raises what `forget_window` raises."""
    forgetting = Forgetting()
    for window in windows:
        forgotten = forget_window(pipeline, lake, window, now, say)
        forgetting.add(forgotten)
        say(f"{window}: {len(forgotten.units):,} units, {forgotten.files:,} files, {forgotten.bytes:,} bytes")
        sink.count("units_forgotten", len(forgotten.units), pipeline=pipeline.name)
        sink.count("bytes_forgotten", forgotten.bytes, pipeline=pipeline.name)
    return forgetting


def forget_hourly(pipeline: Pipeline, lake: Lake, turn: int, now: datetime, say: Say) -> Forgetting | None:
    """Forgets what run number `turn` of the DAG may; None where it is too early, or nothing is due.

    A run forgets only after `keep` has stood in the file for NOTICE: until then a mistake costs nothing.
    """
    since = keep_since(pipeline.keep, read_versions(lake))
    if now < begins(since, now):
        say(f"`keep` is read since {since or 'this run'}: hours are forgotten from {begins(since, now)} on")
        return None
    windows = due_windows(pipeline, lake, now, done=True)
    if not windows:
        return None
    # Every second run begins elsewhere, so that hours which wait each time hold up nothing for good.
    first = turn // 2 % len(windows) if turn % 2 else 0
    return forget_due(pipeline, lake, [*windows[first:], *windows[:first]][:MOST_WINDOWS], now, say)


def forgotten_first(
    pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime
) -> FirstForgotten | None:
    """Returns what runs of the DAG forget first, within NOTICE; None where they have begun to forget.

    Of the hours that are old enough the first year is read. Raises what the lake raises.
    """
    span = boundaries.span()
    if span is None or not pipeline.keep.forgets:
        return None
    hours = known_until(span[0], KeepEdges.of(pipeline.keep, now + NOTICE), pipeline.slice)
    if hours is None:
        return None
    year = SliceRange.widen(hours.start, min(hours.end, hours.start + _YEAR), pipeline.slice)
    since = keep_since(pipeline.keep, read_versions(lake))
    return first_forgotten(pipeline, read_summaries(lake, year), since, now)


def keep_since(keep: Keep, versions: Sequence[FileVersion]) -> datetime | None:
    """Returns since when runs have read a pipeline file that forgets as `keep` does; None where the newest
    version does not. Pure."""
    since = None
    for version in reversed(versions):
        version_keep = _keep_of(version.text)
        if version_keep is None or (version_keep.lake, version_keep.rejected) != (keep.lake, keep.rejected):
            break
        since = version.at
    return None if since is None else datetime.fromisoformat(since)


def _keep_of(text: str) -> Keep | None:
    """Returns what a kept text says; None for one that cannot be read, as where a variable stands."""
    try:
        content = parse(text)
        return Keep.model_validate(content.get("keep") or {}) if isinstance(content, dict) else None
    except (NotYaml, ValidationError):
        return None
