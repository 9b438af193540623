"""What Kafka has lost since of resolved units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice.clients.kafka.log_starts import log_starts
from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.config.pipeline import Pipeline
from sluice.manifest import Loss, Manifest
from sluice.slices import Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.retention import retained
from sluice.state.units import topics_of as topics_of_unit


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
