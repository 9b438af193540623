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
    step: str, arguments: Mapping[str, Any], result: Any, places: Places, started: datetime
) -> StepFacts:
    """`arguments` are those of the step's function, `result` is what it returned, `started` in UTC.

    Raises what lake and ClickHouse raise.
    """
    pipeline, slices = arguments["pipeline"], arguments["slices"]
    if step == "resolve":
        return StepFacts(ranges=_resolved(pipeline, slices, places))
    if step == "land":
        units = units_of(pipeline, slices, BoundaryLog(places.opened).read())
        manifests = read_manifests(
            places.opened, [u for u in units if arguments.get("cluster", "") in ("", u.cluster)]
        )
        since = started.strftime(STAMP)
        return StepFacts(
            manifests=[manifest for manifest in manifests.values() if manifest.landed_at >= since]
        )
    if step == "load":
        return StepFacts(rows=result["rows"], columns=_columns(arguments["table"], places))
    if step == "verify":
        return StepFacts(manifests=[status.manifest for status in result if status.manifest])
    return NOTHING


def _resolved(pipeline: Pipeline, slices: SliceRange, places: Places) -> dict[str, list[OffsetRange]]:
    boundaries = BoundaryLog(places.opened).read()
    ranges: dict[str, list[OffsetRange]] = {}
    for cluster in pipeline.kafka:
        for topic in cluster.topics:
            parts = (boundaries.ranges(slice_, cluster.cluster, [topic]) for slice_ in slices)
            ranges.setdefault(cluster.cluster, []).extend(r for part in parts if part for r in part)
    return ranges


def _columns(table: str, places: Places) -> Sequence[Column]:
    database, name = table.split(".")
    with connect_replicas(places.first) as clients:
        target_table = read_table(clients[0], database, name)
    return target_table.columns if target_table else ()
