"""One ledger out of the shards' own: a unit is committed when every shard holds its share of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.engine import Family, engine_of
from sluice.clients.clickhouse.shards import Servers, absent, stamp
from sluice.clients.clickhouse.sql import render
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake, update_object
from sluice.concurrency import each
from sluice.config.clickhouse import ClickHouse, Shard
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import ShardUnavailable, Unavailable, WrongUse
from sluice.slices import SliceRange, Unit
from sluice.state.ledger import Ledger, LedgerQuestion, LedgerRow, ask_ledger
from sluice.stored_json import decode_stored

ShardLedger = Mapping[Unit, LedgerRow]
ShardLedgers = dict[str, dict[str, ShardLedger | None]]
"""What is committed by table and shard; None for a shard that does not answer."""


def ledgers_of(
    servers: Servers, pipeline: Pipeline, lake: str, slices: SliceRange | None = None
) -> dict[str, Ledger]:
    """Returns what is committed on all shards, by table. Of one that does not answer nothing counts as
    committed."""
    return merged(pipeline, ledgers_by_shard(servers, pipeline, lake, slices))


def ledgers_by_shard(
    servers: Servers, pipeline: Pipeline, lake: str, slices: SliceRange | None = None
) -> ShardLedgers:
    """Raises what the clients raise."""
    question = LedgerQuestion(pipeline, lake, pipeline.targets, slices)
    clients = {server.shard.name: server.client for server in servers}

    def ask(shard: Shard) -> Mapping[str, ShardLedger] | None:
        client = clients[shard.name]
        return None if client is None else ask_ledger(client, [question])[0]

    return by_shard([server.shard for server in servers], question, ask)


def by_shard(
    shards: Sequence[Shard],
    question: LedgerQuestion,
    ask: Callable[[Shard], Mapping[str, ShardLedger] | None],
) -> ShardLedgers:
    """Returns the answers to one question; `ask` gets a shard's, or None. Of an only one raises what `ask`
    raises."""

    def held(shard: Shard) -> Mapping[str, ShardLedger] | None:
        try:
            return ask(shard)
        except Unavailable:
            # As if it had not answered before. With one `connection` nothing is known at all.
            if len(shards) == 1:
                raise
            return None

    answers = [held(shards[0])] if len(shards) == 1 else each(held, shards)
    return {
        target.table: {
            shard.name: None if ledgers is None else ledgers[target.table]
            for shard, ledgers in zip(shards, answers, strict=True)
        }
        for target in question.targets
    }


def answered(shares: ShardLedgers) -> Mapping[str, Mapping[str, ShardLedger]]:
    """Returns what all shards hold. Raises ShardUnavailable for one that does not answer."""
    for held in shares.values():
        for shard, ledger in held.items():
            if ledger is None:
                raise ShardUnavailable(shard, "it went away while its ledger was read")
    return {table: {shard: ledger or {} for shard, ledger in held.items()} for table, held in shares.items()}


def merged(pipeline: Pipeline, shares: ShardLedgers) -> dict[str, Ledger]:
    """Returns one ledger for each table, out of all shards'."""
    return {table: merge(pipeline.clickhouse, table, held) for table, held in shares.items()}


def check_different(servers: Servers, target: Target) -> None:
    """Raises WrongUse when two shards' connections lead to one server: both would delete the other's rows."""
    seen: list[tuple[TableIdentity, str]] = []
    for server in servers:
        identity = None if server.client is None else identify_table(server.client, target)
        if identity is None:
            continue
        for other, shard in seen:
            if identity.same_rows(other):
                raise WrongUse(
                    f"shards {shard} and {server.shard.name}: their connections lead to the same server "
                    f"(table {target.table} is the same): give each shard a server of its own"
                )
        seen.append((identity, server.shard.name))


def merge(clickhouse: ClickHouse, table: str, held: Mapping[str, ShardLedger | None]) -> Ledger:
    """Returns the ledger of a table, from what each shard holds; None for a shard that does not answer.

    Where shards lack the unit, or hold different commits, its row has no manifest, and so fits none. Which
    shards have to hold it, the placement of its rows says: of a unit whose files the lake has forgotten they
    stay where they are, whatever shards are listed now.
    """
    sharding = clickhouse.sharding(table)
    if not clickhouse.shards:
        (only,) = held.values()
        return {u: _whole(sharding, [("", row)]) if row.sharding else row for u, row in (only or {}).items()}
    units = {unit for ledger in held.values() for unit in ledger or {}}
    return {
        unit: _whole(sharding, [(shard, (ledger or {}).get(unit)) for shard, ledger in held.items()])
        for unit in units
    }


def _whole(sharding: str, shares: list[tuple[str, LedgerRow | None]]) -> LedgerRow:
    rows = [row for _, row in shares if row is not None]
    missing = absent(row.sharding for row in rows)
    if missing is None:
        needed, missing = shares, tuple(shard for shard, row in shares if row is None)
    else:
        needed = [(shard, row) for shard, row in shares if row is not None or shard in missing]
    listed = {shard for shard, _ in shares}
    same = len({(row.manifest, row.types) for row in rows}) == 1 and not missing
    placed = all(row.sharding == stamp(sharding, shard) for shard, row in shares if row)
    return replace(
        rows[0],
        manifest=rows[0].manifest if same else "",
        # With shards none is empty, without them each.
        sharding=sharding if placed else "" if sharding else rows[0].sharding,
        rows=sum(row.rows for row in rows),
        rejected_rows=sum(row.rejected_rows for row in rows),
        generation=sum(row.generation for row in rows),
        counted=all(row.counted for row in rows),
        defaulted=_added(row.defaulted for row in rows),
        nulls=_added(row.nulls for row in rows),
        failed=_added(row.failed for row in rows),
        shares=tuple(needed) if sharding else (),
        left=tuple(shard for shard in missing if shard not in listed),
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for by_column in counts:
        total.update(by_column)
    return dict(total)


# Stores in the lake which shards a pipeline has written to: a removed one may still hold rows.
Known = Mapping[str, tuple[str, ...]]
"""Ids of connections, by the shard's name; UUIDs of servers, by the id of the connection."""
_DECODER = msgspec.json.Decoder(dict[str, tuple[str, ...]])


def remember(lake: Lake, clickhouse: ClickHouse, servers: Servers = ()) -> None:
    """Adds the pipeline file's shards, and which servers they are; repeatable, and safe beside others. Raises
    Unavailable."""
    if not clickhouse.shards:
        return
    _extend(lake, layout.SHARDS, {shard.name: shard.connections for shard in clickhouse.shards})
    # Of replicas it is not known which one has answered.
    answering = [server for server in servers if server.client and server.shard.connection]
    ids = {str(server.shard.connection): (identify_server(server.reached),) for server in answering}
    if ids:
        _extend(lake, layout.SERVERS, ids)


def left(lake: Lake, clickhouse: ClickHouse) -> dict[str, tuple[str, ...]]:
    """Returns the connections of earlier shards that the pipeline file does not use any more, by the shard's
    name."""
    used = {connection for shard in clickhouse.parts for connection in shard.connections}
    gone = {name: tuple(c for c in ids if c not in used) for name, ids in _read(lake, layout.SHARDS).items()}
    return {name: ids for name, ids in gone.items() if ids}


def servers_of(lake: Lake, connection: str) -> set[str]:
    """Returns the UUIDs of the servers that a shard's connection has led to."""
    return set(_read(lake, layout.SERVERS).get(connection, ()))


def _extend(lake: Lake, key: str, more: Known) -> None:
    def extended(data: bytes | None) -> bytes:
        known = _decoded(lake, key, data)
        merged = {name: tuple(dict.fromkeys((*known.get(name, ()), *ids))) for name, ids in more.items()}
        return json.dumps({**known, **merged}, sort_keys=True).encode()

    update_object(lake, key, extended)


def _read(lake: Lake, key: str) -> dict[str, tuple[str, ...]]:
    stored = lake.read(key)
    return _decoded(lake, key, None if stored is None else stored.data)


def _decoded(lake: Lake, key: str, data: bytes | None) -> dict[str, tuple[str, ...]]:
    if data is None:
        return {}
    place = f"{lake.url}/{key}"
    return decode_stored(
        _DECODER,
        data,
        lambda error: (
            f"{place} does not say which shards were written to ({error}): restore it from a copy, or delete "
            "it: `verify` does not inspect shards then that left the pipeline file before"
        ),
    )


# Which table on which server a connection leads to, whatever the connection and its shard are called.
@dataclass(frozen=True)
class TableIdentity:
    """`table`: the server's UUID, its host's name and the table's UUID, as any one of them may be the same on
    two servers; of a shared table its UUID alone. Of a replicated table `path` in Keeper, its own `replica`
    name, and all `replicas` of it."""

    table: tuple[str, str, str]
    path: str = ""
    replica: str = ""
    replicas: frozenset[str] = frozenset()

    def same_rows(self, other: TableIdentity) -> bool:
        """Returns whether both are one table, or replicas of one."""
        if self.table == other.table:
            return True
        return bool(self.path) and self.path == other.path and self.replica in other.replicas


def identify_table(client: Client, target: Target) -> TableIdentity | None:
    """Returns None where the server has no such table."""
    parameters = {"database": target.database, "name": target.name}
    found = client.rows(render("state/server_identity"), parameters)
    if not found:
        return None
    [(server, host, table, engine)] = found
    if engine_of(engine).family is Family.SHARED:  # whichever server has answered
        return TableIdentity(("", "", table))
    for path, replica, replicas in client.rows(render("state/replica_identity"), parameters):
        return TableIdentity((server, host, table), path, replica, frozenset(replicas))
    return TableIdentity((server, host, table))


def identify_server(client: Client) -> str:
    [(server,)] = client.rows(render("state/server"))
    return str(server)


def held_elsewhere(identity: TableIdentity, live: Iterable[TableIdentity]) -> bool:
    """Returns whether a table that is in use holds the rows of this one, because it is the same."""
    return any(identity.same_rows(one) for one in live)
