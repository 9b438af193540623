"""Looks at the lake, ClickHouse and (for a plan) Kafka, and says the state of each unit of a range."""

from __future__ import annotations

import pendulum

from sluice.boundaries.log import BoundaryLog
from sluice.boundaries.model import Boundaries
from sluice.clickhouse.connect import connect
from sluice.lake.base import Lake
from sluice.lake.open import open_lake
from sluice.lake.overlay import Overlay
from sluice.load.ledger import committed
from sluice.manifests import read_manifests
from sluice.pipeline import Pipeline
from sluice.resolve import resolve, retained_losses
from sluice.slices import SliceRange, Unit
from sluice.status import UnitStatus, statuses, units_of


def survey(pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
    """The state of each unit from the lake and ClickHouse; Kafka is not asked."""
    lake = open_lake(pipeline)
    return _survey(pipeline, slices, lake, BoundaryLog(lake).read())


def preview(pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
    """As `survey`, with what resolving now would find and what Kafka no longer has; changes nothing."""
    lake = open_lake(pipeline)
    over = [piece for piece in slices if piece.end <= pendulum.now("UTC")]
    resolution = resolve(pipeline, Overlay(lake), over, pendulum.now("UTC"))
    for error in resolution.unreachable.values():
        raise error
    expired = retained_losses(pipeline, resolution.boundaries, units_of(pipeline, slices))
    return _survey(pipeline, slices, lake, resolution.boundaries, expired)


def _survey(
    pipeline: Pipeline,
    slices: SliceRange,
    lake: Lake,
    boundaries: Boundaries,
    expired: dict[Unit, tuple] | None = None,
) -> list[UnitStatus]:
    units = units_of(pipeline, slices)
    with connect(pipeline) as client:
        ledgers = {t.table: committed(client, pipeline, lake.url, t) for t in pipeline.targets}
    manifests = read_manifests(lake, units)
    return statuses(pipeline, units, boundaries, manifests, ledgers, pendulum.now("UTC"), expired)
