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
