"""The SELECT of one unit. Pure.

A unit's rows are derived from the source's rows of the unit and from nothing else of it, whatever else is in
the batch: so they are the same however often and in whatever batches they are made.
"""

from __future__ import annotations

from sluice.clients.clickhouse.sql import Sql, literal
from sluice.config.rollups import Rollup
from sluice.slices import Unit
from sluice.state.target_ddl import over


def of_unit(rollup: Rollup, unit: Unit, rows: Sql, shuffled: bool = False) -> Sql:
    """`rows` is a table with the source's columns. `shuffled`: they come in an order that chance decides."""
    condition = f"_slice = {instant(unit)} AND _cluster = {literal(unit.cluster)}"
    order = " ORDER BY rand()" if shuffled else ""
    return over(rollup, Sql(f"(SELECT * FROM {rows} WHERE {condition}{order})"))  # noqa: S608 - quoted


def instant(unit: Unit) -> Sql:
    return Sql(f"toDateTime({int(unit.slice.start.timestamp())}, 'UTC')")
