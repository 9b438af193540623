"""Resolves boundaries: asks Kafka for what is missing, clamps, and stores it all as one log entry.

A boundary is resolved once and never changes. Resolvers may run side by side: who loses the race for an
entry reads the winner's, clamps again to it, and takes the next.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

import pendulum

from sluice import crash_points
from sluice.clients.kafka.topic_facts import TopicReader, TopicsOf, log_starts
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake, Objects
from sluice.clients.lake.open import open_lake
from sluice.clients.lake.temporary import Overlay
from sluice.config.pipeline import Cluster, Pipeline
from sluice.crash_points import Resolve
from sluice.errors import (
    EndInFuture,
    KafkaUnavailable,
    PartitionMissing,
    SluiceError,
    TopicRecreated,
    WrongUse,
)
from sluice.flow.resolve.clamp import Answers, PartitionAnswers, boundaries_to_store
from sluice.flow.resolve.lookup import FutureStamped, WaitingOffsets, ask
from sluice.manifest import Loss, Manifest
from sluice.plan.modes import FROM_LAKE
from sluice.slices import Slice, SliceRange, Unit, floor, utc
from sluice.state.boundaries.boundary import FoundBy, TopicBoundaries
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, Era, LogEntry
from sluice.state.boundaries.outside import accept_command
from sluice.state.boundaries.retention import retained
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of
from sluice.state.unit_state import UnitState
from sluice.state.units import begun, refuse_other_length, units_of
from sluice.state.units import topics_of as topics_of_unit


@dataclass(frozen=True)
class Resolution:
    """`unreachable` says of each cluster that could not be resolved why; the others are stored.

    `future` are records whose timestamps would have pinned later boundaries to them; `held` are offsets
    behind open transactions. `stored` counts the boundaries that were new, by instant.
    """

    boundaries: Boundaries
    unreachable: Mapping[str, SluiceError] = field(default_factory=dict)
    future: tuple[FutureStamped, ...] = ()
    stored: int = 0
    held: tuple[WaitingOffsets, ...] = ()


def resolve(
    pipeline: Pipeline,
    lake: Objects,
    slices: Iterable[Slice],
    now: datetime,
    topics_of: TopicsOf = open_topics,
) -> Resolution:
    """Stores every boundary of the slices that is missing, for each cluster and topic of the pipeline.

    Raises EndInFuture when a slice is not over at `now`, WrongUse when the pipeline's boundaries
    have another length, LakeUnavailable. What a cluster's Kafka says no to (KafkaUnavailable, UnknownTopic,
    TopicRecreated, PartitionMissing) is in the answer, so that the other clusters' hours are safe.
    """
    listed = list(slices)
    _refuse_future(listed, now)
    log = BoundaryLog(lake)
    state = log.read()
    crash_points.reached(Resolve.READ)
    inquiry = Inquiry(pipeline, listed, now, topics_of)
    stored = 0
    while True:
        refuse_other_length(pipeline, state)
        inquiry.ask(state)
        crash_points.reached(Resolve.ASKED)
        blocks, asked = inquiry.blocks_to_store(state), inquiry.asked(state)
        if not blocks and not asked:
            break
        new = log.append(state, LogEntry(pipeline.slice, blocks, asked=asked), utc(now))
        if new is not None:
            state, stored = new, max((len(block.instants) for block in blocks), default=0)
            break
        state = log.read(state)
    return Resolution(state, inquiry.failed, tuple(inquiry.future), stored, tuple(inquiry.held))


def accept_topic(
    pipeline: Pipeline,
    lake: Lake,
    cluster: str,
    topic: str,
    since: datetime,
    now: datetime,
    topics_of: TopicsOf = open_topics,
) -> Boundaries:
    """Accepts a topic that was recreated: slices from `since` on are of the new one, from its log start.

    Slices before are of the old one, which stands still where it was last seen. Raises WrongUse when
    `since` is no slice's edge, when a slice from there on has landed, or when the topic has no other id than
    the boundaries know; and Kafka's errors.
    """
    log = BoundaryLog(lake)
    state = log.read()
    instant = int(since.timestamp())
    if floor(since, pipeline.slice) != utc(since):
        raise WrongUse(f"{since} is not a slice's edge of pipeline {pipeline.name}")
    with topics_of(pipeline.cluster(cluster)) as reader:
        description = reader.describe(topic)
    while True:
        refuse_other_length(pipeline, state)
        if state.uuid(cluster, topic) in (None, description.uuid):
            raise WrongUse(f"topic {cluster}/{topic} was not recreated: there is nothing to accept")
        _refuse_landed(pipeline, lake, state, cluster, topic, utc(since))
        by_partition = {
            p: PartitionAnswers(at, at, [at], [FoundBy.LOG_START]) for p, at in description.log_starts.items()
        }
        block = boundaries_to_store(
            None, Answers(cluster, topic, description.uuid, array("q", [instant]), by_partition)
        )
        accepted = {(cluster, topic): Era(description.uuid, instant)}
        new = log.append(state, LogEntry(pipeline.slice, (block,), accepted), utc(now))
        if new is not None:
            return new
        state = log.read(state)


def _refuse_landed(
    pipeline: Pipeline, lake: Lake, state: Boundaries, cluster: str, topic: str, since: pendulum.DateTime
) -> None:
    """Raises WrongUse for a landed slice: it is not read again, and would lack the new topic's records."""
    stored = state.stored(cluster, topic)
    last = pendulum.from_timestamp(stored.instants[-1]) if stored and len(stored.instants) else since
    slices = SliceRange(since, max(since, last), pipeline.slice)
    landed = read_manifests(lake, [Unit(slice_, cluster) for slice_ in slices])
    if landed:
        newest = max(unit.slice for unit in landed)
        raise WrongUse(
            f"slice {newest.id} has landed from {cluster}/{topic} as it was before: "
            f"accept the new topic from {newest.end:%Y-%m-%dT%H:%MZ} on"
        )


def _refuse_future(slices: Sequence[Slice], now: datetime) -> None:
    last = max((slice_.end for slice_ in slices), default=None)
    if last is not None and last > now:
        raise EndInFuture(f"{last:%Y-%m-%dT%H:%MZ}", f"{utc(now):%Y-%m-%dT%H:%M:%SZ}")


# Asks every cluster of a pipeline for the boundaries that are missing, side by side.
TopicName = tuple[str, str]
"""(cluster, topic)."""


class Inquiry:
    """What Kafka has said so far; it is asked again only for what another writer's entry made stale."""

    def __init__(
        self, pipeline: Pipeline, slices: Sequence[Slice], now: datetime, topics_of: TopicsOf
    ) -> None:
        self._pipeline = pipeline
        self._slices = slices
        self._now = now
        self._topics_of = topics_of
        self._said: dict[TopicName, Answers] = {}
        self.failed: dict[str, SluiceError] = {}
        self.future: list[FutureStamped] = []
        self.held: list[WaitingOffsets] = []

    def ask(self, state: Boundaries) -> None:
        """Asks all clusters that have something missing, side by side."""
        for name, answers in list(self._said.items()):
            if _contradiction(state, answers) is not None:
                del self._said[name]
        open_questions = {c.cluster: self._missing(state, c) for c in self._pipeline.kafka}
        clusters = [c for c in self._pipeline.kafka if open_questions[c.cluster]]
        if not clusters:
            return
        with ThreadPoolExecutor(len(clusters)) as pool:
            list(pool.map(lambda c: self._ask_cluster(c, open_questions[c.cluster], state), clusters))

    def blocks_to_store(self, state: Boundaries) -> tuple[TopicBoundaries, ...]:
        """Returns the next entry's blocks: what `state` lacks of all that Kafka said, clamped to it."""
        blocks = (boundaries_to_store(state.stored(*name), answers) for name, answers in self._said.items())
        return tuple(block for block in blocks if len(block.instants))

    def asked(self, state: Boundaries) -> dict[str, int]:
        """Returns by cluster that failed, while others answer, the first instant that was asked for (seconds
        since the epoch), where `state` does not know it yet: from there on hours wait for the cluster."""
        if self.failed.keys() == set(self._pipeline.clusters):
            return {}
        first_instants = {}
        for name in self.failed:
            first = min(slice_.start for slice_ in begun(self._pipeline.cluster(name), self._slices))
            begin = state.begin(name)
            if begin is None or first < begin:
                first_instants[name] = int(first.timestamp())
        return first_instants

    def _missing(self, state: Boundaries, cluster: Cluster) -> dict[str, list[int]]:
        if cluster.cluster in self.failed:
            return {}
        topics = [topic for topic in cluster.topics if (cluster.cluster, topic) not in self._said]
        slices, name = begun(cluster, self._slices), cluster.cluster
        known = state.instants(name)
        missing = {topic: state.missing(slices, name, topic) for topic in topics}
        instants = {
            topic: sorted({*at, *state.behind(name, topic, at, known)}) for topic, at in missing.items()
        }
        return {topic: at for topic, at in instants.items() if at}

    def _ask_cluster(self, cluster: Cluster, missing: Mapping[str, list[int]], state: Boundaries) -> None:
        try:
            with self._topics_of(cluster) as reader:
                for topic, instants in missing.items():
                    self._ask_topic(reader, cluster.cluster, topic, instants, state)
        except SluiceError as error:
            self.failed.setdefault(cluster.cluster, error)

    def _ask_topic(
        self, reader: TopicReader, cluster: str, topic: str, instants: Sequence[int], state: Boundaries
    ) -> None:
        try:
            topic_answers = ask(reader, cluster, topic, instants, state.stored(cluster, topic), self._now)
            contradiction = _contradiction(state, topic_answers.answers)
            if contradiction is not None:
                raise contradiction
        except KafkaUnavailable:
            raise
        except SluiceError as error:  # this topic's own trouble: the cluster's others go on
            if isinstance(error, TopicRecreated):
                error.accept = accept_command(self._pipeline, state, cluster, topic, self._now)
            self.failed.setdefault(cluster, error)
            return
        self._said[cluster, topic] = topic_answers.answers
        self.future += topic_answers.future
        self.held += topic_answers.held


def _contradiction(state: Boundaries, answers: Answers) -> SluiceError | None:
    """Returns why the answers cannot be stored after `state`; None where they can."""
    stored = state.stored(answers.cluster, answers.topic)
    if stored is None:
        return None
    if stored.uuid != answers.uuid:
        return TopicRecreated(answers.cluster, answers.topic, stored.uuid, answers.uuid)
    gone = stored.columns.keys() - answers.partitions.keys()
    return PartitionMissing(answers.cluster, answers.topic, min(gone)) if gone else None


# What resolving now would find, without storing it.


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
