"""Resolves boundaries: asks Kafka for what is missing, clamps, and stores it all as one log entry.

A boundary is resolved once and never changes. Resolvers may run side by side: who loses the race for an
entry reads the winner's, clamps again to it, and takes the next.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
    UnknownTopic,
    WrongUse,
)
from sluice.flow.resolve.clamp import Answers, PartitionAnswers, boundaries_to_store
from sluice.flow.resolve.lookup import FutureStamped, TopicAnswers, WaitingOffsets, ask
from sluice.flow.resolve.matching import (
    Listing,
    TopicChange,
    from_log_start,
    list_topics,
    topic_changes,
    unlisted,
    wanted,
    with_standstills,
)
from sluice.manifest import Loss, Manifest
from sluice.plan.modes import FROM_LAKE
from sluice.slices import Slice, SliceRange, Unit, floor, utc
from sluice.state.boundaries.boundary import FoundBy, TopicBoundaries
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, Era, Listed, LogEntry
from sluice.state.boundaries.outside import accept_command
from sluice.state.boundaries.retention import retained
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of
from sluice.state.unit_state import UnitState
from sluice.state.units import begun, refuse_other_length, units_of
from sluice.state.units import topics_of as topics_of_unit
from sluice.topic_patterns import TopicPatterns


@dataclass(frozen=True)
class Resolution:
    """`unreachable` says of each cluster that could not be resolved why; the others are stored.

    `future` are records whose timestamps would have pinned later boundaries to them; `held` are offsets
    behind open transactions. `stored` counts the boundaries that were new, by instant. `changes` are topics
    that have come to match a pattern, and those that are gone.
    """

    boundaries: Boundaries
    unreachable: Mapping[str, SluiceError] = field(default_factory=dict)
    future: tuple[FutureStamped, ...] = ()
    stored: int = 0
    held: tuple[WaitingOffsets, ...] = ()
    changes: tuple[TopicChange, ...] = ()


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
    stored, changes = 0, tuple[TopicChange, ...]()
    while True:
        refuse_other_length(pipeline, state)
        inquiry.ask(state)
        crash_points.reached(Resolve.ASKED)
        entry = inquiry.entry(state)
        if entry == LogEntry(pipeline.slice, ()):
            break
        new = log.append(state, entry, utc(now))
        if new is not None:
            stored = max((len(block.instants) for block in entry.blocks), default=0)
            state, changes = new, topic_changes(pipeline, state, new)
            break
        state = log.read(state)
    return Resolution(state, inquiry.failed, tuple(inquiry.future), stored, tuple(inquiry.held), changes)


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
        self._listings: dict[str, Listing] = {}
        self._accepted: dict[TopicName, Era] = {}
        self.failed: dict[str, SluiceError] = {}
        self.future: list[FutureStamped] = []
        self.held: list[WaitingOffsets] = []

    def ask(self, state: Boundaries) -> None:
        """Asks all clusters that have something missing, side by side."""
        self._forget_stale(state)
        clusters = [c for c in self._pipeline.kafka if self._to_list(state, c) or self._missing(state, c)]
        if not clusters:
            return
        with ThreadPoolExecutor(len(clusters)) as pool:
            list(pool.map(lambda c: self._ask_cluster(c, state), clusters))

    def _forget_stale(self, state: Boundaries) -> None:
        """Forgets what another writer's entry contradicts. Who has resolved slices by patterns meanwhile has
        said of which topics they are: then Kafka is asked again for all that match."""
        for cluster, listing in list(self._listings.items()):
            if state.listed.get(cluster) != listing.beside:
                del self._listings[cluster]
                for name in [(cluster, topic) for topic in listing.topics]:
                    self._said.pop(name, None)
                    self._accepted.pop(name, None)
        for name, era in list(self._accepted.items()):
            if state.uuid(*name) == era.uuid:
                del self._said[name], self._accepted[name]
        for name, answers in list(self._said.items()):
            if name not in self._accepted and _contradiction(state, answers) is not None:
                del self._said[name]

    def entry(self, state: Boundaries) -> LogEntry:
        """Returns what to store next: what `state` lacks of all that Kafka said, clamped to it."""
        blocks = (
            boundaries_to_store(None if name in self._accepted else state.stored(*name), answers)
            for name, answers in self._said.items()
        )
        return LogEntry(
            self._pipeline.slice,
            tuple(block for block in blocks if len(block.instants)),
            dict(self._accepted),
            self.asked(state),
            self._listed(state),
        )

    def _listed(self, state: Boundaries) -> Listed:
        """Returns the slices of which every topic that matches has answered."""
        listed: dict[str, Mapping[TopicPatterns, frozenset[int]]] = {}
        for cluster in self._pipeline.kafka:
            starts = unlisted(state, cluster, begun(cluster, self._slices))
            if cluster.patterns is not None and starts and cluster.cluster not in self.failed:
                listed[cluster.cluster] = {cluster.patterns: starts}
        return listed

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
        slices, name = begun(cluster, self._slices), cluster.cluster
        listing = self._listings.get(name)
        topics = dict.fromkeys((*cluster.named, *(listing.topics if listing else ())))
        known, instants = state.instants(name), dict[str, list[int]]()
        for topic in (topic for topic in topics if (name, topic) not in self._said):
            own = slices if topic in cluster.named else wanted(state, name, topic, slices)
            missing = state.missing(own, name, topic)
            behind = state.behind(name, topic, missing, known)
            if topic not in cluster.named:
                behind = {at for at in behind if not state.passes(name, topic, at)}
            if at := sorted({*missing, *behind}):
                instants[topic] = at
        return instants

    def _to_list(self, state: Boundaries, cluster: Cluster) -> bool:
        asked = cluster.cluster in self.failed or cluster.cluster in self._listings
        return not asked and bool(unlisted(state, cluster, begun(cluster, self._slices)))

    def _ask_cluster(self, cluster: Cluster, state: Boundaries) -> None:
        try:
            with self._topics_of(cluster) as reader:
                if self._to_list(state, cluster):
                    self._listings[cluster.cluster] = list_topics(reader, cluster, state)
                for topic, instants in self._missing(state, cluster).items():
                    self._ask_topic(reader, cluster, topic, instants, state)
        except SluiceError as error:
            self.failed.setdefault(cluster.cluster, error)

    def _ask_matching(
        self, reader: TopicReader, cluster: str, topic: str, instants: Sequence[int], state: Boundaries
    ) -> TopicAnswers:
        """Asks for a topic that a pattern names, which may have gone while a slice was resolved, and come
        again."""
        stored = state.stored(cluster, topic)
        since = state.gone_since(cluster, topic)
        again = since is not None and stored is not None and reader.describe(topic).uuid != stored.uuid
        if not again or since is None:
            runs = {at: state.standstill(cluster, topic, at) for at in instants}
            firsts = sorted({first for first, _ in runs.values()})
            said = ask(reader, cluster, topic, firsts, stored, self._now)
            return replace(said, answers=with_standstills(said.answers, runs, stored))
        later = [since, *(at for at in instants if at > since)]
        said = ask(reader, cluster, topic, later, None, self._now)
        self._accepted[cluster, topic] = Era(said.answers.uuid, since)
        return replace(said, answers=from_log_start(said.answers))

    def _ask_topic(
        self, reader: TopicReader, of: Cluster, topic: str, instants: Sequence[int], state: Boundaries
    ) -> None:
        cluster = of.cluster
        try:
            if topic in of.named:
                topic_answers = ask(reader, cluster, topic, instants, state.stored(cluster, topic), self._now)
            else:
                topic_answers = self._ask_matching(reader, cluster, topic, instants, state)
            contradiction = _contradiction(state, topic_answers.answers)
            if contradiction is not None and (cluster, topic) not in self._accepted:
                raise contradiction
        except KafkaUnavailable:
            raise
        except UnknownTopic as error:
            if topic not in of.named:  # it has gone since it was listed
                self._listings[cluster] = self._listings[cluster].without(topic)
                return
            self.failed.setdefault(cluster, error)
            return
        except SluiceError as error:  # this topic's own trouble: the cluster's others go on
            if isinstance(error, TopicRecreated):
                error.accept = accept_command(self._pipeline, state, cluster, topic, self._now)
            self.failed.setdefault(cluster, error)
            return
        self._said[cluster, topic] = self._from_group(reader, of, topic_answers.answers, state)
        self.future += topic_answers.future
        self.held += topic_answers.held

    def _from_group(
        self, reader: TopicReader, cluster: Cluster, answers: Answers, state: Boundaries
    ) -> Answers:
        """Returns the answers with what a consumer group has committed. Once the topic's first boundary says
        that, it holds whatever the file says, and the group is asked no more. A topic that comes to match
        a pattern later is none that the group has read."""
        name, topic = cluster.cluster, answers.topic
        stored = state.stored(name, topic)
        if (name, topic) in self._accepted:
            return answers
        if stored is not None:
            return replace(answers, taken_over=taken_over(stored))
        group, later = self._pipeline.group_of(cluster), state.begin(name) is not None
        if group is None or (later and topic not in cluster.named):
            return answers
        return replace(answers, taken_over=reader.committed(group, topic))


def taken_over(stored: TopicBoundaries) -> dict[int, int]:
    """Returns by partition the offset at which a consumer group was taken over."""
    rows = len(stored.instants)
    first = {partition: column[0] for partition, column in stored.columns.items() if rows}
    return {p: one.offset for p, one in first.items() if one.found_by is FoundBy.GROUP}


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
        named = pipeline.cluster(cluster).named
        topics = {u: topics_of_unit(pipeline, u, (landed or {}).get(u), boundaries) for u in cluster_units}
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
