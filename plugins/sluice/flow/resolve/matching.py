"""Which topics a slice of a pattern has, and where a topic begins that came after slices were resolved.

A slice that was resolved while a pattern named a topic, and the topic was not there, stays without it. So
the instants on both sides of such a slice are one for the topic: what it has of that time is in the next
slice that has it. A topic that comes back as another one begins at its log start, behind the last slice
without it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pendulum

from sluice.clients.kafka.topic_facts import TopicReader
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import NoTopicMatches
from sluice.flow.resolve.clamp import Answers, PartitionAnswers
from sluice.slices import Slice
from sluice.state.boundaries.boundary import FoundBy, TopicBoundaries
from sluice.state.boundaries.model import Boundaries
from sluice.state.units import known_topics
from sluice.topic_patterns import TopicPatterns

Run = tuple[int, int]
"""The first and the last of the instants that are one for a topic."""


@dataclass(frozen=True)
class Listing:
    """The topics of a cluster that match now. `beside`: what had been listed of the cluster when it was
    asked."""

    topics: tuple[str, ...]
    beside: Mapping[TopicPatterns, frozenset[int]] | None

    def without(self, topic: str) -> Listing:
        return replace(self, topics=tuple(one for one in self.topics if one != topic))


def list_topics(reader: TopicReader, cluster: Cluster, state: Boundaries) -> Listing:
    """Raises NoTopicMatches where the cluster would be read without any topic."""
    matching = cluster.patterns.matching(reader.names()) if cluster.patterns else ()
    if not matching and not cluster.named:
        raise NoTopicMatches(cluster.cluster, str(cluster.patterns))
    return Listing(matching, state.listed.get(cluster.cluster))


def unlisted(state: Boundaries, cluster: Cluster, slices: Iterable[Slice]) -> frozenset[int]:
    """Returns the starts of those slices that were not resolved by the patterns of the pipeline file."""
    if cluster.patterns is None:
        return frozenset()
    starts = (int(slice_.start.timestamp()) for slice_ in slices)
    return frozenset(at for at in starts if not state.lists(cluster.cluster, at, cluster.patterns))


def wanted(state: Boundaries, cluster: str, topic: str, slices: Iterable[Slice]) -> list[Slice]:
    """Returns those of the slices that do not stay without the topic."""
    return [s for s in slices if not state.stays_without(cluster, topic, int(s.start.timestamp()))]


def with_standstills(answers: Answers, runs: Mapping[int, Run], stored: TopicBoundaries | None) -> Answers:
    """Returns the answers for the instants of `runs`, where Kafka was asked for the first of each run: one
    offset for all of a run, which is the stored one if there is one."""
    instants = sorted(runs)
    rows = [bisect_left(answers.instants, runs[at][0]) for at in instants]
    known = [_stored_row(stored, runs[at]) for at in instants]
    partitions = {
        number: _placed(number, said, rows, known, stored) for number, said in answers.partitions.items()
    }
    return replace(answers, instants=instants, partitions=partitions)


def _stored_row(stored: TopicBoundaries | None, run: Run) -> int | None:
    first, last = run
    if stored is None or first == last:
        return None
    row = bisect_left(stored.instants, first)
    return row if row < len(stored.instants) and stored.instants[row] <= last else None


def _placed(
    number: int,
    said: PartitionAnswers,
    rows: Sequence[int],
    known: Sequence[int | None],
    stored: TopicBoundaries | None,
) -> PartitionAnswers:
    column = stored.columns.get(number) if stored is not None else None
    offsets, found_by = [], []
    for row, at in zip(rows, known, strict=True):
        if at is None:
            offsets.append(said.offsets[row])
            found_by.append(said.found_by[row])
        else:
            offsets.append(said.log_start if column is None else column.offset(at))
            found_by.append(FoundBy.CLAMPED)
    return replace(said, offsets=offsets, found_by=found_by)


def from_log_start(answers: Answers) -> Answers:
    """Returns the answers with each partition's log start at the first instant."""
    partitions = {
        number: replace(
            said,
            offsets=[said.log_start, *said.offsets[1:]],
            found_by=[FoundBy.LOG_START, *said.found_by[1:]],
        )
        for number, said in answers.partitions.items()
    }
    return replace(answers, partitions=partitions)


# What is said of topics that come and go.
MOST_NAMES = 20


@dataclass(frozen=True)
class TopicChange:
    """Topics that a pattern has come to name, or that are gone, from the slice at `at` on."""

    cluster: str
    topics: tuple[str, ...]
    at: pendulum.DateTime
    gone: bool

    def __str__(self) -> str:
        names, more = ", ".join(self.topics[:MOST_NAMES]), len(self.topics) - MOST_NAMES
        listed = f"{names} and {more:,} more" if more > 0 else names
        since = f"{self.at:%Y-%m-%dT%H:%MZ}"
        if self.gone:
            return (
                f"{self.cluster}: topics that are gone: {listed}; slices from {since} on are without them, "
                "and what came into them after their last boundary is lost"
            )
        return f"{self.cluster}: new topics that match: {listed}; slices from {since} on have them"


def topic_changes(pipeline: Pipeline, before: Boundaries, after: Boundaries) -> tuple[TopicChange, ...]:
    """Returns what the newest slice of each cluster with patterns has and had not, and the other way round.
    Of the first slice that was ever resolved by a pattern nothing is said."""
    changes: list[TopicChange] = []
    for cluster in pipeline.kafka:
        old, new = before.newest_listed(cluster.cluster), after.newest_listed(cluster.cluster)
        if old is None or new is None or old == new:
            continue
        had, has = set(known_topics(cluster, before)), set(known_topics(cluster, after))
        at = pendulum.from_timestamp(new)
        for topics, gone in ((has - had, False), (had - has, True)):
            if topics:
                changes.append(TopicChange(cluster.cluster, tuple(sorted(topics)), at, gone))
    return tuple(changes)
