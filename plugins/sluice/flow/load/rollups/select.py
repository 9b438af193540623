"""The SELECT of one unit, and what its commit is called. Pure.

A unit's rows are derived from the source's rows of the unit and from nothing else of it, whatever else is in
the batch: so they are the same however often and in whatever batches they are made.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, table
from sluice.config.rollups import Rollup
from sluice.slices import Unit
from sluice.state.target_ddl import over


def of_unit(rollup: Rollup, unit: Unit) -> Sql:
    condition = f"_slice = {instant(unit)} AND _cluster = {literal(unit.cluster)}"
    return over(rollup, Sql(f"(SELECT * FROM {table(rollup.source)} WHERE {condition})"))  # noqa: S608 - quoted


def of_hour(rollup: Rollup, hour: Unit, units: Iterable[Unit]) -> Sql:
    """Selects one event hour, out of these units of the source, all of which are committed."""
    keys = [f"({instant(unit)}, {literal(unit.cluster)})" for unit in units]
    condition = f"(_slice, _cluster) IN ({listed(keys)})" if keys else "0"
    inside = f"{condition} AND toStartOfHour({identifier(rollup.time or '')}) = {instant(hour)}"
    return over(rollup, Sql(f"(SELECT * FROM {table(rollup.source)} WHERE {inside})"))  # noqa: S608 - quoted


def instant(unit: Unit) -> Sql:
    return Sql(f"toDateTime({int(unit.slice.start.timestamp())}, 'UTC')")
