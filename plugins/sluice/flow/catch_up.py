"""Lands and loads what is missing of one cluster of several, alone, after the others are done."""

from __future__ import annotations

from functools import partial
from typing import Any

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics, probe_cluster
from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline
from sluice.flow import steps
from sluice.flow.batch_loop import LandBatch, one_by_one, run_work
from sluice.flow.verify.current import narrowed
from sluice.plan.plan import Waiting, waiting, work_of
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

    `land` lands a batch of this cluster only, or raises. `tables`: only these are loaded.
    Does nothing where nothing is missing. Raises ClusterWaits when the cluster cannot be read, and what the
    steps raise.
    """
    still_waiting = left_of(pipeline, cluster, slices, mode, token)
    if still_waiting is None:
        say(f"cluster {cluster}: nothing is missing of {slices}")
        return []
    cause = probe_cluster(pipeline.cluster(cluster), topics_of)
    if cause is not None:
        raise still_waiting.error(pipeline, cause, mode)
    say(f"{still_waiting}; the cluster answers: catching up")
    alone = pipeline.model_copy(update={"kafka": [pipeline.cluster(cluster)]})
    steps.resolve_range(alone, still_waiting.slices)
    statuses = [s for s in survey_past(pipeline, still_waiting.slices) if s.unit.cluster == cluster]
    work, landings = work_of(narrowed(pipeline, statuses, tables), mode), partial(one_by_one, land)
    return run_work(pipeline, still_waiting.slices, work, mode, token, landings, say, tables).published


def left_of(pipeline: Pipeline, cluster: str, slices: SliceRange, mode: str, token: str) -> Waiting | None:
    """Returns what is not landed of the cluster's part of the slices."""
    by_cluster = waiting(pipeline, survey_past(pipeline, slices), mode, token)
    return next((one for one in by_cluster if one.cluster == cluster), None)
