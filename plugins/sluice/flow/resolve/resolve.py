"""Resolves boundaries: asks Kafka for what is missing, clamps, and stores it all as one log entry.

A boundary is resolved once and never changes. Resolvers may run side by side: who loses the race for an
entry reads the winner's, clamps again to it, and takes the next.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pendulum

from sluice import crash_points
from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake, Objects
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Resolve
from sluice.errors import EndInFuture, SluiceError, WrongUse
from sluice.flow.resolve.clamp import Answers, PartitionAnswers, boundaries_to_store
from sluice.flow.resolve.lookup import FutureStamped, WaitingOffsets
from sluice.flow.resolve.query import Inquiry
from sluice.slices import Slice, SliceRange, Unit, floor, utc
from sluice.state.boundaries.boundary import FoundBy
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, Era, LogEntry
from sluice.state.manifests import read_manifests
from sluice.state.units import refuse_other_length


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

    Raises EndInFuture when a slice is not over at `now`, SliceLengthFixed when the pipeline's boundaries
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
