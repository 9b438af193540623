"""Reads the view of expected traffic, on every shard."""

from __future__ import annotations

from sluice.clickhouse.client import Client
from sluice.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clickhouse.shards import connect_shards
from sluice.counts.outlook import Traffic, added
from sluice.counts.spec import Counts
from sluice.counts.view import view_name
from sluice.errors import Refused
from sluice.load.names import SYSTEM
from sluice.load.sql import Sql, identifier, render
from sluice.pipeline import Pipeline


def traffic_of(pipeline: Pipeline, spec: Counts) -> list[Traffic]:
    """By hour and the first field. Raises Refused before anything was loaded, and what the clients raise."""
    with connect_shards(pipeline) as servers:
        return added(one for server in servers for one in _read(server.reached, spec))


def _read(client: Client, spec: Counts) -> list[Traffic]:
    name = next(iter(spec.by), None)
    key = Sql(f"ifNull(toString({identifier(name)}), '')" if name else "''")
    try:
        rows = client.rows(render("read_expected", key=key, view=identifier(SYSTEM, view_name(spec.table))))
    except ServerError as error:
        if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            raise
        raise Refused(f"table {spec.table} was never loaded: `sluice run` or the DAG loads it") from error
    return [Traffic(*row) for row in rows]
