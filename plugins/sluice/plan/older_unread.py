"""What no landed slice has of older hours, by the monthly summaries: years of hours cost a few objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.plan.backlog import Backlog, backlog_of, hours_until, unlanded
from sluice.slices import Slice, SliceRange, floor
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
    """Returns what is not read of the five years before `until`; older hours are not counted. `backlog`: what
    is known of it; without, what the summaries say."""
    hours = hours_until(pipeline, boundaries, until)
    if hours is None:
        return OlderUnread()
    first = max(hours.start, floor(until - LONGEST, pipeline.slice))
    recent = SliceRange(first, hours.end, pipeline.slice)
    noted = read_summaries(lake, recent)
    open_units = backlog_of(pipeline, boundaries, recent, noted) if backlog is None else backlog
    return OlderUnread(unlanded(open_units, boundaries), _landed_without(pipeline, boundaries, recent, noted))


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
