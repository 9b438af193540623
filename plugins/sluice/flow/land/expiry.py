"""Compares what has to be read with what Kafka still has, before anything is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pendulum

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topic_facts import log_starts
from sluice.clients.kafka.topics import open_topics
from sluice.config.pipeline import Pipeline
from sluice.errors import CompactedAway, RecordsExpired, Refused, SluiceError, TopicRecreated
from sluice.flow.land.manifest_draft import Landed
from sluice.flow.land.read_plan import UnitRead, unit_read
from sluice.manifest import Manifest, OffsetRange
from sluice.slices import Unit
from sluice.state.boundaries.accept_command import accept_command
from sluice.state.boundaries.model import Boundaries
from sluice.state.units import topics_of as topics_of_unit


@dataclass(frozen=True)
class Reads:
    """What of each unit is read, by cluster; which units cannot be because Kafka no longer has all of them;
    and why clusters cannot be read, or not all of their units."""

    by_cluster: Mapping[str, list[UnitRead]]
    expired: tuple[RecordsExpired, ...] = ()
    failed: Mapping[str, SluiceError] = field(default_factory=dict)

    @property
    def all(self) -> list[UnitRead]:
        return [read for reads in self.by_cluster.values() for read in reads]


def unit_reads(
    pipeline: Pipeline,
    boundaries: Boundaries,
    units: Sequence[Unit],
    old: Mapping[Unit, Manifest],
    topics_of: TopicsOf = open_topics,
) -> Reads:
    """Returns what to read of each unit. Kafka is asked only where there are offsets between the boundaries.

    `failed` holds Refused, TopicRecreated, UnknownTopic, PartitionMissing, KafkaUnavailable.
    """
    by_cluster: dict[str, list[UnitRead]] = {}
    expired: list[RecordsExpired] = []
    failed: dict[str, SluiceError] = {}
    for cluster in pipeline.clusters:
        topics = {u: topics_of_unit(pipeline, u, old.get(u)) for u in units if u.cluster == cluster}
        ranges = {u: boundaries.ranges(u.slice, cluster, topics[u]) for u in topics}
        for unit in (unit for unit, unit_ranges in ranges.items() if unit_ranges is None):
            hour = unit.slice.id
            failed.setdefault(
                cluster,
                Refused(
                    f"slice {hour} of cluster {cluster!r} is not resolved: run the resolve step over it first"
                ),
            )
        resolved = {unit: unit_ranges for unit, unit_ranges in ranges.items() if unit_ranges is not None}
        try:
            by_cluster[cluster], refused = _cluster_reads(
                pipeline, boundaries, cluster, resolved, old, topics_of
            )
            expired += refused
        except SluiceError as error:
            if isinstance(error, TopicRecreated):
                now = pendulum.now("UTC")
                error.accept = accept_command(pipeline, boundaries, cluster, error.topic, now)
            failed[cluster] = error
    return Reads(by_cluster, tuple(expired), failed)


def _cluster_reads(
    pipeline: Pipeline,
    boundaries: Boundaries,
    cluster: str,
    ranges: Mapping[Unit, tuple[OffsetRange, ...]],
    old: Mapping[Unit, Manifest],
    topics_of: TopicsOf,
) -> tuple[list[UnitRead], list[RecordsExpired]]:
    """Returns the reads of the resolved units of one cluster, and the errors of those that have expired."""
    reads: list[UnitRead] = []
    refused: list[RecordsExpired] = []
    asked = {r for rs in ranges.values() for r in rs if r.offsets and _stands(boundaries, cluster, r)}
    starts = starts_now(pipeline, cluster, asked, topics_of)
    alive = {r for r in asked if (r.topic, r.partition) in starts}
    for unit, rs in ranges.items():
        expired = boundaries.expired(unit.slice, cluster, dict.fromkeys(r.topic for r in rs))
        # Of a topic that was recreated, or is gone, nothing is left; a range of no offsets has none to lose.
        left = {(r.topic, r.partition): starts[r.topic, r.partition] if r in alive else r.until for r in rs}
        gone = {r.topic for r in rs if r.offsets and r not in alive}
        try:
            reads.append(unit_read(pipeline, unit, rs, expired, left, old.get(unit), gone))
        except RecordsExpired as error:
            refused.append(error)
    return reads, refused


def starts_now(
    pipeline: Pipeline, cluster: str, ranges: set[OffsetRange], topics_of: TopicsOf
) -> Mapping[tuple[str, int], int]:
    """Returns the log start of each range's (topic, partition); Kafka is not asked when there are none. A
    topic that left the pipeline file, and Kafka, has none."""
    if not ranges:
        return {}
    partitions = {replace(r, start=0, until=0) for r in ranges}
    departed = {r.topic for r in ranges} - set(pipeline.cluster(cluster).topics)
    with topics_of(pipeline.cluster(cluster)) as reader:
        return log_starts(reader, cluster, partitions, departed)


def refuse_compacted(
    pipeline: Pipeline,
    landed: Iterable[Landed],
    old: Mapping[Unit, Manifest],
    topics_of: TopicsOf = open_topics,
) -> None:
    """Raises CompactedAway when a unit to be replaced has more records of a compacted topic in the lake.

    Fewer may be right elsewhere: an aborted transaction that was landed under `read_uncommitted` goes.
    """
    for unit, manifest in ((u, old[u.read.unit]) for u in landed if u.read.unit in old):
        cluster = pipeline.cluster(unit.read.unit.cluster)
        for topic, held in _held(manifest).items():
            read = sum(part.records for part in unit.seen if part.topic == topic)
            if read >= held:
                continue
            with topics_of(cluster) as reader:
                compacted = reader.compacted(topic)
            if compacted:
                slice_ = unit.read.unit.slice
                reload = pipeline.command("run", *slice_.words, "--mode", "reload")
                raise CompactedAway(cluster.cluster, topic, slice_.id, held, read, reload)


def _held(manifest: Manifest) -> Mapping[str, int]:
    """Returns the records by topic."""
    held: Counter[str] = Counter()
    for count in manifest.counts:
        held[count.topic] += count.read
    return dict(sorted(held.items()))


def _stands(boundaries: Boundaries, cluster: str, r: OffsetRange) -> bool:
    return r.uuid == boundaries.uuid(cluster, r.topic)
