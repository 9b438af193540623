"""What shards hold that have left the pipeline file's list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from sluice.clickhouse.client import Client
from sluice.clickhouse.connect import open_client
from sluice.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.connections import find
from sluice.errors import OutOfReach, WrongUse
from sluice.lake.base import Lake
from sluice.load.shard_list import left
from sluice.load.sql import render, table
from sluice.pipeline import Pipeline
from sluice.verification.facts import Left

Say = Callable[[str], None]


def look_at_left(pipeline: Pipeline, lake: Lake, say: Say) -> Iterator[Left]:
    """One for each table with rows. Of a server that is gone nobody can read anything: `say` tells it."""
    for shard, connections in left(lake, pipeline.clickhouse).items():
        for conn_id in connections:
            try:
                client = open_client(find(conn_id))
            except (OutOfReach, WrongUse) as error:
                say(f"shard {shard} has left the list, and cannot be looked at: {error}")
                continue
            with closing(client):
                yield from _held(client, pipeline, shard, conn_id)


def _held(client: Client, pipeline: Pipeline, shard: str, conn_id: str) -> Iterator[Left]:
    for target in pipeline.targets:
        try:
            [(rows,)] = client.rows(render("count_table", table=table(target.table)))
        except ServerError as error:
            if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
                raise
            continue
        if rows:
            yield Left(shard, conn_id, target.table, rows)
