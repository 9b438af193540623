"""What resolving now would find, without storing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pendulum

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topic_facts import log_starts
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.open import open_lake
from sluice.clients.lake.overlay import Overlay
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Loss, Manifest
from sluice.plan.modes import FROM_LAKE
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.retention import retained
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of
from sluice.state.unit_state import UnitState
from sluice.state.units import topics_of as topics_of_unit
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


# What Kafka has lost since of resolved units.
def retained_losses(
    pipeline: Pipeline,
    boundaries: Boundaries,
    units: Iterable[Unit],
    topics_of: TopicsOf = open_topics,
    landed: Mapping[Unit, Manifest] | None = None,
) -> dict[Unit, tuple[Loss, ...]]:
    """Returns the offsets of each resolved unit that Kafka lacks now; units that lost nothing are left out.
    Of those in `landed` their own topics are asked for, too.

    Raises KafkaUnavailable, UnknownTopic, PartitionMissing, TopicRecreated.
    """
    losses_by_unit: dict[Unit, tuple[Loss, ...]] = {}
    by_cluster: dict[str, list[Unit]] = {}
    for unit in units:
        by_cluster.setdefault(unit.cluster, []).append(unit)
    for cluster, cluster_units in by_cluster.items():
        named = pipeline.cluster(cluster).topics
        topics = {u: topics_of_unit(pipeline, u, (landed or {}).get(u)) for u in cluster_units}
        ranges = {unit: boundaries.ranges(unit.slice, cluster, topics[unit]) or () for unit in cluster_units}
        alive = {r for rs in ranges.values() for r in rs if r.uuid == boundaries.uuid(cluster, r.topic)}
        if not alive:
            continue
        with topics_of(pipeline.cluster(cluster)) as reader:
            starts = log_starts(reader, cluster, alive, {r.topic for r in alive}.difference(named))
        alive = {r for r in alive if (r.topic, r.partition) in starts}
        for unit, rs in ranges.items():
            gone = (Loss(r.topic, r.partition, r.start, r.until, exact=True) for r in rs if r not in alive)
            losses_by_unit[unit] = (
                *retained([r for r in rs if r in alive], starts),
                *(loss for loss in gone if loss.start < loss.until),
            )
    return {unit: losses for unit, losses in losses_by_unit.items() if losses}
