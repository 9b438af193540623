"""Target tables that are not there: nothing is loaded into them, whatever has landed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import render
from sluice.config.pipeline import Pipeline
from sluice.state.target_ddl import creation


def gone(client: Client, tables: Sequence[str]) -> list[str]:
    """Returns those of the tables that the server does not have, or does not show to this user."""
    databases = sorted({table.partition(".")[0] for table in tables})
    asked = {"tables": list(tables), "databases": databases}
    existing = {name for (name,) in client.rows(render("load/target_tables"), asked)}
    return [table for table in tables if table not in existing]


def gone_targets(pipeline: Pipeline) -> Mapping[str, str]:
    """Returns the remedy for each table that a server lacks. Raises what the clients raise."""
    targets = {target.table: target for target in pipeline.targets}
    with connect_shards(pipeline) as servers:
        missing = [name for server in servers if server.client for name in gone(server.client, list(targets))]
    return {table: creation(pipeline, targets[table]) for table in missing}
