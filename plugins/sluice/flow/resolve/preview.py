"""What resolving now would find, without storing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pendulum

from sluice.clients.lake.open import open_lake
from sluice.clients.lake.overlay import Overlay
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.resolve.expired import retained_losses
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Loss
from sluice.plan.modes import FROM_LAKE
from sluice.slices import SliceRange, Unit
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of
from sluice.state.unit_state import UnitState
from sluice.state.units import units_of


@dataclass(frozen=True)
class Preview:
    """The units, and by cluster that does not answer now its error."""

    statuses: list[UnitStatus]
    unreachable: Mapping[str, SluiceError] = field(default_factory=dict)


def preview(pipeline: Pipeline, slices: SliceRange, mode: str = "fill") -> Preview:
    """Surveys, with what resolving now would find and what Kafka no longer has; changes nothing.

    Raises what Kafka raises when no cluster answers. A mode that takes what has landed out of the lake waits
    for a cluster only where some of its units have not.
    """
    lake = open_lake(pipeline)
    over = [slice_ for slice_ in slices if slice_.end <= pendulum.now("UTC")]
    resolution = resolve(pipeline, Overlay(lake), over, pendulum.now("UTC"))
    unreachable = dict(resolution.unreachable)
    units = units_of(pipeline, slices, resolution.boundaries)
    landed = read_manifests(lake, units) if mode == "reland" else {}
    expired: dict[Unit, tuple[Loss, ...]] = {}
    for cluster in (name for name in pipeline.clusters if name not in unreachable):
        cluster_units = [unit for unit in units if unit.cluster == cluster]
        try:
            expired |= retained_losses(pipeline, resolution.boundaries, cluster_units, landed=landed)
        except SluiceError as error:
            unreachable[cluster] = error
    if mode not in FROM_LAKE:
        raise_if_all(pipeline, unreachable)
    statuses = survey_of(pipeline, slices, lake, resolution.boundaries, expired)
    if mode in FROM_LAKE:
        unreachable = waited_for(statuses, unreachable)
        if not any(status.manifest for status in statuses):
            raise_if_all(pipeline, unreachable)
    return Preview(statuses, unreachable)


def waited_for(
    statuses: Iterable[UnitStatus], unreachable: Mapping[str, SluiceError]
) -> dict[str, SluiceError]:
    """Returns those clusters that still have to bring a unit which is over."""
    unread = {s.unit.cluster for s in statuses if s.manifest is None and s.state is not UnitState.NOT_OVER}
    return {cluster: error for cluster, error in unreachable.items() if cluster in unread}


def raise_if_all(pipeline: Pipeline, unreachable: Mapping[str, SluiceError]) -> None:
    """Raises the first cluster's error when none of them can be asked."""
    if unreachable.keys() == set(pipeline.clusters):
        raise next(iter(unreachable.values()))
