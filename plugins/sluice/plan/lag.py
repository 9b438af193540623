"""How far a pipeline is behind Kafka, by partition: one count, for command, page and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from sluice.clients.kafka.topic_facts import TopicOffsets, TopicReader, TopicsOf, each_known
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import SluiceError, TopicRecreated
from sluice.infer.values import far_instants
from sluice.plan.backlog import Backlog, backlog_of, unlanded
from sluice.slices import Slice, SliceRange, Unit, floor, to_ms, utc
from sluice.state.boundaries.boundary import TopicBoundaries
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.outside import accept_command
from sluice.state.months import Summaries, read_summaries
from sluice.state.notes import LagSample
from sluice.state.status import UnitStatus
from sluice.state.units import all_topics, known_topics, slice_topics

# What no landed slice has of older hours, by the monthly summaries: years of hours cost a few objects.
LONGEST = timedelta(days=5 * 366)

OffsetSpans = Sequence[tuple[int, int]]
"""Offsets `[from, until)` of one partition."""
SpansByPartition = Mapping[tuple[str, str, int], OffsetSpans]
"""By (cluster, topic, partition)."""


@dataclass(frozen=True)
class OlderUnread:
    """What is not read of the hours before those that were surveyed: hours that have not landed, and hours
    that have landed without a topic (`lacking`)."""

    unlanded: SpansByPartition = field(default_factory=dict)
    lacking: SpansByPartition = field(default_factory=dict)


NOTHING_OLDER = OlderUnread()


def older_unread(
    pipeline: Pipeline, lake: Lake, until: datetime, boundaries: Boundaries, backlog: Backlog | None = None
) -> OlderUnread:
    """Returns what is not read of the five years before `until`, from the first boundary on; older hours are
    not counted. `backlog`: what is known of it; without, what the summaries say. Hours before a `start` of
    the file count as well: that they are not asked for any more has landed nothing."""
    span = boundaries.span()
    if span is None or span[0] >= until:
        return OlderUnread()
    first = max(floor(span[0], pipeline.slice), floor(until - LONGEST, pipeline.slice))
    hours = SliceRange(first, floor(until, pipeline.slice), pipeline.slice)
    noted = read_summaries(lake, hours)
    states = dict(backlog_of(_without_starts(pipeline), boundaries, hours, noted).states)
    if backlog is not None:
        begun = {unit for unit in states if not _before_start(pipeline, unit)}
        states = {unit: state for unit, state in states.items() if unit not in begun} | dict(backlog.states)
    spans = unlanded(Backlog(states), boundaries)
    return OlderUnread(spans, _landed_without(pipeline, boundaries, hours, noted))


def _without_starts(pipeline: Pipeline) -> Pipeline:
    clusters = [cluster.model_copy(update={"start": None}) for cluster in pipeline.kafka]
    return pipeline.model_copy(update={"start": None, "kafka": clusters})


def _before_start(pipeline: Pipeline, unit: Unit) -> bool:
    cluster = pipeline.cluster(unit.cluster) if unit.cluster in pipeline.clusters else None
    starts = (pipeline.since, cluster.since if cluster else None)
    return any(start is not None and unit.slice.start < start for start in starts)


def _landed_without(
    pipeline: Pipeline, boundaries: Boundaries, hours: SliceRange, noted: Summaries
) -> SpansByPartition:
    """Returns the offsets of hours that have landed without a topic that the pipeline reads now."""
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    clusters = {cluster.cluster: cluster for cluster in pipeline.kafka}
    topics = {cluster: frozenset(all_topics(of, boundaries)) for cluster, of in clusters.items()}
    for slice_id, units in sorted(noted.all()):
        for cluster, unit in units.items():
            lacking = topics.get(cluster, frozenset()).difference(unit.topics) if unit.topics else ()
            slice_ = Slice.from_id(slice_id, pipeline.slice) if lacking else None
            if slice_ is None or not hours.start <= slice_.start < hours.end:
                continue
            lacking = frozenset(slice_topics(clusters[cluster], slice_, boundaries)).intersection(lacking)
            for topic in lacking:
                for r in boundaries.ranges(slice_, cluster, [topic]) or ():
                    if r.uuid == boundaries.uuid(cluster, topic):
                        spans.setdefault((cluster, topic, r.partition), []).append((r.start, r.until))
    return spans


@dataclass(frozen=True)
class PartitionLag:
    """`records` in Kafka that no landed slice has; `seconds` since the end of the newest landed slice.

    Of `records`, `held` wait behind an open transaction, and `lacking` are in hours that have landed without
    the topic: only `reland` brings them. `outside` counts what lies before the first boundary: no run of the
    hours since reads it, and it is not in `records`. `log_end` is the last stable offset. `gone` offsets were
    deleted by Kafka before they had landed.
    """

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
    lacking: int = 0
    outside: int = 0


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


def ask_topics(
    pipeline: Pipeline, boundaries: Boundaries, topics_of: TopicsOf = open_topics
) -> tuple[TopicsNow, list[str]]:
    """Returns every topic as Kafka describes it now, and a line for each cluster that did not answer."""
    with ThreadPoolExecutor(len(pipeline.kafka)) as pool:
        answers = list(pool.map(lambda cluster: _ask(cluster, boundaries, topics_of), pipeline.kafka))
    topics = {name: state for answer, _ in answers for name, state in answer.items()}
    return topics, [error for _, error in answers if error]


def _ask(cluster: Cluster, boundaries: Boundaries, topics_of: TopicsOf) -> tuple[TopicsNow, str]:
    try:
        with topics_of(cluster) as reader:
            found = each_known(cluster, known_topics(cluster, boundaries), partial(_now, reader))
            return {(cluster.cluster, topic): now for topic, now in found.items()}, ""
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
    boundaries: Boundaries,
    older: OlderUnread = NOTHING_OLDER,
) -> Lag:
    """Counts every offset that Kafka holds and that is in no landed slice.

    What has landed of the newest hours is what the manifests of `statuses` have of the topic as it is now;
    before them everything has landed from the first boundary on, but what `older` says. The rate is that of
    the newest landed slice, records a second.
    """
    newest, rows = _Newest.of(statuses, now), []
    for (cluster, topic), topic_now in sorted(topics.items()):
        stored = boundaries.stored(cluster, topic)
        same = stored if stored is not None and stored.uuid == topic_now.state.uuid else None
        names = [(cluster, topic, number) for number in sorted(topic_now.state.ends)]
        rows += [_partition(name, topic_now, same, newest, older, now) for name in names]
    return Lag(at=utc(now).isoformat(timespec="seconds"), partitions=rows, errors=errors)


def _partition(
    name: tuple[str, str, int],
    topic_now: TopicNow,
    stored: TopicBoundaries | None,
    newest: _Newest,
    older: OlderUnread,
    now: datetime,
) -> PartitionLag:
    cluster, topic, number = name
    begin, end = topic_now.state.log_starts[number], topic_now.state.ends[number]
    held = topic_now.held.get(number, 0)
    landed = newest.landed.get((*name, topic_now.state.uuid), [])
    unknown = min([begin, *(part.start for part in landed)])
    first, recent = _edges(stored, number, newest.since, unknown)
    lacking = _before(older.lacking, name, recent)
    spans = [*_before(older.unlanded, name, recent), *lacking, *_between(landed, recent, end)]
    return PartitionLag(
        cluster=cluster,
        topic=topic,
        partition=number,
        landed_until=landed[-1].until if landed else None,
        log_start=begin,
        log_end=end,
        records=covered(spans, begin, end) + held,
        held=held,
        seconds=int((now - landed[-1].slice.end).total_seconds()) if landed else None,
        rate=_rate(landed),
        gone=covered(spans, 0, begin),
        lacking=covered([*lacking, *newest.lacking.get((*name, topic_now.state.uuid), [])], begin, end),
        outside=covered([(begin, first)], begin, end),
    )


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


@dataclass(frozen=True)
class _LandedPart:
    """The offsets `[start, until)` that a landed slice has of a partition."""

    slice: Slice
    start: int
    until: int


_TopicPartition = tuple[str, str, int, str]
"""(cluster, topic, partition, topic id)."""


@dataclass(frozen=True)
class _Newest:
    """What is known exactly of the hours from `since` on: what has landed, in the order of the slices, and
    the offsets of topics that landed units lack."""

    since: datetime
    landed: Mapping[_TopicPartition, Sequence[_LandedPart]]
    lacking: Mapping[_TopicPartition, OffsetSpans]

    @classmethod
    def of(cls, statuses: Sequence[UnitStatus], now: datetime) -> _Newest:
        landed: dict[_TopicPartition, list[_LandedPart]] = {}
        lacking: dict[_TopicPartition, list[tuple[int, int]]] = {}
        for status in sorted(statuses, key=lambda s: s.unit):
            for r in status.manifest.ranges if status.manifest else ():
                part = _LandedPart(status.unit.slice, r.start, r.until)
                landed.setdefault((status.unit.cluster, r.topic, r.partition, r.uuid), []).append(part)
            topics = {topic.topic for topic in status.lacking}
            for r in (r for r in status.ranges or () if r.topic in topics):
                name = (status.unit.cluster, r.topic, r.partition, r.uuid)
                lacking.setdefault(name, []).append((r.start, r.until))
        return cls(min((status.unit.slice.start for status in statuses), default=now), landed, lacking)


def _edges(stored: TopicBoundaries | None, partition: int, since: datetime, unknown: int) -> tuple[int, int]:
    """Returns a partition's first boundary, and the last one at `since` or before; `unknown` for both where
    no boundary has the partition."""
    column = None if stored is None or not len(stored.instants) else stored.columns.get(partition)
    if stored is None or column is None:
        return unknown, unknown
    return column.offset(0), column.offset(stored.nearest(int(since.timestamp())))


def _before(spans: SpansByPartition, name: tuple[str, str, int], recent: int) -> list[tuple[int, int]]:
    return [(start, min(until, recent)) for start, until in spans.get(name, ()) if start < recent]


def _between(landed: Iterable[_LandedPart], begin: int, end: int) -> list[tuple[int, int]]:
    """Returns what has not landed."""
    spans, reached = [], begin
    for part in sorted(landed, key=lambda part: part.start):
        spans.append((reached, part.start))
        reached = max(reached, part.until)
    return [span for span in (*spans, (reached, end)) if span[0] < span[1]]


def _rate(parts: Sequence[_LandedPart]) -> float:
    """Returns records a second of the newest slice: the same, however many slices somebody looks at."""
    if not parts:
        return 0.0
    newest = parts[-1]
    return round((newest.until - newest.start) / newest.slice.length.total_seconds(), 3)


# Topics that were deleted and made again: nothing is read of them before `sluice accept`. Pure.
def recreated(
    pipeline: Pipeline, boundaries: Boundaries, topics: TopicsNow, now: datetime
) -> list[TopicRecreated]:
    """Returns what is to be said of each topic that has another id than its boundaries."""
    found = []
    for (cluster, topic), topic_now in sorted(topics.items()):
        known = boundaries.uuid(cluster, topic)
        if known not in (None, topic_now.state.uuid):
            accept = accept_command(pipeline, boundaries, cluster, topic, now)
            found.append(TopicRecreated(cluster, topic, str(known), topic_now.state.uuid, accept))
    return found


# Whether the rows that landed are all of event hours decades away: then the time's format is wrong. Pure.
def far_rows(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> str:
    """Says so; empty where some row is not, where none has landed, and where the time is no field."""
    landed = [status for status in statuses if status.manifest is not None and status.manifest.files]
    hours = sorted(
        {file.hour for status in landed for file in (status.manifest.files if status.manifest else ())}
    )
    if not hours or pipeline.event.time.record:
        return ""
    low, high = (
        to_ms(datetime.fromisoformat(f"{hour}:00").replace(tzinfo=UTC)) for hour in (hours[0], hours[-1])
    )
    return far_instants(
        pipeline.event.time, low, high, to_ms(max(status.unit.slice.end for status in landed))
    )
