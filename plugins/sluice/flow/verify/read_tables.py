"""Reads ClickHouse: what a target, sluice.rejected and the tables of its views hold. Grouped statements,
one of a kind for each table, however many slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, cast

import pendulum

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.hidden_rows import check_visible
from sluice.clients.clickhouse.inspect_tables import keeps_values, read_table
from sluice.clients.clickhouse.shards import Server, Servers, placement_in
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render, table
from sluice.clients.clickhouse.tables import TargetTable, view_stamps
from sluice.clients.connections import find
from sluice.clients.lake.base import Lake
from sluice.concurrency import each
from sluice.config.counts import OWN
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Newest
from sluice.errors import Unavailable, WrongUse
from sluice.flow.verify.facts import (
    ByColumn,
    ByType,
    LeftRows,
    NewestRows,
    RowIdentities,
    TableFacts,
    ViewTableRows,
)
from sluice.safe_text import Remark, Say
from sluice.slices import SliceRange, Unit
from sluice.state.departed_tables import check_written, creations, lost_views
from sluice.state.ledger import LedgerRow, unit_of
from sluice.state.newest_version import Unfit, version
from sluice.state.shard_ledgers import (
    TableIdentity,
    held_elsewhere,
    identify_server,
    identify_table,
    left,
    merge,
    servers_of,
)
from sluice.state.system_tables import view_stands
from sluice.state.ttl import forgets, lasting

# Tables that materialized views fill: how many rows of a unit they hold, and how many its commit put there.
#
# A view's rows are part of the target's load: staged, moved and counted with it. So the target's ledger row
# has their number, and a unit that was loaded before a view was made, or by another SELECT, has none.


def read_views(
    client: Client, pipeline: Pipeline, target_table: TargetTable, span: Mapping[str, int]
) -> tuple[ViewTableRows, ...]:
    """Returns the tables of a target's views. Nothing is expected of one whose engine removes rows.

    Raises what the client raises."""
    if not target_table.stored:
        return ()
    commits = view_commits(client, pipeline, target_table)
    stamps = view_stamps(target_table)
    found = []
    for view_table in target_table.stored:
        sql = render("verify/view_rows", table=view_table.as_merged(table(view_table.table)))
        rows = {unit_of(pipeline, start, cluster): count for start, cluster, count in client.rows(sql, span)}
        stamp = stamps[view_table.table]
        committed = {u: by_stamp[stamp] for u, by_stamp in commits.items() if stamp in by_stamp}
        found.append(
            ViewTableRows(
                table=view_table.table,
                view=view_table.view,
                rows=rows,
                committed=committed if view_table.storage.certain else {},
                expiring=forgets(view_table),
                projections=view_table.projections,
            )
        )
    return tuple(found)


def view_commits(
    client: Client, pipeline: Pipeline, target_table: TargetTable
) -> dict[Unit, Mapping[str, int]]:
    """Returns by committed unit the rows that its load put into the views' tables, by `view_stamps`."""
    parameters = {"target": target_table.table, "uuid": target_table.uuid}
    rows = client.rows(render("verify/commit_views"), parameters)
    return {unit_of(pipeline, start, cluster): by_stamp for start, cluster, by_stamp in rows}


_IDENTITY = frozenset({"_topic", "_partition", "_offset"})
_LAST = (1 << 32) - 1  # of a DateTime, in seconds
# A unit's offsets in a partition lie within 2^36 of each other, a message's rows below 2^28.
_BY_ROW = Sql("bitShiftLeft(toUInt64(_offset), 28) + toUInt64(_row)")
_BY_RECORD = Sql("toUInt64(_offset)")


@dataclass(frozen=True)
class SliceSpan:
    """`[start, end)` of slice starts, in seconds since the epoch."""

    start: int = 0
    end: int = _LAST

    @classmethod
    def of(cls, slices: SliceRange) -> SliceSpan:
        return cls(int(slices.start.timestamp()), int(slices.end.timestamp()))

    def holds(self, unit: Unit) -> bool:
        return self.start <= unit.slice.start.timestamp() < self.end

    @property
    def parameters(self) -> dict[str, int]:
        return {"start": self.start, "end": self.end}


def read_target(
    client: Client,
    pipeline: Pipeline,
    target: Target,
    ledger: Mapping[Unit, LedgerRow],
    span: SliceSpan,
    *,
    cheap: bool = False,
) -> TableFacts:
    """Counts what the table holds by hour; unless it is to be `cheap`, by record too, and in views' tables.

    Raises TargetRefused where rows are hidden from the user, and what the client raises.
    """
    target_table = read_table(client, target.database, target.name)
    rejected = rows_if_there(
        client, render("verify/rejected_rows"), {"target": target.table, **span.parameters}
    )
    rejected_rows = _by_type(pipeline, [row[:4] for row in rejected])
    if target_table is None:
        remedy = creations(client, pipeline, [target.table])[target.table]
        return TableFacts(target.table, missing=remedy, rejected_rows=rejected_rows, ledger=ledger)
    check_written(client, pipeline, target_table)
    if not cheap:  # hidden rows lack, so what is cheap sends for the rest
        check_visible(client, target_table.tables)
    if not {"_slice", "_cluster"} <= _names(target_table):
        return TableFacts(target.table, rejected_rows=rejected_rows, ledger=ledger)
    rows = _rows(client, pipeline, target, target_table, span)
    counted = TableFacts(
        table=target.table,
        expiring=forgets(target_table),
        lasting=lasting(client, pipeline, target_table, [unit for unit in ledger if span.holds(unit)]),
        rows=rows,
        rejected_rows=rejected_rows,
        projections=target_table.projections,
        ledger=ledger,
        counted=read_counts(client, pipeline, target, target_table, span.parameters),
        viewed=not ledger or view_stands(client, target_table),
        lost_views=lost_views(client, pipeline, target.table) if ledger else {},
        aged=pipeline.keep.began_before(target.table, pendulum.now("UTC")),
    )
    if cheap:
        return counted
    return replace(
        counted,
        identities=_identities(client, pipeline, target, target_table, span),
        view_tables=read_views(client, pipeline, target_table, span.parameters),
        steady=keeps_values(client, target_table),
        rejected_columns=_by_column(pipeline, rejected),
        newest=_newest(client, pipeline, target, span) if isinstance(target.rollup, Newest) else {},
    )


def _names(target_table: TargetTable) -> set[str]:
    return {column.name for column in target_table.columns}


def _rows(
    client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable, span: SliceSpan
) -> Mapping[Unit, ByType]:
    kind = Sql("toString(_type)" if "_type" in _names(target_table) else "''")
    sql = render("verify/rows", table=table(target.table), type=kind)
    return _by_type(pipeline, rows_if_there(client, sql, span.parameters))


def _identities(
    client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable, span: SliceSpan
) -> tuple[RowIdentities, ...]:
    if target.counted or target.rollup is not None or not _names(target_table) >= _IDENTITY:
        return ()
    by_row = "_row" in _names(target_table)
    identity = _BY_ROW if by_row else _BY_RECORD
    sql = render("verify/identities", table=table(target.table), identity=identity)
    rows = rows_if_there(client, sql, span.parameters)
    return tuple(
        RowIdentities(unit_of(pipeline, at, cluster), topic, partition, count, different, first, last, by_row)
        for at, cluster, topic, partition, count, different, first, last in rows
    )


def _newest(client: Client, pipeline: Pipeline, target: Target, span: SliceSpan) -> dict[Unit, NewestRows]:
    """Returns nothing where the log can't have the keys and versions that the pipeline file says: no load is
    current then."""
    newest = cast(Newest, target.rollup)
    database, _, name = newest.source.partition(".")
    log = read_table(client, database, name)
    columns = {} if log is None else {column.name: column for column in log.columns}
    if not set(newest.key) <= columns.keys():
        return {}
    try:
        of_rows = version([columns[column] for column in newest.version], newest.by_row)
    except (KeyError, Unfit):
        return {}
    values = {
        "key": listed(map(identifier, newest.key)),
        "version": of_rows,
        "log": table(newest.source),
        "table": table(target.table),
    }
    found: dict[Unit, NewestRows] = {}
    for start, cluster, keys in rows_if_there(
        client, render("verify/newest_outdated", **values), span.parameters
    ):
        found[unit_of(pipeline, start, cluster)] = NewestRows(outdated=keys)
    for start, cluster, rows in rows_if_there(
        client, render("verify/newest_foreign", **values), span.parameters
    ):
        unit = unit_of(pipeline, start, cluster)
        found[unit] = found.get(unit, NewestRows()) + NewestRows(foreign=rows)
    return found


def _by_type(pipeline: Pipeline, rows: Sequence[Sequence[Any]]) -> Mapping[Unit, ByType]:
    units: dict[Unit, dict[str, int]] = {}
    for start, cluster, kind, count in rows:
        units.setdefault(unit_of(pipeline, start, cluster), {})[kind] = count
    return units


def _by_column(pipeline: Pipeline, rows: Sequence[Sequence[Any]]) -> Mapping[Unit, Mapping[str, ByColumn]]:
    units: dict[Unit, dict[str, ByColumn]] = {}
    for start, cluster, kind, _, column, count in rows:
        units.setdefault(unit_of(pipeline, start, cluster), {})[kind] = {column: count}
    return units


def rows_if_there(client: Client, sql: Sql, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
    """Returns nothing where the table or the database is not there (yet)."""
    try:
        return client.rows(sql, parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


RowsByOffsets = dict[tuple[str, int], dict[tuple[int, int], int]]
"""By (topic, partition) how often each (offset, row) is there."""


def offsets_of(client: Client, target: str, unit: Unit, by_row: bool) -> tuple[RowsByOffsets, RowsByOffsets]:
    """Returns how often each record of the unit is in the target, and in sluice.rejected. Without `by_row`
    all rows are 0."""
    where = {"slice": int(unit.slice.start.timestamp()), "cluster": unit.cluster}
    row, unfit = (Sql("toInt32(_row)"), Sql("row")) if by_row else (Sql("0"), Sql("0"))
    rows = rows_if_there(client, render("verify/offsets", table=table(target), row=row), where)
    sql = render("verify/rejected_offsets", row=unfit)
    rejected = rows_if_there(client, sql, {"target": target, **where})
    return _counted(rows), _counted([(*row, 1) for row in rejected])


def _counted(rows: Sequence[Sequence[Any]]) -> RowsByOffsets:
    rows_by_offsets: RowsByOffsets = {}
    for topic, partition, offset, row, count in rows:
        counts = rows_by_offsets.setdefault((topic, partition), {})
        counts[offset, row] = counts.get((offset, row), 0) + count
    return rows_by_offsets


def read_counts(
    client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable, span: Mapping[str, int]
) -> dict[Unit, dict[str, int]]:
    """Returns counts by unit and event type; none of a table of events. Raises what the client raises."""
    if not target.counted or not set(OWN) <= {column.name for column in target_table.columns}:
        return {}
    rows = client.rows(render("verify/counts", table=table(target.table)), span)
    rejected_rows = client.rows(render("verify/counts_rejected"), {"target": target.table, **span})
    units: dict[Unit, Counter[str]] = {}
    for start, cluster, kind, count in (*rows, *rejected_rows):
        units.setdefault(unit_of(pipeline, start, cluster), Counter())[kind] += count
    return {unit: dict(sums) for unit, sums in units.items()}


# Reads a table on every shard, and adds up what they hold.
Ledger = Mapping[Unit, LedgerRow]


def read_shards(
    servers: Servers,
    pipeline: Pipeline,
    target: Target,
    ledgers: Mapping[str, Ledger],
    span: SliceSpan,
    *,
    cheap: bool = False,
) -> tuple[TableFacts, tuple[TableFacts, ...]]:
    """Returns the table as a whole, and its part on each shard (none with one `connection`); `cheap` as in
    `read_target`.

    `ledgers` are what is committed, by shard. Raises ShardUnavailable, and what the clients raise.
    """
    if not pipeline.clickhouse.shards:
        [ledger] = ledgers.values()
        return read_target(servers[0].reached, pipeline, target, ledger, span, cheap=cheap), ()

    def part(server: Server) -> TableFacts:
        client, shard = server.reached, server.shard
        ledger = ledgers[shard.name]
        facts = read_target(client, pipeline, target, ledger, span, cheap=cheap)
        away = {} if cheap else _misplaced(client, pipeline, target, ledger, span)
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
        rejected_rows=_summed(part.rejected_rows for part in parts),
        identities=tuple(chain.from_iterable(part.identities for part in parts)),
        view_tables=tuple(chain.from_iterable(part.view_tables for part in parts)),
        ledger=ledger,
        counted=_summed(part.counted for part in parts),
        projections=any(part.projections for part in parts),
        steady=all(part.steady for part in parts),
        rejected_columns=_columns(parts),
        newest=_newest_in_all(parts),
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


def _newest_in_all(parts: Sequence[TableFacts]) -> Mapping[Unit, NewestRows]:
    units: dict[Unit, NewestRows] = {}
    for unit, rows in chain.from_iterable(part.newest.items() for part in parts):
        units[unit] = units.get(unit, NewestRows()) + rows
    return units


def _columns(parts: Sequence[TableFacts]) -> Mapping[Unit, Mapping[str, ByColumn]]:
    units: dict[Unit, dict[str, Counter[str]]] = {}
    for unit, by_type in chain.from_iterable(part.rejected_columns.items() for part in parts):
        for kind, columns in by_type.items():
            units.setdefault(unit, {}).setdefault(kind, Counter()).update(columns)
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
                    say(Remark(f"shard {shard} has left the list, and cannot be read: {error}"))
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
