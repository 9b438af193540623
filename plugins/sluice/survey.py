"""Looks at the lake, ClickHouse and (for a plan) Kafka, and says the state of each unit of a range."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pendulum

from sluice.boundaries.log import BoundaryLog
from sluice.boundaries.model import Boundaries
from sluice.clickhouse.connect import connect
from sluice.errors import Busy
from sluice.lake.base import Lake
from sluice.lake.open import open_lake
from sluice.lake.overlay import Overlay
from sluice.load.counts import held_of
from sluice.load.inspect import read_table
from sluice.load.ledger import committed
from sluice.manifests import read_manifests
from sluice.pipeline import Pipeline
from sluice.resolve import resolve, retained_losses
from sluice.slices import SliceRange, Unit
from sluice.status import UnitStatus, statuses, units_of
from sluice.verify import Finding, check

_SIDE_BY_SIDE = 16
_LOOKS = 5


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


def audit(pipeline: Pipeline, slices: SliceRange) -> tuple[list[UnitStatus], list[Finding]]:
    """Every broken equation of the range, from the stored files and the tables themselves.

    Somebody may land or load between two looks: what is broken counts only if the ledger and the manifests
    are the same before and after. Raises Busy when they never stand still.
    """
    found = survey(pipeline, slices)
    for _ in range(_LOOKS):
        findings = _findings(pipeline, slices, found)
        if not findings or found == (found := survey(pipeline, slices)):
            return found, findings
    raise Busy(f"{pipeline.name} {slices} is being landed or loaded: verify it when that is done")


def _findings(pipeline: Pipeline, slices: SliceRange, found: list[UnitStatus]) -> list[Finding]:
    lake = open_lake(pipeline)
    keys = [f.key for s in found if s.manifest for f in (*s.manifest.files, *s.manifest.rejected)]
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        sizes = dict(zip(keys, pool.map(lake.size, keys), strict=True))
    with connect(pipeline) as client:
        held = {t.table: held_of(client, pipeline, t, slices) for t in pipeline.targets}
        tables = [read_table(client, t.database, t.name) for t in pipeline.targets]
    expiring = {table.table for table in tables if table is not None and table.ttl}
    return check(pipeline, found, held, sizes, expiring)


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
