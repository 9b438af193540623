"""Looks at the lake, ClickHouse and (for a plan) Kafka, and says the state of each unit of a range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pendulum

from sluice.boundaries.log import BoundaryLog
from sluice.boundaries.model import Boundaries
from sluice.clickhouse.shards import connect_shards
from sluice.clusters import units_of
from sluice.errors import SluiceError
from sluice.lake.base import Lake
from sluice.lake.open import open_lake
from sluice.lake.overlay import Overlay
from sluice.load.shares import ledgers_of
from sluice.manifest import Loss
from sluice.manifests import read_manifests
from sluice.pipeline import Pipeline
from sluice.resolve import resolve, retained_losses
from sluice.slices import SliceRange, Unit
from sluice.status import UnitStatus, statuses


def survey(pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
    """The state of each unit from the lake and ClickHouse; Kafka is not asked."""
    lake = open_lake(pipeline)
    return survey_of(pipeline, slices, lake, BoundaryLog(lake).read())


def survey_past(pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
    """As `survey`, of a range that a run has resolved: it is over, also where this clock is behind."""
    lake, now = open_lake(pipeline), max(pendulum.now("UTC"), slices.end)
    return survey_of(pipeline, slices, lake, BoundaryLog(lake).read(), now=now)


@dataclass(frozen=True)
class Preview:
    """`unreachable` says of each cluster of which nothing could be asked now why."""

    found: list[UnitStatus]
    unreachable: Mapping[str, SluiceError] = field(default_factory=dict)


def preview(pipeline: Pipeline, slices: SliceRange) -> Preview:
    """As `survey`, with what resolving now would find and what Kafka no longer has; changes nothing.

    Raises what Kafka raises when no cluster answers.
    """
    lake = open_lake(pipeline)
    over = [piece for piece in slices if piece.end <= pendulum.now("UTC")]
    resolution = resolve(pipeline, Overlay(lake), over, pendulum.now("UTC"))
    unreachable = dict(resolution.unreachable)
    units = units_of(pipeline, slices, resolution.boundaries)
    expired: dict[Unit, tuple[Loss, ...]] = {}
    for cluster in (name for name in pipeline.clusters if name not in unreachable):
        own = [unit for unit in units if unit.cluster == cluster]
        try:
            expired |= retained_losses(pipeline, resolution.boundaries, own)
        except SluiceError as error:
            unreachable[cluster] = error
    raise_if_all(pipeline, unreachable)
    return Preview(survey_of(pipeline, slices, lake, resolution.boundaries, expired), unreachable)


def raise_if_all(pipeline: Pipeline, unreachable: Mapping[str, SluiceError]) -> None:
    """What the first cluster says, when none of them can be asked."""
    if unreachable.keys() == set(pipeline.clusters):
        raise next(iter(unreachable.values()))


def survey_of(
    pipeline: Pipeline,
    slices: SliceRange,
    lake: Lake,
    boundaries: Boundaries,
    expired: Mapping[Unit, tuple[Loss, ...]] | None = None,
    now: datetime | None = None,
) -> list[UnitStatus]:
    """As `survey`, with boundaries that are known, and what Kafka has been seen to lack since."""
    units = units_of(pipeline, slices, boundaries)
    with connect_shards(pipeline) as servers:
        ledgers = ledgers_of(servers, pipeline, lake.url, slices)
    manifests = read_manifests(lake, units)
    return statuses(pipeline, units, boundaries, manifests, ledgers, now or pendulum.now("UTC"), expired)
