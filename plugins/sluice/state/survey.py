"""Reads the lake, ClickHouse and (for a plan) Kafka, and returns the state of each unit of a range."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pendulum

from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.manifest import Loss
from sluice.slices import SliceRange, Unit
from sluice.state.additions import read_additions
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import UnitStatus, statuses
from sluice.state.units import units_of


def survey(pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
    """Returns the state of each unit from the lake and ClickHouse; Kafka is not asked."""
    lake = open_lake(pipeline)
    return survey_of(pipeline, slices, lake, BoundaryLog(lake).read())


def survey_past(pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
    """Surveys a range that a run has resolved: it is over, also where this clock is behind."""
    lake, now = open_lake(pipeline), max(pendulum.now("UTC"), slices.end)
    return survey_of(pipeline, slices, lake, BoundaryLog(lake).read(), now=now)


def survey_of(
    pipeline: Pipeline,
    slices: SliceRange,
    lake: Lake,
    boundaries: Boundaries,
    expired: Mapping[Unit, tuple[Loss, ...]] | None = None,
    now: datetime | None = None,
) -> list[UnitStatus]:
    """Surveys with boundaries that are known, and what Kafka has been seen to lack since."""
    units = units_of(pipeline, slices, boundaries)
    with connect_shards(pipeline) as servers:
        ledgers = ledgers_of(servers, pipeline, lake.url, slices)
    manifests = read_manifests(lake, units)
    facts = (pipeline, units, boundaries, manifests, ledgers, now or pendulum.now("UTC"), expired)
    return statuses(*facts, read_additions(lake))
