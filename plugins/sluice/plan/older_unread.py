"""What no landed slice has of older hours, by the monthly summaries: years of hours cost a few objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.plan.backlog import Backlog, backlog_of, unlanded
from sluice.slices import Slice, SliceRange, Unit, floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.month_store import read_summaries
from sluice.state.months import Summaries

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
    starts = (pipeline.start, cluster.start if cluster else None)
    return any(start is not None and unit.slice.start < start for start in starts)


def _landed_without(
    pipeline: Pipeline, boundaries: Boundaries, hours: SliceRange, noted: Summaries
) -> SpansByPartition:
    """Returns the offsets of hours that have landed without a topic that the pipeline reads now."""
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    topics = {cluster.cluster: frozenset(cluster.topics) for cluster in pipeline.kafka}
    for slice_id, units in sorted(noted.all()):
        for cluster, unit in units.items():
            lacking = topics.get(cluster, frozenset()).difference(unit.topics) if unit.topics else ()
            slice_ = Slice.from_id(slice_id, pipeline.slice) if lacking else None
            if slice_ is None or not hours.start <= slice_.start < hours.end:
                continue
            for topic in lacking:
                for r in boundaries.ranges(slice_, cluster, [topic]) or ():
                    if r.uuid == boundaries.uuid(cluster, topic):
                        spans.setdefault((cluster, topic, r.partition), []).append((r.start, r.until))
    return spans
