"""One ledger out of the shards' own: a unit is committed when every shard holds its share of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sluice.clickhouse.settings import ClickHouse
from sluice.clickhouse.shards import Server, Servers
from sluice.errors import OutOfReach, WrongUse
from sluice.load.ledger import LedgerRow, committed_by_table
from sluice.load.placement import stamp
from sluice.load.sql import render
from sluice.pipeline import Pipeline, Target
from sluice.side_by_side import each
from sluice.slices import SliceRange, Unit

Held = Mapping[Unit, LedgerRow]


def ledgers_of(
    servers: Servers, pipeline: Pipeline, lake_root: str, slices: SliceRange | None = None
) -> dict[str, dict[Unit, LedgerRow]]:
    """What is committed on all shards, by table. Of one that does not answer nothing counts as committed."""
    held = ledgers_by_shard(servers, pipeline, lake_root, slices)
    return {
        target.table: merge(pipeline.clickhouse, target.table, held[target.table])
        for target in pipeline.targets
    }


def ledgers_by_shard(
    servers: Servers, pipeline: Pipeline, lake_root: str, slices: SliceRange | None = None
) -> dict[str, dict[str, Held | None]]:
    """By table and shard; None for a shard that does not answer. Raises what the clients raise."""

    def ask(server: Server) -> Mapping[str, Held] | None:
        if server.client is None:
            return None
        try:
            return committed_by_table(server.client, pipeline, lake_root, pipeline.targets, slices)
        except OutOfReach:
            # It answered a moment ago: as if it had not. With one `connection` nothing is known at all.
            if len(servers) == 1:
                raise
            return None

    one = len(servers) == 1
    found: Sequence[Mapping[str, Held] | None] = [ask(servers[0])] if one else each(ask, servers)
    return {
        target.table: {
            server.shard.name: None if held is None else held[target.table]
            for server, held in zip(servers, found, strict=True)
        }
        for target in pipeline.targets
    }


def check_different(servers: Servers, target: Target) -> None:
    """Raises WrongUse when two shards' connections lead to one server: both would delete the other's rows."""
    seen: dict[tuple, str] = {}
    for server in servers:
        if server.client is None:
            continue
        place = {"database": target.database, "name": target.name}
        for identity in map(tuple, server.client.rows(render("server_identity"), place)):
            other = seen.setdefault(identity, server.shard.name)
            if other != server.shard.name:
                raise WrongUse(
                    f"shards {other} and {server.shard.name}: their connections lead to the same server "
                    f"(table {target.table} is the same): give each shard a server of its own"
                )


def merge(clickhouse: ClickHouse, table: str, held: Mapping[str, Held | None]) -> dict[Unit, LedgerRow]:
    """The ledger of a table, from what each shard holds; None for a shard that does not answer.

    Where shards lack the unit, or hold different commits, its row has no manifest, and so fits none.
    """
    if not clickhouse.shards:
        (only,) = held.values()
        return dict(only or {})
    units = {unit for ledger in held.values() for unit in ledger or {}}
    return {
        unit: _whole(
            clickhouse.sharding(table), [(shard, (ledger or {}).get(unit)) for shard, ledger in held.items()]
        )
        for unit in units
    }


def _whole(sharding: str, shares: list[tuple[str, LedgerRow | None]]) -> LedgerRow:
    there = [row for _, row in shares if row is not None]
    same = len({(row.manifest, row.types) for row in there}) == 1 and len(there) == len(shares)
    placed = all(row.sharding == stamp(sharding, shard) for shard, row in shares if row)
    return replace(
        there[0],
        manifest=there[0].manifest if same else "",
        sharding=sharding if placed else "",
        rows=sum(row.rows for row in there),
        misfits=sum(row.misfits for row in there),
        generation=sum(row.generation for row in there),
        shares=tuple(shares),
    )
