"""Reads what a step's event says beyond its names, after the step and beside the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import connect_replicas
from sluice.clients.clickhouse.tables import Column
from sluice.config.pipeline import Pipeline
from sluice.flow.lineage.describe import NOTHING, StepFacts
from sluice.flow.lineage.places import Places
from sluice.manifest import STAMP, OffsetRange
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.manifests import read_manifests
from sluice.state.units import units_of


def read_facts(
    step: str, given: Mapping[str, Any], result: Any, places: Places, started: datetime
) -> StepFacts:
    """`given` are the arguments of the step's function, `result` is what it returned, `started` in UTC.

    Raises what lake and ClickHouse raise.
    """
    pipeline, slices = given["pipeline"], given["slices"]
    if step == "resolve":
        return StepFacts(ranges=_resolved(pipeline, slices, places))
    if step == "land":
        units = units_of(pipeline, slices, BoundaryLog(places.opened).read())
        found = read_manifests(
            places.opened, [u for u in units if given.get("cluster", "") in ("", u.cluster)]
        )
        since = started.strftime(STAMP)
        return StepFacts(manifests=[one for one in found.values() if one.landed_at >= since])
    if step == "load":
        return StepFacts(rows=result["rows"], columns=_columns(given["table"], places))
    if step == "verify":
        return StepFacts(manifests=[status.manifest for status in result if status.manifest])
    return NOTHING


def _resolved(pipeline: Pipeline, slices: SliceRange, places: Places) -> dict[str, list[OffsetRange]]:
    boundaries = BoundaryLog(places.opened).read()
    found: dict[str, list[OffsetRange]] = {}
    for cluster in pipeline.kafka:
        for topic in cluster.topics:
            parts = (boundaries.ranges(slice_, cluster.cluster, [topic]) for slice_ in slices)
            found.setdefault(cluster.cluster, []).extend(r for part in parts if part for r in part)
    return found


def _columns(table: str, places: Places) -> Sequence[Column]:
    database, name = table.split(".")
    with connect_replicas(places.first) as clients:
        found = read_table(clients[0], database, name)
    return found.columns if found else ()
