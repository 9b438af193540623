"""What is left of one cluster of several, once the others have done their part: tried again, alone."""

from __future__ import annotations

from functools import partial
from typing import Any

from sluice.clients.kafka.probe import probe_cluster
from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline
from sluice.flow import steps
from sluice.flow.batch_loop import LandBatch, one_by_one, run_work
from sluice.flow.verify.current import narrowed
from sluice.plan.plan import work_of
from sluice.plan.waiting import Waiting, waiting
from sluice.safe_text import Say
from sluice.slices import SliceRange
from sluice.state.survey import survey_past


def catch_up(
    pipeline: Pipeline,
    cluster: str,
    slices: SliceRange,
    mode: str,
    token: str,
    land: LandBatch,
    say: Say,
    topics_of: TopicsOf = open_topics,
    tables: Tables | None = None,
) -> list[dict[str, Any]]:
    """Brings what is not landed of the cluster, and returns what became available as `publish_range` does.

    `land` lands a batch of this cluster only, or raises. With a choice of `tables` nothing becomes available.
    Nothing is done when nothing is left. Raises ClusterWaits when the cluster cannot be read, and what the
    steps raise.
    """
    left = left_of(pipeline, cluster, slices, mode, token)
    if left is None:
        say(f"cluster {cluster}: nothing is missing of {slices}")
        return []
    cause = probe_cluster(pipeline.cluster(cluster), topics_of)
    if cause is not None:
        raise left.error(pipeline, cause, mode)
    say(f"{left}; the cluster answers: catching up")
    alone = pipeline.model_copy(update={"kafka": [pipeline.cluster(cluster)]})
    steps.resolve_range(alone, left.slices)
    found = [s for s in survey_past(pipeline, left.slices) if s.unit.cluster == cluster]
    work, landings = work_of(narrowed(pipeline, found, tables), mode), partial(one_by_one, land)
    return run_work(pipeline, left.slices, work, mode, token, landings, say, tables).published


def left_of(pipeline: Pipeline, cluster: str, slices: SliceRange, mode: str, token: str) -> Waiting | None:
    """Returns what is not landed of the cluster's part of the slices."""
    found = waiting(pipeline, survey_past(pipeline, slices), mode, token)
    return next((part for part in found if part.cluster == cluster), None)
