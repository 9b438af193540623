"""Kafka as the source of a landing's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pendulum

from sluice.clients.kafka.topic_facts import TopicsOf, log_starts
from sluice.clients.kafka.topics import open_topics, probe_cluster
from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import CompactedAway, ManifestLost, RecordsExpired, Refused, SluiceError, TopicRecreated
from sluice.flow.land.commit import Draft, Landed, Refusal, commit_again, commit_each, draft_manifest
from sluice.flow.land.gaps import explain
from sluice.flow.land.lost_manifests import LostManifests
from sluice.flow.land.newly_rejected import NotReplaced, or_refusal
from sluice.flow.land.read import Accounted, Gaps
from sluice.flow.land.read_plan import ReadGroup, UnitRead, unit_read
from sluice.flow.land.task.reports import SeenOffsets
from sluice.flow.land.task.task import Task
from sluice.manifest import Manifest, OffsetRange
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.outside import accept_command
from sluice.state.boundaries.retention import rest
from sluice.state.units import topics_of as topics_of_unit
from sluice.state.units import unit_ranges


@dataclass(frozen=True)
class KafkaSource:
    """`old`: the manifests of units that have landed. A `reland` of this `token` replaces them,
    unless there is a `refusal`."""

    pipeline: Pipeline
    lake: Lake
    old: Mapping[Unit, Manifest]
    mode: str
    token: str
    say: Say
    topics_of: TopicsOf
    refusal: Refusal | None = None
    lost: LostManifests = field(default_factory=LostManifests)

    def reading(self, task: Task, run: ReadGroup) -> Task:
        return task

    def account(
        self, reads: Sequence[UnitRead], gaps: Gaps, seen: Mapping[Unit, Sequence[SeenOffsets]]
    ) -> Mapping[Unit, Accounted]:
        """Raises ExpiredMeanwhile, TopicRecreated, KafkaUnavailable."""
        self._explain(reads, gaps)
        return {r.unit: self._accounted(r, gaps, seen.get(r.unit, ())) for r in reads}

    def _accounted(self, read: UnitRead, gaps: Gaps, seen: Sequence[SeenOffsets]) -> Accounted:
        missing = sum(gap.missing for partition_gaps in gaps[read.unit].values() for gap in partition_gaps)
        return Accounted(tuple(seen), missing + sum(part.hidden for part in seen))

    def _explain(self, reads: Sequence[UnitRead], gaps: Gaps) -> None:
        for cluster in dict.fromkeys(read.unit.cluster for read in reads):
            ranges = {r for read in reads if read.unit.cluster == cluster for r in read.left if r.offsets}
            # Asked also without gaps: a topic that was recreated meanwhile has another id, and is refused.
            starts = starts_now(self.pipeline, cluster, ranges, self.topics_of)
            own = {unit: places for unit, places in gaps.items() if places and unit.cluster == cluster}
            if own:
                self.say(f"{cluster}: a second read of {_count(own):,} offsets that hold no record")
                with self.topics_of(self.pipeline.cluster(cluster)) as topics:
                    explain(topics, own, starts)

    def check(self, landed: Sequence[Landed]) -> None:
        """Raises CompactedAway, ManifestLost."""
        refuse_compacted(self.pipeline, landed, self.old, self.topics_of)
        for unit in landed:
            self.lost.check_rows(unit.read.unit, sum(file.rows for file in unit.files if file.hour))

    def answers(self, cluster: str) -> bool:
        return probe_cluster(self.pipeline.cluster(cluster), self.topics_of) is None

    def replaced(self, reads: Sequence[UnitRead]) -> SluiceError | None:
        return None

    def commit(self, landed: Sequence[Landed]) -> list[Manifest | NotReplaced]:
        now, grace = pendulum.now("UTC"), self.pipeline.success_grace
        drafts = [
            partial(draft_manifest, self.pipeline.name, unit, grace, self.token, now) for unit in landed
        ]
        if self.mode == "reland":
            return each_if_slow(self._replace, drafts)
        return [*commit_each(self.lake, drafts)]

    def _replace(self, draft: Draft) -> Manifest | NotReplaced:
        return or_refusal(lambda: commit_again(self.lake, draft, self.refusal))


def _count(gaps: Gaps) -> int:
    return sum(gap.missing for places in gaps.values() for found in places.values() for gap in found)


# Compares what has to be read with what Kafka still has, before anything is read.


@dataclass(frozen=True)
class Reads:
    """What of each unit is read, by cluster; which units cannot be because Kafka no longer has all of them;
    and why clusters cannot be read, or not all of their units."""

    by_cluster: Mapping[str, list[UnitRead]]
    expired: tuple[Refused, ...] = ()
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
    lost: LostManifests | None = None,
) -> Reads:
    """Returns what to read of each unit. Kafka is asked only where there are offsets between the boundaries.

    `lost`: units that have landed, and whose manifest is lost.
    `failed` holds Refused, TopicRecreated, UnknownTopic, PartitionMissing, KafkaUnavailable.
    """
    by_cluster: dict[str, list[UnitRead]] = {}
    expired: list[Refused] = []
    lost = lost or LostManifests()
    failed: dict[str, SluiceError] = {}
    for cluster in pipeline.clusters:
        topics = {
            u: lost.topics(u, topics_of_unit(pipeline, u, old.get(u), boundaries))
            for u in units
            if u.cluster == cluster
        }
        ranges = {u: unit_ranges(pipeline, u, topics[u], boundaries) for u in topics}
        for unit in (unit for unit, found in ranges.items() if found is None):
            hour = unit.slice.id
            failed.setdefault(
                cluster,
                Refused(
                    f"slice {hour} of cluster {cluster!r} is not resolved: run the resolve step over it first"
                ),
            )
        resolved = {unit: found for unit, found in ranges.items() if found is not None}
        try:
            by_cluster[cluster], refused = _cluster_reads(
                pipeline, boundaries, cluster, resolved, old, topics_of, lost
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
    lost: LostManifests,
) -> tuple[list[UnitRead], list[Refused]]:
    """Returns the reads of the resolved units of one cluster, and the errors of those that have expired."""
    reads: list[UnitRead] = []
    refused: list[Refused] = []
    asked = {r for rs in ranges.values() for r in rs if r.offsets and _stands(boundaries, cluster, r)}
    starts = starts_now(pipeline, cluster, asked, topics_of)
    alive = {r for r in asked if (r.topic, r.partition) in starts}
    for unit, rs in ranges.items():
        expired = boundaries.expired(unit.slice, cluster, dict.fromkeys(r.topic for r in rs))
        # Of a topic that was recreated, or is gone, nothing is left; a range of no offsets has none to lose.
        left = {(r.topic, r.partition): starts[r.topic, r.partition] if r in alive else r.until for r in rs}
        gone = {r.topic for r in rs if r.offsets and r not in alive}
        try:
            lost.check(unit, rest(rs, left))
            read = unit_read(lost.accepting(pipeline, unit), unit, rs, expired, left, old.get(unit), gone)
            reads.append(lost.after(read))
        except (ManifestLost, RecordsExpired) as error:
            refused.append(error)
    return reads, refused


def starts_now(
    pipeline: Pipeline, cluster: str, ranges: set[OffsetRange], topics_of: TopicsOf
) -> Mapping[tuple[str, int], int]:
    """Returns the log start of each range's (topic, partition); Kafka is not asked when there are none. A
    topic that the file does not name by itself, and that Kafka no longer has, has none."""
    if not ranges:
        return {}
    partitions = {replace(r, start=0, until=0) for r in ranges}
    departed = {r.topic for r in ranges} - set(pipeline.cluster(cluster).named)
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
