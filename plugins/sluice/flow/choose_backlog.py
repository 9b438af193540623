"""Reads the backlog and chooses what of it a run takes: the adapter of `sluice.plan.backlog`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.resolve.expired import retained_losses
from sluice.flow.resolve.preview import raise_if_all
from sluice.flow.steps import resolve_range
from sluice.manifest import Loss
from sluice.plan.backlog import Backlog, backlog_of, batches_of, chosen, hours_until, stuck, windows
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.month_store import note, read_summaries
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of

MOST_WINDOWS = 4
"""Ranges of the backlog that are surveyed for units completed since a step last noted them."""


def backlog_before(
    pipeline: Pipeline, lake: Lake, until: datetime, boundaries: Boundaries | None = None
) -> Backlog:
    """Returns the units before `until` that the summaries do not call complete. Raises what the lake
    raises."""
    stored = BoundaryLog(lake).read() if boundaries is None else boundaries
    hours = hours_until(pipeline, stored, until)
    if hours is None:
        return Backlog()
    return backlog_of(pipeline, stored, hours, read_summaries(lake, hours))


def seen_backlog(pipeline: Pipeline, lake: Lake, until: datetime) -> Backlog:
    """Reads as `backlog_before` does, and surveys the oldest part; changes nothing.

    Raises what the lake and ClickHouse raise.
    """
    boundaries = BoundaryLog(lake).read()
    backlog = backlog_before(pipeline, lake, until, boundaries)
    resolved = [unit for unit in backlog.states if _resolved(pipeline, boundaries, unit)]
    for window in windows(resolved)[:MOST_WINDOWS]:
        backlog = backlog.seen(survey_of(pipeline, window, lake, boundaries))
    return backlog


@dataclass(frozen=True)
class Older:
    """The batches that a run takes of the backlog; `waiting` has the error of each cluster that could not be
    asked."""

    batches: tuple[SliceRange, ...] = ()
    waiting: Mapping[str, SluiceError] = field(default_factory=dict)


def older_batches(pipeline: Pipeline, until: datetime, turn: int) -> Older:
    """Returns what run number `turn` does of the hours before `until`.

    Boundaries of a range of them are stored, and what of it can be landed or loaded is cut into batches.
    Raises what the lake, ClickHouse and `resolve_range` raise.
    """
    lake = open_lake(pipeline)
    waiting: dict[str, SluiceError] = {}
    backlog = backlog_before(pipeline, lake, until)
    while True:
        skipped = stuck(backlog, pipeline.on_expired, waiting)
        window, number = chosen(windows(unit for unit in backlog.states if unit not in skipped), turn)
        if window is None:
            return Older(waiting=waiting)
        statuses, silent = _bring(pipeline, lake, window)
        waiting |= silent
        if batches := batches_of(statuses, pipeline.on_expired, number):
            return Older(tuple(batches), waiting)
        backlog = backlog.outside(window)


def _bring(
    pipeline: Pipeline, lake: Lake, window: SliceRange
) -> tuple[list[UnitStatus], dict[str, SluiceError]]:
    """Stores the window's boundaries. Returns the state of its units, with the offsets that Kafka no longer
    has (the summaries keep them), and the error of each cluster that could not be asked."""
    silent = dict(resolve_range(pipeline, window)["waiting"])
    boundaries = BoundaryLog(lake).read()
    statuses = survey_of(pipeline, window, lake, boundaries)
    expired: dict[Unit, tuple[Loss, ...]] = {}
    for cluster in (name for name in pipeline.clusters if name not in silent):
        unlanded = [s.unit for s in statuses if s.unit.cluster == cluster and s.manifest is None]
        try:
            expired |= retained_losses(pipeline, boundaries, unlanded)
        except SluiceError as error:
            silent[cluster] = error
    raise_if_all(pipeline, silent)
    if expired:
        statuses = survey_of(pipeline, window, lake, boundaries, expired)
    note(lake, statuses)
    return statuses, silent


def _resolved(pipeline: Pipeline, boundaries: Boundaries, unit: Unit) -> bool:
    """Leaves out what was never resolved: it has not landed."""
    gone = unit.cluster not in pipeline.clusters
    topics = () if gone else pipeline.cluster(unit.cluster).topics
    return gone or boundaries.ranges(unit.slice, unit.cluster, topics) is not None
