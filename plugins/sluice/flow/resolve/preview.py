"""What resolving now would find, without storing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pendulum

from sluice.clients.lake.open import open_lake
from sluice.clients.lake.overlay import Overlay
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.resolve.expired import retained_losses
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Loss
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of
from sluice.state.units import units_of


@dataclass(frozen=True)
class Preview:
    """`unreachable` says of each cluster of which nothing could be asked now why."""

    found: list[UnitStatus]
    unreachable: Mapping[str, SluiceError] = field(default_factory=dict)


def preview(pipeline: Pipeline, slices: SliceRange) -> Preview:
    """Surveys, with what resolving now would find and what Kafka no longer has; changes nothing.

    Raises what Kafka raises when no cluster answers.
    """
    lake = open_lake(pipeline)
    over = [slice_ for slice_ in slices if slice_.end <= pendulum.now("UTC")]
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
    """Raises the first cluster's error when none of them can be asked."""
    if unreachable.keys() == set(pipeline.clusters):
        raise next(iter(unreachable.values()))
