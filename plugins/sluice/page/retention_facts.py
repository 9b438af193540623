"""Reads what retention's clock needs: the oldest unlanded hours by the lake, and their topics by Kafka.

Of each cluster boundaries of at most `MOST_UNITS` hours are looked up, and of at most `MOST_TOPICS` topics
settings and one record a partition.
"""

from __future__ import annotations

from datetime import datetime

from sluice.clients.kafka.topic_facts import open_inquiry
from sluice.clients.lake.base import Lake
from sluice.clients.lake.overlay import Overlay
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.choose_backlog import backlog_before
from sluice.flow.resolve.resolve import resolve
from sluice.page.retention import MOST_TOPICS, RetentionFacts
from sluice.slices import floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.status import statuses
from sluice.state.unit_state import UnitState
from sluice.watch.retention import FactsByTopic
from sluice.watch.store import AlarmStore

MOST_UNITS = 24


def read_retention(pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime) -> RetentionFacts:
    """`boundaries` are the stored ones; nothing is stored. Raises what the lake raises."""
    backlog = backlog_before(pipeline, lake, floor(now, pipeline.slice), boundaries)
    oldest = backlog.unlanded(MOST_UNITS)
    landed = read_manifests(lake, oldest)
    units = [unit for unit in oldest if unit not in landed and unit.cluster in pipeline.clusters]
    resolution = resolve(pipeline, Overlay(lake), sorted({unit.slice for unit in units}), now)
    silent: dict[str, str] = {name: str(error) for name, error in resolution.unreachable.items()}
    topics = _topics(pipeline, silent)
    found = statuses(pipeline, units, resolution.boundaries, {}, {}, now)
    waiting = sum(state is UnitState.MISSING for state in backlog.states.values()) - len(landed)
    return RetentionFacts(waiting, found, topics, AlarmStore(lake).read().log_starts, list(silent.values()))


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
