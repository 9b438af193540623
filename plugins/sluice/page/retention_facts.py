"""Reads what retention's clock needs: the oldest unlanded hours by the lake, and their topics by Kafka.

`oldest_unlanded` says which hours are looked up; of at most `MOST_TOPICS` topics settings and one record a
partition are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sluice.clients.kafka.topic_facts import open_inquiry
from sluice.clients.lake.base import Lake
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.choose_backlog import backlog_before
from sluice.flow.oldest_unlanded import ask_oldest
from sluice.page.retention import MOST_TOPICS, RetentionFacts
from sluice.slices import SliceRange, floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState
from sluice.watch.retention import FactsByTopic
from sluice.watch.store import AlarmStore

MOST_UNITS = 24


def read_retention(pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime) -> RetentionFacts:
    """`boundaries` are the stored ones; nothing is stored. Raises what the lake raises."""
    until = floor(now, pipeline.slice)
    backlog = backlog_before(pipeline, lake, until, boundaries)
    asked = ask_oldest(pipeline, lake, backlog, SliceRange(until, until, pipeline.slice), now)
    silent = dict(asked.mute)
    topics = _topics(pipeline, silent)
    found = statuses(pipeline, asked.oldest, asked.boundaries, {}, {}, now, asked.lost)
    waiting = sum(state is UnitState.MISSING for state in backlog.states.values()) - len(asked.landed)
    shown = _shown(found, MOST_UNITS * len(pipeline.clusters))
    return RetentionFacts(waiting, shown, topics, AlarmStore(lake).read().log_starts, list(silent.values()))


def _shown(found: Sequence[UnitStatus], most: int) -> list[UnitStatus]:
    """Returns the first of those that Kafka still has, and of those that are empty or that it has lost."""
    parts: dict[bool, list[UnitStatus]] = {True: [], False: []}
    for status in found:
        parts[status.state is not UnitState.EXPIRED and status.offsets > 0].append(status)
    return [*parts[False][:most], *parts[True][:most]]


def _topics(pipeline: Pipeline, silent: dict[str, str]) -> FactsByTopic:
    """Notes in `silent` the error of each cluster that does not answer now."""
    found: FactsByTopic = {}
    for cluster in (one for one in pipeline.kafka if one.cluster not in silent):
        try:
            found = {**found, **_topics_of(cluster, MOST_TOPICS - len(found))}
        except SluiceError as error:
            silent[cluster.cluster] = str(error)
    return found


def _topics_of(cluster: Cluster, most: int) -> FactsByTopic:
    topics = list(dict.fromkeys(cluster.topics))[:most]
    with open_inquiry(cluster) as inquiry:
        return {(cluster.cluster, topic): inquiry.facts(topic) for topic in topics}
