"""Reads a table on every shard, and adds up what they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sharding import placement_of
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
from sluice.state.known_shards import left
from sluice.state.ledger import LedgerRow, unit_of
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
        away = _misplaced(client, pipeline, target, server, span)
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
    client: Client, pipeline: Pipeline, target: Target, server: Server, span: SliceSpan
) -> dict[Unit, int]:
    """Returns how many rows belong on other shards, by unit; none where the table lacks the column for it."""
    placement = placement_of(pipeline.clickhouse, server.shard, target.table)
    target_table = read_table(client, target.database, target.name)
    if target_table is None or (
        placement.by_partition and "_partition" not in {c.name for c in target_table.columns}
    ):
        return {}
    own_rows = placement.own_record if placement.by_partition else placement.own_row
    rows = client.rows(render("verify/misplaced", table=table(target.table), own=own_rows), span.parameters)
    return {unit_of(pipeline, start, cluster): count for start, cluster, count in rows}


def read_left(
    pipeline: Pipeline, lake: Lake, say: Say, tables: Collection[str] | None = None
) -> Iterator[LeftRows]:
    """Yields one for each table with rows. `say` reports a server that cannot be read."""
    for shard, connections in left(lake, pipeline.clickhouse).items():
        for conn_id in connections:
            try:
                client = open_client(find(conn_id))
            except (Unavailable, WrongUse) as error:
                say(f"shard {shard} has left the list, and cannot be read: {error}")
                continue
            with closing(client):
                yield from _held(client, pipeline.chosen(tables), shard, conn_id)


def _held(client: Client, targets: Sequence[Target], shard: str, conn_id: str) -> Iterator[LeftRows]:
    for target in targets:
        try:
            [(rows,)] = client.rows(render("clickhouse/count_table", table=table(target.table)))
        except ServerError as error:
            if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
                raise
            continue
        if rows:
            yield LeftRows(shard, conn_id, target.table, rows)
