"""What a target and sluice.rejected really hold, for `verify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.clickhouse.client import Client
from sluice.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.load.ledger import unit_of
from sluice.load.sql import Sql, render, table
from sluice.pipeline import Pipeline, Target
from sluice.slices import SliceRange, Unit
from sluice.verify import Held


def held_of(client: Client, pipeline: Pipeline, target: Target, slices: SliceRange) -> dict[Unit, Held]:
    """Rows and misfits of each unit that has any; a table that is not there holds nothing."""
    bounds = {"start": int(slices.start.timestamp()), "end": int(slices.end.timestamp())}
    rows = _counts(client, pipeline, render("held_rows", table=table(target.table)), bounds)
    parameters = {"target": target.table, **bounds}
    misfits = _counts(client, pipeline, render("held_misfits"), parameters)
    return {unit: Held(rows.get(unit, 0), misfits.get(unit, 0)) for unit in {*rows, *misfits}}


def _counts(client: Client, pipeline: Pipeline, sql: Sql, parameters: Mapping[str, Any]) -> dict[Unit, int]:
    try:
        found = client.rows(sql, parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return {}
        raise
    return {unit_of(pipeline, start, cluster): count for start, cluster, count in found}
