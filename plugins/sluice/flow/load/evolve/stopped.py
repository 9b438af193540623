"""Confirms columns that a load on a shard added, and did not confirm before it was stopped."""

from __future__ import annotations

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Servers
from sluice.clients.clickhouse.sql import render
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Target
from sluice.state.additions import confirm, latest, read_additions


def confirm_stopped(servers: Servers, target: Target, lake: Lake) -> None:
    """Confirms them for every shard that answers, before any of them decides the type of a column.

    Nothing was committed with them yet: the column counts from the next generation on. Raises what the lake
    and the servers raise.
    """
    if not target.evolves:
        return
    additions = latest(read_additions(lake), target.table)
    for server in servers:
        shard = server.shard.name
        names = {name for name, one in additions.items() if shard not in one.shards}
        if server.client is None or not names:
            continue
        table = read_table(server.client, target.database, target.name)
        unconfirmed = names & {column.name for column in table.columns} if table else set()
        if unconfirmed:
            newest_sql = render("load/newest_generation")
            [(newest,)] = server.client.rows(newest_sql, {"target": target.table})
            confirm(lake, target.table, unconfirmed, shard, newest + 1)
