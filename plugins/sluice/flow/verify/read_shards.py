"""Reads a table on every shard, and adds up what they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sharding import placement_in
from sluice.clients.clickhouse.shards import Server, Servers
from sluice.clients.clickhouse.sql import render, table
from sluice.clients.connections.find import find
from sluice.clients.lake.base import Lake
from sluice.concurrency import each
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Unavailable, WrongUse
from sluice.flow.verify.facts import ByType, LeftRows, TableFacts
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.known_shards import left, servers_of
from sluice.state.ledger import LedgerRow, unit_of
from sluice.state.server_identity import TableIdentity, held_elsewhere, identify_server, identify_table
from sluice.state.shard_ledgers import merge

Ledger = Mapping[Unit, LedgerRow]


def read_shards(
    servers: Servers, pipeline: Pipeline, target: Target, ledgers: Mapping[str, Ledger], span: SliceSpan
) -> tuple[TableFacts, tuple[TableFacts, ...]]:
    """Returns the table as a whole, and its part on each shard (none with one `connection`).

    `ledgers` are what is committed, by shard. Raises ShardUnavailable, and what the clients raise.
    """
    if not pipeline.clickhouse.shards:
        [ledger] = ledgers.values()
        return read_target(servers[0].reached, pipeline, target, ledger, span), ()

    def part(server: Server) -> TableFacts:
        client, shard = server.reached, server.shard
        facts = read_target(client, pipeline, target, ledgers[shard.name], span)
        away = _misplaced(client, pipeline, target, ledgers[shard.name], span)
        return replace(facts, shard=shard.name, misplaced=away)

    parts = tuple(each(part, servers))
    return whole(parts, merge(pipeline.clickhouse, target.table, ledgers)), parts


def whole(parts: Sequence[TableFacts], ledger: Ledger) -> TableFacts:
    """Returns the parts of one table as if one server held them."""
    return TableFacts(
        table=parts[0].table,
        missing=next((part.missing for part in parts if part.missing), ""),
        expiring=any(part.expiring for part in parts),
        lasting=_lasting(parts),
        rows=_summed(part.rows for part in parts),
        misfits=_summed(part.misfits for part in parts),
        identities=tuple(chain.from_iterable(part.identities for part in parts)),
        view_tables=tuple(chain.from_iterable(part.view_tables for part in parts)),
        ledger=ledger,
        counted=_summed(part.counted for part in parts),
        projections=any(part.projections for part in parts),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        steady=all(part.steady for part in parts),
        aged=min((part.aged for part in parts if part.aged is not None), default=None),
    )


def _lasting(parts: Sequence[TableFacts]) -> frozenset[Unit]:
    """Returns the units that have expired on no shard."""
    units = frozenset(unit for part in parts for unit in part.ledger)
    return frozenset(unit for unit in units if not any(part.may_lack(unit) for part in parts))


def _summed(parts: Iterable[Mapping[Unit, ByType]]) -> Mapping[Unit, ByType]:
    units: dict[Unit, dict[str, int]] = {}
    for unit, counts in chain.from_iterable(part.items() for part in parts):
        totals = units.setdefault(unit, {})
        for kind, count in counts.items():
            totals[kind] = totals.get(kind, 0) + count
    return units


def _misplaced(
    client: Client, pipeline: Pipeline, target: Target, ledger: Ledger, span: SliceSpan
) -> dict[Unit, int]:
    """Returns how many rows belong on other shards, by unit, as its ledger row says where they belong; none
    where the table lacks the column for it."""
    target_table = read_table(client, target.database, target.name)
    if target_table is None:
        return {}
    columns = {column.name for column in target_table.columns}
    away: dict[Unit, int] = {}
    for stamp in sorted({row.sharding for unit, row in ledger.items() if span.holds(unit)}):
        placement = placement_in(stamp)
        if placement.alone or (placement.by_partition and "_partition" not in columns):
            continue
        own_rows = placement.own_record if placement.by_partition else placement.own_row
        sql = render("verify/misplaced", table=table(target.table), own=own_rows)
        try:
            rows = client.rows(sql, span.parameters)
        except ServerError as error:
            # What placed them then may read a column that the table has lost since.
            if error.code != UNKNOWN_IDENTIFIER or placement.sharding == pipeline.clickhouse.sharding(
                target.table
            ):
                raise
            continue
        found = {unit_of(pipeline, start, cluster): count for start, cluster, count in rows}
        away |= {u: count for u, count in found.items() if u in ledger and ledger[u].sharding == stamp}
    return away


def read_left(
    servers: Servers,
    pipeline: Pipeline,
    lake: Lake,
    ledgers: Mapping[str, Ledger],
    say: Say,
    tables: Collection[str] | None = None,
) -> Iterator[LeftRows]:
    """Yields one for each table with rows that is none of the shards' own, whatever its connection is called.

    `ledgers`: what all shards have committed, by table. `say` reports a server that cannot be read.
    """
    gone = left(lake, pipeline.clickhouse)
    if not gone:
        return
    targets = pipeline.chosen(tables)
    live = {t.table: [one for s in servers if (one := identify_table(s.reached, t))] for t in targets}
    ids = {identify_server(server.reached) for server in servers}
    for shard, connections in gone.items():
        for conn_id in connections:
            try:
                client = open_client(find(conn_id))
            except (Unavailable, WrongUse) as error:
                if not servers_of(lake, conn_id) & ids:
                    say(f"shard {shard} has left the list, and cannot be read: {error}")
                continue
            with closing(client):
                for target in targets:
                    held = _held(client, pipeline, target, live[target.table], ledgers[target.table])
                    if sum(held):
                        yield LeftRows(shard, conn_id, target.table, sum(held), held[1])


def _held(
    client: Client, pipeline: Pipeline, target: Target, live: Sequence[TableIdentity], ledger: Ledger
) -> tuple[int, int]:
    """Returns how many rows of a table that is none of the live ones are of units that the shards have all
    committed, and how many are of others."""
    identity = identify_table(client, target)
    if identity is None or held_elsewhere(identity, live):
        return 0, 0
    found = read_table(client, target.database, target.name)
    if found is None or not {"_slice", "_cluster"} <= {column.name for column in found.columns}:
        return 0, 0
    counts, sharding = [0, 0], pipeline.clickhouse.sharding(target.table)
    for start, cluster, rows in client.rows(render("verify/left_rows", table=table(target.table))):
        row = ledger.get(unit_of(pipeline, start, cluster))
        whole = row is not None and row.manifest and row.sharding == sharding and not row.left
        counts[0 if whole else 1] += rows
    return counts[0], counts[1]
