"""The table of a log's newest rows (`latest:`): a ReplacingMergeTree that follows the log's commits.

Each row in it is a row of the log, by its `_slice` and `_cluster`, and of each key the log's newest committed
row is there, whatever else is. So its rows with FINAL are the log's newest rows, however often parts were
merged. A load keeps that true:

| the unit, in this table | rows that are staged |
| --- | --- |
| has no rows yet | the log's rows of the unit |
| has rows, or was committed | of each key that the unit has or had: all committed rows of the log |
| was revoked, and its load was stopped | all committed rows of the log: what keys it had may be forgotten |

Then the unit's rows are deleted, and those that were staged are moved, as in every load. In this order: else
a merge might give up the right row for one that is deleted next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import expiring_columns, read_table
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render, table
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.clickhouse.types import parse, takes
from sluice.config.clickhouse import columns_in
from sluice.config.pipeline import Pipeline
from sluice.config.target import Newest, Target
from sluice.errors import TargetRefused
from sluice.flow.load.casts.columns import LAKE, Filling
from sluice.flow.load.failing_defaults import Failing
from sluice.flow.load.rollups.decide import LedgerRows, SourceUnit
from sluice.flow.load.rollups.staging import SEQUENTIAL, DerivedStaging
from sluice.slices import Unit
from sluice.state.departed_tables import newest_ddl
from sluice.state.newest_version import DELETED, OWN, VERSION, Unfit, check_key, deleted, version
from sluice.state.system_tables import committed_units
from sluice.state.ttl import deleting

MOST_KEYS = 5_000_000
"""Rows of units that are loaded together: the server holds their keys in memory while it reads the log."""

# Whether the table and its log can be what the pipeline file says.
_ENGINE = "ReplacingMergeTree(_version, _deleted)"
_CLEANUP = "allow_experimental_replacing_merge_with_cleanup = 1"


def check_newest(
    client: Client, pipeline: Pipeline, target_table: TargetTable, target: Target, newest: Newest
) -> Filling:
    """Returns how the table's columns are filled by those of the log.

    Raises TargetRefused, and what the client raises.
    """
    log, own = _asked_of(client, newest, target.table)
    anew = f"DROP TABLE {table(target.table)}; {newest_ddl(pipeline, target, newest)}"
    _check_table(client, target_table, newest, anew)
    values = _values(target_table, log, newest, own, anew)
    return Filling(tuple(values), tuple(values.values()), (), ())


def check_log(client: Client, target: Target, newest: Newest) -> None:
    """Asks before the table is there whether its log, if that is there, has what the pipeline file names.

    Raises TargetRefused, and what the client raises.
    """
    if _read_log(client, newest) is not None:
        _asked_of(client, newest, target.table)


def lacked(client: Client, target_table: TargetTable, newest: Newest) -> list[Column]:
    """Returns the columns of the log that the table does not have, apart from the lake's."""
    log, present = _read_log(client, newest), {column.name for column in target_table.columns} | LAKE.keys()
    return [column for column in log.columns if column.filled and column.name not in present] if log else []


def _asked_of(client: Client, newest: Newest, name: str) -> tuple[TargetTable, dict[str, Sql]]:
    """Returns the log, and what fills the table's own columns."""
    log = _log(client, newest, name)
    columns = {column.name: column for column in log.columns if column.stored}
    needed = {"_topic", "_partition", "_offset", *(("_row",) if newest.by_row else ())}
    for column in sorted(needed - columns.keys()):
        remedy = f"ALTER TABLE {table(log.table)} ADD COLUMN {column} {LAKE[column]}, and reload it"
        raise TargetRefused(name, f"its log {log.table} has no column {column}", remedy)
    for column in (*newest.key, *newest.version, *([newest.deleted] if newest.deleted else [])):
        if column not in columns:
            remedy = f"ALTER TABLE {table(log.table)} ADD COLUMN {identifier(column)} …, or name another one"
            reason = f"`latest` names {column}, and its log {log.table} has no such column"
            raise TargetRefused(name, reason, remedy)
    try:
        check_key(columns[column] for column in newest.key)
        return log, {
            VERSION: version([columns[column] for column in newest.version], newest.by_row),
            DELETED: deleted(columns[newest.deleted] if newest.deleted else None),
        }
    except Unfit as error:
        raise TargetRefused(name, str(error), "name another column in `latest`") from error


def _log(client: Client, newest: Newest, name: str) -> TargetTable:
    log = _read_log(client, newest)
    if log is None:
        raise TargetRefused(name, f"its log {newest.source} is not there", "create that first")
    if deleting(log.engine_full) or expiring_columns(client, log):
        remedy = f"ALTER TABLE {table(log.table)} REMOVE TTL, or take `latest` out of the pipeline file"
        reason = f"a TTL of its log {log.table} deletes rows, and a key's newest row may be one of them"
        raise TargetRefused(name, reason, remedy)
    return log


def _read_log(client: Client, newest: Newest) -> TargetTable | None:
    database, _, source = newest.source.partition(".")
    return read_table(client, database, source)


def _check_table(client: Client, target_table: TargetTable, newest: Newest, anew: str) -> None:
    """`anew`: what makes the table as the pipeline file and its log say."""
    name, quoted = target_table.table, table(target_table.table)
    types = {column.name: column.type for column in target_table.columns if column.filled}
    for own, kind in OWN.items():
        if types.get(own) != kind:
            reason = f"it has no column {own} {kind}, by which `latest` tells the newest row"
            raise TargetRefused(name, reason, anew)
    if not target_table.storage.full.startswith(_ENGINE):
        reason = f"its engine is {target_table.engine}, not ReplacingMergeTree({VERSION}, {DELETED})"
        raise TargetRefused(name, reason, anew)
    if {part.strip(" `()") for part in target_table.sorting_key.split(",")} != set(newest.key):
        expected = ", ".join(newest.key)
        reason = f"its ORDER BY is {target_table.sorting_key or 'empty'}, and the key is {expected}"
        raise TargetRefused(name, reason, anew)
    if not columns_in(target_table.partition_key) <= set(newest.key):
        reason = f"it is partitioned by {target_table.partition_key}: rows of a key are in several partitions"
        raise TargetRefused(name, reason, anew)
    if deleting(target_table.engine_full) or expiring_columns(client, target_table):
        raise TargetRefused(name, "its TTL takes newest rows away", f"ALTER TABLE {quoted} REMOVE TTL")
    if _CLEANUP in target_table.engine_full:
        setting = _CLEANUP.partition(" ")[0]
        reason = f"its setting {setting} forgets deletions, and an older hour would undo them"
        raise TargetRefused(name, reason, f"ALTER TABLE {quoted} RESET SETTING {setting}")
    for view_table in target_table.view_tables:
        reason = f"materialized view {view_table.view} reads it, and can't take replaced rows back"
        raise TargetRefused(name, reason, f"let it read {newest.source}")


def _values(
    target_table: TargetTable, log: TargetTable, newest: Newest, own: Mapping[str, Sql], anew: str
) -> dict[str, Sql]:
    columns = {column.name: column for column in log.columns if column.stored}
    values: dict[str, Sql] = {}
    for column in target_table.columns:
        if not column.filled:
            continue
        given = columns.get(column.name)
        if column.name in own:
            values[column.name] = own[column.name]
        elif given is not None:
            if not takes(parse(column.type), parse(given.type)):
                reason = f"its column {column.name} has type {column.type}, and in {log.table} {given.type}"
                modified = f"MODIFY COLUMN {identifier(column.name)} {given.type}"
                alter = f"ALTER TABLE {table(target_table.table)} {modified}"
                raise TargetRefused(target_table.table, reason, anew if column.name in newest.key else alter)
            values[column.name] = identifier(column.name)
        elif not column.default:
            raise TargetRefused(
                target_table.table,
                f"its column {column.name} is not one of {log.table}",
                f"ALTER TABLE {table(target_table.table)} DROP COLUMN {identifier(column.name)}",
            )
    return values


def check_whole(
    target: Target, newest: Newest, units: Mapping[Unit, SourceUnit], repair: Callable[[Unit], str]
) -> None:
    """Raises TargetRefused if the log lacks rows that it has committed. `units`: those that are due."""
    for unit, source in units.items():
        if not source.whole:
            rows = f"{source.counted:,} of the {source.row.rows:,} rows"
            reason = f"its log {newest.source} has {rows} that it has committed of slice {unit}"
            raise TargetRefused(target.table, reason, f"`{repair(unit)}` loads the log's again")


def check_placed(target: Target, newest: Newest, log: LedgerRows, stamp: str) -> None:
    """Raises TargetRefused if rows of one key may be on two shards."""
    moved = sorted(unit for unit, row in log.items() if row.sharding != stamp)
    if moved:
        span = f"{moved[0].slice.id} to {moved[-1].slice.id}"
        raise TargetRefused(
            target.table,
            f"{len(moved):,} slices of its log {newest.source} ({span}) were placed on other shards than the "
            "pipeline file says now: a key may be on two",
            "run these hours with mode reload",
        )


@dataclass(frozen=True)
class NewestStaging(DerivedStaging):
    """`everything`: units were revoked by a load that was stopped, and their keys may be forgotten."""

    rollup: Newest
    everything: bool = False

    def _insert_own(self, failing: Sequence[Failing] = ()) -> None:
        newest, client = self.rollup, self.writer.client
        log = _log(client, newest, self.target.table)
        own = render("rollups/own_rows", fence=self.writer.attempt.fence)
        committed = Sql(f"(_slice, _cluster) IN ({committed_units(log)})")
        rows = own
        if self.everything:
            rows = committed
        elif any(work.replaces for work in self.works):
            rows = render(
                "rollups/affected_rows",
                key=listed(map(identifier, newest.key)),
                log=table(log.table),
                target=table(self.target_table.table),
                own=own,
                committed=committed,
            )
        sql = render(
            "rollups/stage_newest",
            staging=self.writer.attempt.staging,
            columns=listed(map(identifier, self.filling.columns)),
            values=listed(self.filling.values),
            log=table(log.table),
            rows=rows,
            settings=Sql(
                SEQUENTIAL if self.target_table.storage.replicated or self.source.replicated else ""
            ),
        )
        self.writer.run("stage", sql)

    def _check_again(self) -> None:
        check_newest(self.writer.client, self.pipeline, self.target_table, self.target, self.rollup)
