"""Target tables, and tables that their views write to, that are not there: nothing is loaded into such a
target, whatever has landed."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import render
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.state.departed_tables import GoneTable
from sluice.state.last_ddl import check_written, creations, gone


def gone_tables(pipeline: Pipeline) -> tuple[GoneTable, ...]:
    """Returns each table that a server lacks once. Raises what the clients raise."""
    found: dict[str, GoneTable] = {}
    with connect_shards(pipeline) as servers:
        for server in servers:
            for table in _of_server(server.client, pipeline) if server.client else ():
                found.setdefault(table.table, table)
    return tuple(found.values())


def _of_server(client: Client, pipeline: Pipeline) -> Iterator[GoneTable]:
    targets = {target.table: target for target in pipeline.targets}
    missing = gone(client, list(targets))
    for name, remedy in (creations(client, pipeline, missing) if missing else {}).items():
        yield GoneTable(name, name, "there is no such table", remedy)
    databases = sorted({target.database for target in targets.values()})
    for (name,) in client.rows(render("state/fed"), {"tables": list(targets), "databases": databases}):
        target_table = read_table(client, targets[name].database, targets[name].name)
        if target_table is None:
            continue
        try:
            check_written(client, pipeline, target_table)
        except TargetRefused as error:
            yield GoneTable(error.table, name, error.reason, error.remedy)
