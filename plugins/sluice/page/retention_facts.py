"""Reads what retention's clock needs: the oldest unlanded hours by the lake, and their topics by Kafka.

`oldest_unlanded` says which hours are looked up; of at most `MOST_TOPICS` topics settings and one record a
partition are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sluice.clients.kafka.topic_facts import open_inquiry
from sluice.clients.lake.base import Lake
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.choose_backlog import ask_oldest, backlog_before
from sluice.flow.forget.forget import keep_since
from sluice.page.pipeline_models import Keeping, NextForgotten
from sluice.page.retention import MOST_TOPICS, RetentionFacts
from sluice.plan.due import KeepEdges, begins, due_slices, known_until
from sluice.slices import Slice, SliceRange, floor, iso
from sluice.state.boundaries.model import Boundaries
from sluice.state.file_versions import read_versions
from sluice.state.months import read_summaries
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState
from sluice.watch.problems import AlarmStore
from sluice.watch.retention import FactsByTopic

MOST_UNITS = 24


def read_retention(pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime) -> RetentionFacts:
    """Reads the facts, and stores nothing; `boundaries` are the stored ones. Raises what the lake raises."""
    until = floor(now, pipeline.slice)
    backlog = backlog_before(pipeline, lake, until, boundaries)
    inquiry = ask_oldest(pipeline, lake, backlog, SliceRange(until, until, pipeline.slice), now)
    silent = dict(inquiry.mute)
    topics = _topics(pipeline, silent)
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


def _topics(pipeline: Pipeline, silent: dict[str, str]) -> FactsByTopic:
    """Reads the topics. Notes in `silent` the error of each cluster that does not answer now."""
    topics: FactsByTopic = {}
    for cluster in (one for one in pipeline.kafka if one.cluster not in silent):
        try:
            topics = {**topics, **_topics_of(cluster, MOST_TOPICS - len(topics))}
        except SluiceError as error:
            silent[cluster.cluster] = str(error)
    return topics


def _topics_of(cluster: Cluster, most: int) -> FactsByTopic:
    topics = list(dict.fromkeys(cluster.topics))[:most]
    with open_inquiry(cluster) as inquiry:
        return {(cluster.cluster, topic): inquiry.facts(topic) for topic in topics}


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
        following += _next(pipeline, lake, boundaries, now, "unparsed records", edges, keep.rejected)
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
    at = max(slice_.end + age, begins(keep_since(pipeline.keep, read_versions(lake)), now))
    return [NextForgotten(what=what, slice=slice_.id, at=iso(at))]


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
