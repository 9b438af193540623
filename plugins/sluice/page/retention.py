"""Retention's clock: the oldest hours that have not landed, and when Kafka may delete them; and what the lake
itself forgets next.

`oldest_unlanded` says which hours are looked up; of at most `MOST_TOPICS` topics settings and one record a
partition are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.clients.kafka.topic_facts import TopicFacts, each_known, open_inquiry
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import SluiceError
from sluice.flow.choose_backlog import ask_oldest, backlog_before
from sluice.flow.forget import keep_since
from sluice.page.models import Model
from sluice.plan.due import KeepEdges, begins, due_slices, known_until
from sluice.slices import Slice, SliceRange, floor, from_ms, iso
from sluice.state.boundaries.model import Boundaries
from sluice.state.months import read_summaries
from sluice.state.notes import read_versions
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState
from sluice.state.units import known_topics
from sluice.watch.observe import FactsByTopic, threats
from sluice.watch.problems import AlarmStore, LogStart

MOST_UNITS = 24
MOST_TOPICS = 50


class Deletion(Model):
    """An hour that has not landed. `at`: when Kafka may delete its first record, by the setting or movement
    `by`, empty where nothing says so; `gone` records of it have been deleted already."""

    slice: str
    cluster: str
    place: str
    at: str
    by: str
    seconds: int | None
    records: int
    gone: int


class TopicRetention(Model):
    """`kept_seconds` and `kept_bytes` (of each partition) are the topic's settings, None: without a bound or
    not known. `oldest` is the time of the oldest record that is left."""

    cluster: str
    topic: str
    partitions: int
    kept_seconds: int | None
    kept_bytes: int | None
    oldest: str
    records: int


class NextForgotten(Model):
    """The slice of which the lake forgets `what` next, and when."""

    what: str
    slice: str
    at: str


class Keeping(Model):
    """What `keep` in the pipeline file says, in seconds; None: for ever."""

    lake_seconds: int | None
    rejected_seconds: int | None
    table_seconds: dict[str, int]
    following: list[NextForgotten]


class Retention(Model):
    """`hours` are the oldest `len(hours)` of `waiting` units that have not landed; `at` is when it was asked
    (answers are kept for a minute). `keep` is what the lake itself forgets."""

    at: str
    waiting: int
    hours: list[Deletion]
    topics: list[TopicRetention]
    errors: list[str]
    keep: Keeping | None = None


@dataclass(frozen=True)
class RetentionFacts:
    """`unlanded` are the oldest of the `waiting` units that have not landed; `log_starts` those that the
    watch has stored, `errors` a line for each cluster that did not answer."""

    waiting: int
    unlanded: Sequence[UnitStatus]
    topics: FactsByTopic
    log_starts: Mapping[str, LogStart]
    errors: Sequence[str]


def retention_of(facts: RetentionFacts, now: datetime) -> Retention:
    """Returns the clock: units that have lost records first, then those that Kafka deletes next."""
    ends = {threat.unit: threat for threat in threats(facts.unlanded, facts.topics, facts.log_starts, now)}
    hours = []
    for status in facts.unlanded:
        end = ends.get(str(status.unit))
        hours.append(
            Deletion(
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
                place=end.place if end else "",
                at=iso(end.at) if end else "",
                by=end.by if end else "",
                seconds=int((end.at - now).total_seconds()) if end else None,
                records=status.offsets,
                gone=gone_of(status, facts.topics),
            )
        )
    return Retention(
        at=iso(now),
        waiting=facts.waiting,
        hours=sorted(hours, key=_urgency),
        topics=[_topic(topic_facts) for _, topic_facts in sorted(facts.topics.items())[:MOST_TOPICS]],
        errors=list(facts.errors),
    )


def _urgency(hour: Deletion) -> tuple[bool, bool, str, str, str]:
    return not hour.gone, not hour.at, hour.at, hour.slice, hour.cluster


def gone_of(status: UnitStatus, topics: FactsByTopic) -> int:
    """Returns how many offsets of the unit are before the log's start."""
    total = 0
    for r in status.ranges or ():
        facts = topics.get((status.unit.cluster, r.topic))
        partition = facts.partitions.get(r.partition) if facts else None
        if partition is not None:
            total += max(min(partition.start, r.until) - r.start, 0)
    return total


def _topic(facts: TopicFacts) -> TopicRetention:
    kept_ms, size = _bound(facts, "retention.ms"), _bound(facts, "retention.bytes")
    return TopicRetention(
        cluster=facts.cluster,
        topic=facts.topic,
        partitions=len(facts.partitions),
        kept_seconds=None if kept_ms is None else kept_ms // 1000,
        kept_bytes=size,
        oldest=_oldest(partition.first_stamp for partition in facts.partitions.values()),
        records=sum(partition.records for partition in facts.partitions.values()),
    )


def _bound(facts: TopicFacts, setting: str) -> int | None:
    """Returns None for a setting without a bound, which is -1 in Kafka."""
    number = facts.number(setting)
    return None if number is None or number < 0 else number


def _oldest(stamps: Iterable[int | None]) -> str:
    known_stamps = [stamp for stamp in stamps if stamp is not None]
    return iso(from_ms(min(known_stamps))) if known_stamps else ""


def read_retention(pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime) -> RetentionFacts:
    """Reads the facts, and stores nothing; `boundaries` are the stored ones. Raises what the lake raises."""
    until = floor(now, pipeline.slice)
    backlog = backlog_before(pipeline, lake, until, boundaries)
    inquiry = ask_oldest(pipeline, lake, backlog, SliceRange(until, until, pipeline.slice), now)
    silent = dict(inquiry.mute)
    topics = _topics(pipeline, boundaries, silent)
    unlanded = statuses(pipeline, inquiry.oldest, inquiry.boundaries, {}, {}, now, inquiry.lost)
    waiting = sum(state is UnitState.MISSING for state in backlog.states.values()) - len(inquiry.landed)
    oldest = _shown(unlanded, MOST_UNITS * len(pipeline.clusters))
    return RetentionFacts(waiting, oldest, topics, AlarmStore(lake).read().log_starts, list(silent.values()))


def _shown(unlanded: Sequence[UnitStatus], most: int) -> list[UnitStatus]:
    """Returns the first `most` units that are empty or expired, then the first `most` that Kafka still
    has."""
    parts: dict[bool, list[UnitStatus]] = {True: [], False: []}
    for status in unlanded:
        parts[status.state is not UnitState.EXPIRED and status.offsets > 0].append(status)
    return [*parts[False][:most], *parts[True][:most]]


def _topics(pipeline: Pipeline, boundaries: Boundaries, silent: dict[str, str]) -> FactsByTopic:
    """Reads the topics. Notes in `silent` the error of each cluster that does not answer now."""
    topics: FactsByTopic = {}
    for cluster in (one for one in pipeline.kafka if one.cluster not in silent):
        try:
            known = known_topics(cluster, boundaries)[: MOST_TOPICS - len(topics)]
            topics = {**topics, **_topics_of(cluster, known)}
        except SluiceError as error:
            silent[cluster.cluster] = str(error)
    return topics


def _topics_of(cluster: Cluster, topics: Sequence[str]) -> FactsByTopic:
    with open_inquiry(cluster) as inquiry:
        facts = each_known(cluster, topics, inquiry.facts)
        return {(cluster.cluster, topic): found for topic, found in facts.items()}


# What the lake forgets next, for retention's card: by the months' summaries.
_YEAR = timedelta(days=366)


def read_keeping(pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime) -> Keeping | None:
    """Returns None where the pipeline file has no `keep`. Raises what the lake raises."""
    keep, following = pipeline.keep, list[NextForgotten]()
    if not keep.forgets and not keep.tables:
        return None
    if keep.lake is not None:
        following += _next(pipeline, lake, boundaries, now, "files", KeepEdges(now, None), keep.lake)
    if keep.rejected is not None:
        edges = KeepEdges(None, now)
        following += _next(pipeline, lake, boundaries, now, "rejected records", edges, keep.rejected)
    return Keeping(
        lake_seconds=_seconds(keep.lake),
        rejected_seconds=_seconds(keep.rejected_for),
        table_seconds={table: int(length.total_seconds()) for table, length in keep.tables.items()},
        following=following,
    )


def _next(
    pipeline: Pipeline,
    lake: Lake,
    boundaries: Boundaries,
    now: datetime,
    what: str,
    edges: KeepEdges,
    age: timedelta,
) -> list[NextForgotten]:
    """Returns the oldest slice of which the lake still holds such files, and when it forgets them. Hours that
    a table lacks are left out."""
    span = boundaries.span()
    hours = None if span is None else known_until(span[0], edges, pipeline.slice)
    if hours is None:
        return []
    slice_ = next(_due(pipeline, lake, hours, edges), None)
    if slice_ is None:
        return []
    return [NextForgotten(what=what, slice=slice_.id, at=_goes(pipeline, lake, slice_, age, now))]


def forgets_at(pipeline: Pipeline, lake: Lake, slice_: Slice, now: datetime) -> str:
    """Returns when the lake forgets the files of a slice that has landed; empty where it keeps them."""
    age = pipeline.keep.lake
    return "" if age is None else _goes(pipeline, lake, slice_, age, now)


def _goes(pipeline: Pipeline, lake: Lake, slice_: Slice, age: timedelta, now: datetime) -> str:
    return iso(max(slice_.end + age, begins(keep_since(pipeline.keep, read_versions(lake)), now)))


def _due(pipeline: Pipeline, lake: Lake, hours: SliceRange, edges: KeepEdges) -> Iterator[Slice]:
    """Yields the slices that still have such files, the oldest first. Reads a year at a time: a `keep` that
    is new finds files of any age."""
    start = hours.start
    while start < hours.end:
        end = min(hours.end, start + _YEAR)
        year = SliceRange.widen(start, end, pipeline.slice)
        yield from due_slices(pipeline, read_summaries(lake, year), edges)
        start = end


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else int(length.total_seconds())
