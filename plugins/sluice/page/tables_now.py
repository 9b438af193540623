"""Asks ClickHouse for the sizes and last loads of a pipeline's tables: two statements a server."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.sql import render
from sluice.config.pipeline import Pipeline
from sluice.page.tables import TableNow
from sluice.slices import SliceRange, from_seconds


def tables_now(
    clients: Iterable[Client], pipeline: Pipeline, lake: str, slices: SliceRange
) -> dict[str, TableNow]:
    """Returns the sums over the servers, by table; the last load is that of an hour of `slices`. Raises what
    the clients raise."""
    sums: dict[str, TableNow] = {}
    for client in clients:
        loads = _last_loads(client, pipeline, lake, slices)
        for name, parts, size, rows in client.rows(render("page/table_sizes"), _names(pipeline)):
            before = sums.get(name, TableNow(0, 0, 0))
            loaded = max(before.last_load, loads.pop(name, ""))
            sums[name] = TableNow(before.parts + parts, before.bytes + size, before.rows + rows, loaded)
        for name, at in loads.items():  # a view, or a Distributed table: it has no parts of its own
            before = sums.get(name, TableNow(0, 0, 0))
            sums[name] = TableNow(before.parts, before.bytes, before.rows, max(before.last_load, at))
    return sums


def _names(pipeline: Pipeline) -> dict[str, list[str]]:
    tables = [target.table for target in pipeline.targets]
    return {"tables": tables, "databases": sorted({target.database for target in pipeline.targets})}


def _last_loads(client: Client, pipeline: Pipeline, lake: str, slices: SliceRange) -> dict[str, str]:
    edges = {"start": int(slices.start.timestamp()), "end": int(slices.end.timestamp())}
    parameters = {"tables": _names(pipeline)["tables"], "pipeline": pipeline.name, "lake": lake, **edges}
    try:
        rows = client.rows(render("page/last_loads"), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return {}  # nothing was ever loaded through this server
        raise
    return {table: from_seconds(at).isoformat() for table, at in rows}
