"""How far a pipeline is behind Kafka, by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from sluice.clients.kafka.reader import TopicOffsets, TopicReader, TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.plan.backlog import backlog_of, hours_until, unlanded
from sluice.slices import SliceRange, floor, utc
from sluice.state.boundaries.model import Boundaries
from sluice.state.lag_history import LagSample
from sluice.state.month_store import read_summaries
from sluice.state.status import UnitStatus

LONGEST = timedelta(days=5 * 366)


@dataclass(frozen=True)
class PartitionLag:
    """`records` in Kafka that are not landed, of which `held` wait behind an open transaction; `seconds`
    since the end of the newest landed slice. `log_end` is the last stable offset. `gone` offsets were deleted
    by Kafka before they had landed."""

    cluster: str
    topic: str
    partition: int
    landed_until: int | None
    log_start: int
    log_end: int
    records: int
    seconds: int | None
    rate: float
    held: int = 0
    gone: int = 0


@dataclass(frozen=True)
class Lag:
    at: str
    partitions: list[PartitionLag]
    errors: list[str]

    def sample(self, now: datetime) -> LagSample | None:
        """Returns the sample that is stored; None where a cluster did not answer, because its records are
        unknown."""
        if self.errors or not self.partitions:
            return None
        ages = [p.seconds for p in self.partitions if p.records and p.seconds is not None]
        return LagSample(
            at=int(now.timestamp()),
            records=sum(p.records for p in self.partitions),
            held=sum(p.held for p in self.partitions),
            seconds=max(ages, default=None),
        )


@dataclass(frozen=True)
class TopicNow:
    """A topic as Kafka describes it; `held`: by partition the offsets behind an open transaction."""

    state: TopicOffsets
    held: Mapping[int, int] = field(default_factory=dict)


TopicsNow = Mapping[tuple[str, str], TopicNow]
OffsetSpans = Sequence[tuple[int, int]]
"""Offsets `[from, until)` of one partition."""
Unlanded = Mapping[tuple[str, str, int], OffsetSpans]
"""By (cluster, topic, partition)."""


def ask_topics(pipeline: Pipeline, topics_of: TopicsOf = open_topics) -> tuple[TopicsNow, list[str]]:
    """Returns every topic as Kafka describes it now, and a line for each cluster that did not answer."""
    with ThreadPoolExecutor(len(pipeline.kafka)) as pool:
        answers = list(pool.map(lambda cluster: _ask(cluster, topics_of), pipeline.kafka))
    topics = {name: state for answer, _ in answers for name, state in answer.items()}
    return topics, [error for _, error in answers if error]


def _ask(cluster: Cluster, topics_of: TopicsOf) -> tuple[TopicsNow, str]:
    try:
        with topics_of(cluster) as reader:
            return {(cluster.cluster, topic): _now(reader, topic) for topic in cluster.topics}, ""
    except SluiceError as error:
        return {}, str(error)


def _now(reader: TopicReader, topic: str) -> TopicNow:
    """Asks for the last stable offset after the log's end: only offsets that it has not passed then are
    held."""
    highest = reader.high_watermarks(topic, reader.describe(topic).ends)
    state = reader.describe(topic)
    return TopicNow(state, state.held(highest))


def lag_of(
    statuses: Sequence[UnitStatus],
    topics: TopicsNow,
    errors: list[str],
    now: datetime,
    older: Unlanded = MappingProxyType({}),
) -> Lag:
    """Computes the lag from the landed slices in `statuses`, which are the newest, and the unlanded offsets
    before these (`older`).

    The rate is that of the landed slices, records a second; a partition in which nothing is landed counts
    from its log start.
    """
    landed, between = _landed(statuses), _between(statuses)
    rows = []
    for (cluster, topic), topic_now in sorted(topics.items()):
        for number, end in sorted(topic_now.state.ends.items()):
            name = (cluster, topic, number)
            until, at, rate = landed.get(name, (None, None, 0.0))
            begin, held = topic_now.state.log_starts[number], topic_now.held.get(number, 0)
            tail = (begin if until is None else until, end)
            spans = [*older.get(name, ()), *between.get(name, ()), tail]
            rows.append(
                PartitionLag(
                    cluster=cluster,
                    topic=topic,
                    partition=number,
                    landed_until=until,
                    log_start=begin,
                    log_end=end,
                    records=covered(spans, begin, end) + held,
                    held=held,
                    seconds=None if at is None else int((now - at).total_seconds()),
                    rate=rate,
                    gone=covered(spans, 0, begin),
                )
            )
    return Lag(at=utc(now).isoformat(timespec="seconds"), partitions=rows, errors=errors)


def older_unlanded(pipeline: Pipeline, lake: Lake, until: datetime, boundaries: Boundaries) -> Unlanded:
    """Returns the unlanded offsets of the five years before `until`; older ones are not counted."""
    hours = hours_until(pipeline, boundaries, until)
    if hours is None:
        return {}
    first = max(hours.start, floor(until - LONGEST, pipeline.slice))
    recent = SliceRange(first, hours.end, pipeline.slice)
    return unlanded(backlog_of(pipeline, boundaries, recent, read_summaries(lake, recent)), boundaries)


def offsets_only(status: UnitStatus) -> UnitStatus:
    """Returns the status without the files, which are most of a manifest: the lag depends on offsets
    alone."""
    manifest = status.manifest
    if manifest is None:
        return status
    slim = replace(manifest, files=(), rejected=(), counts=(), traffic=())
    return replace(status, manifest=slim, tables={})


def covered(spans: Iterable[tuple[int, int]], begin: int, end: int) -> int:
    """Returns how many offsets of `[begin, end)` lie in at least one of the spans."""
    total, reached = 0, begin
    for start, until in sorted(spans):
        first, last = max(start, reached), min(until, end)
        total += max(last - first, 0)
        reached = max(reached, last)
    return total


def _between(statuses: Iterable[UnitStatus]) -> Unlanded:
    """Returns the offsets before and between the landed slices, from the first one that is known."""
    reached: dict[tuple[str, str, int], int] = {}
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for status in sorted(statuses, key=lambda s: s.unit):
        manifest = status.manifest
        for r in manifest.ranges if manifest else status.ranges or ():
            name = (status.unit.cluster, r.topic, r.partition)
            before = reached.setdefault(name, r.start)
            if manifest is not None:
                spans.setdefault(name, []).append((before, r.start))
                reached[name] = max(r.until, before)
    return spans


def _landed(statuses: Iterable[UnitStatus]) -> dict[tuple[str, str, int], tuple[int, datetime, float]]:
    """By (cluster, topic, partition): the newest landed offset, its slice's end, and the rate so far."""
    first: dict[tuple[str, str, int], tuple[int, datetime]] = {}
    last: dict[tuple[str, str, int], tuple[int, datetime]] = {}
    for status in sorted((s for s in statuses if s.manifest), key=lambda s: s.unit):
        for r in status.manifest.ranges if status.manifest else ():
            name = (status.unit.cluster, r.topic, r.partition)
            first.setdefault(name, (r.start, status.unit.slice.start))
            last[name] = (r.until, status.unit.slice.end)
    return {name: (*end, _rate(first[name], end)) for name, end in last.items()}


def _rate(first: tuple[int, datetime], last: tuple[int, datetime]) -> float:
    return round((last[0] - first[0]) / (last[1] - first[1]).total_seconds(), 3)
