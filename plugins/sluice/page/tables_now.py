"""Asks ClickHouse for the sizes and last loads of a pipeline's tables: two statements a server."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import render
from sluice.config.pipeline import Pipeline
from sluice.page.tables import TableNow
from sluice.slices import SliceRange, from_seconds


def tables_now(
    asked: Iterable[tuple[Client, Collection[str]]], pipeline: Pipeline, lake: str, slices: SliceRange
) -> dict[str, TableNow]:
    """Returns the sums over the servers, by table; each is asked for those of its tables that are the
    pipeline's own. The last load is that of an hour of `slices`. Raises what the clients raise."""
    sums: dict[str, TableNow] = {}
    for client, own in ((client, sorted(own)) for client, own in asked if own):
        loads = _last_loads(client, pipeline, lake, own, slices)
        databases = sorted({name.partition(".")[0] for name in own})
        sizes = client.rows(render("page/table_sizes"), {"tables": own, "databases": databases})
        for name, parts, size, rows in sizes:
            before = sums.get(name, TableNow(0, 0, 0))
            loaded = max(before.last_load, loads.pop(name, ""))
            sums[name] = TableNow(before.parts + parts, before.bytes + size, before.rows + rows, loaded)
        for name, at in loads.items():  # a view, or a Distributed table: it has no parts of its own
            before = sums.get(name, TableNow(0, 0, 0))
            sums[name] = TableNow(before.parts, before.bytes, before.rows, max(before.last_load, at))
    return sums


def _last_loads(
    client: Client, pipeline: Pipeline, lake: str, own: list[str], slices: SliceRange
) -> dict[str, str]:
    edges = {"start": int(slices.start.timestamp()), "end": int(slices.end.timestamp())}
    parameters = {"tables": own, "pipeline": pipeline.name, "lake": lake, **edges}
    rows = client.rows(render("page/last_loads"), parameters)
    return {table: from_seconds(at).isoformat() for table, at in rows}
