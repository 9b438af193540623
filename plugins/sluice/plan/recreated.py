"""Topics that were deleted and made again: nothing is read of them before `sluice accept`. Pure."""

from __future__ import annotations

from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.errors import TopicRecreated
from sluice.plan.lag import TopicsNow
from sluice.state.boundaries.accept_command import accept_command
from sluice.state.boundaries.model import Boundaries


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
