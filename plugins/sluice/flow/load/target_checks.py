"""Refuses a target table that cannot be loaded exactly, with the statement that repairs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.passing import read_passing
from sluice.clients.clickhouse.sql import Sql, identifier, render, table
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.clickhouse.types import parse
from sluice.config.clickhouse import BY_PARTITION
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import TableMissing, TargetRefused
from sluice.flow.load import new_column
from sluice.flow.load.casts.casts import UnsupportedType
from sluice.flow.load.casts.columns import HOLDERS, Filling, fill
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.flow.load.casts.lacking import holds_null
from sluice.flow.load.computed_defaults import columns_read, with_computed
from sluice.flow.load.count_targets import check_counts
from sluice.flow.load.foreign_views import check_feeders
from sluice.flow.load.passing_views import check_passing
from sluice.flow.load.rollups import target as rollups
from sluice.flow.load.view_checks import check_views
from sluice.state.last_ddl import check_written, creations
from sluice.state.target_ddl import lacking

ENGINES = ("MergeTree", "ReplicatedMergeTree")
_REMEDY = "change its type, or make it MATERIALIZED or an ALIAS"
_STATE_REMEDY = (
    "keep the state in a table of its own, which a materialized view of this one fills: "
    "CREATE MATERIALIZED VIEW … TO … AS SELECT sumState(…) … GROUP BY …, _slice, _cluster"
)


def inspect_target(
    client: Client, pipeline: Pipeline, target: Target, then: Mapping[str, str] = MappingProxyType({})
) -> tuple[TargetTable, Filling]:
    """Returns the table as it is and how its columns are filled; nothing is written. `then`: of a rollup by
    the rules of an earlier load, the types that its columns had.

    Raises TargetRefused for a missing table, an engine that merges rows away, missing `_slice` and
    `_cluster`, types that Sluice does not fill, and materialized views whose rows it could not replace.
    """
    target_table = read_table(client, target.database, target.name)
    if target_table is None:
        remedy = creations(client, pipeline, [target.table])[target.table]
        raise TableMissing(target.table, "there is no such table", remedy)
    _check_engine(target_table)
    _check_needed(target_table.table, target_table.columns)
    if target.counted:
        check_counts(target_table.table, target_table.columns)
    _check_lake_columns(target_table)
    check_written(client, pipeline, target_table)
    for view_table in target_table.stored:
        _check_needed(view_table.table, view_table.columns)
    check_views(client, target_table)
    view_tables = (view_table.table for view_table in target_table.view_tables)
    above = read_passing(client, list(dict.fromkeys((target_table.table, *view_tables))))
    check_passing(above)
    check_feeders(client, pipeline, target_table, above)
    if target.rollup is not None:
        return target_table, rollups.check_rollup(client, target_table, target, target.rollup, then)
    _check_paths(target_table, target)
    _check_names(target_table, target)
    _check_place(client, pipeline, target_table)
    target_table = with_computed(client, target_table)
    return target_table, _filling(client, target_table, target)


def _check_engine(target_table: TargetTable) -> None:
    if target_table.engine not in ENGINES:
        raise TargetRefused(
            target_table.table,
            f"its engine is {target_table.engine}, which Sluice does not load (rows that merge away, or are "
            "kept elsewhere, cannot be counted)",
            "load a MergeTree table and feed this one from it through a materialized view",
        )


def _check_needed(name: str, columns: tuple[Column, ...]) -> None:
    refusal = lacking(name, (column.name for column in columns if column.filled))
    if refusal is not None:
        raise TargetRefused(name, *refusal)


def _check_lake_columns(target_table: TargetTable) -> None:
    for column in target_table.columns:
        allowed = HOLDERS.get(column.name)
        if allowed and column.taken and parse(column.type).plain.name not in allowed:
            kinds = " or ".join(sorted(allowed))
            raise TargetRefused(
                target_table.table,
                f"column {column.name} has type {column.type}, which cannot hold the lake's column",
                f"ALTER TABLE {table(target_table.table)} MODIFY COLUMN {identifier(column.name)} {kinds}",
            )


def _check_paths(target_table: TargetTable, target: Target) -> None:
    fillable = {column.name for column in target_table.columns if column.taken} - set(HOLDERS)
    by_column = target.missing if isinstance(target.missing, Mapping) else {}
    for key, names in (("columns", target.columns), ("missing", by_column)):
        for name in names:
            if name not in fillable:
                columns = {column.name for column in target_table.columns}
                without = f"take it out of `{key}` in the pipeline file"
                remedy = new_column.remedy(target_table.table, name, "String", columns, without)
                reason = f"`{key}` names {name}, and the table has no such column that takes a field"
                raise TargetRefused(target_table.table, reason, remedy)


def _check_names(target_table: TargetTable, target: Target) -> None:
    for column in target_table.columns:
        path = target.columns.get(column.name, column.name)
        if column.taken and column.name not in HOLDERS and RESERVED in path.split("."):
            raise TargetRefused(
                target_table.table,
                f"column {column.name} takes the field {path}, and ClickHouse reserves the name {RESERVED}",
                "name another field under `columns`, or make it MATERIALIZED from a column `_payload`",
            )


def _check_place(client: Client, pipeline: Pipeline, target_table: TargetTable) -> None:
    """Raises TargetRefused unless `shard_by` gives a whole number, from the row's columns alone."""
    by = pipeline.clickhouse.placed_by(target_table.table)
    if by == BY_PARTITION:
        return
    remedy = "correct `shard_by`, for instance: cityHash64(user_id)"
    try:
        described = client.rows(
            render("load/describe_place", place=Sql(f"({by})"), table=table(target_table.table))
        )
    except ServerError as error:
        if error.retryable:
            raise
        raise TargetRefused(target_table.table, f"`shard_by: {by}`: {error.reason}", remedy) from error
    kind = described[0][1]
    if not re.fullmatch(r"U?Int\d+", parse(kind).plain.name):
        raise TargetRefused(target_table.table, f"`shard_by: {by}` gives {kind}, not a whole number", remedy)


def _filling(client: Client, target_table: TargetTable, target: Target) -> Filling:
    try:
        filling = fill(target_table.columns, target.columns, required(target_table.columns, target))
    except UnsupportedType as error:
        raise TargetRefused(
            target_table.table,
            f"{error}, which no JSON value fills",
            _STATE_REMEDY if "AggregateFunction(" in str(error) else _REMEDY,
        ) from error
    _check_materialized(client, target_table)
    return filling


def required(columns: Iterable[Column], target: Target) -> frozenset[str]:
    """Returns the columns without which a row is rejected."""
    if isinstance(target.missing, Mapping):
        return frozenset(name for name, missing in target.missing.items() if missing == "reject")
    if target.missing == "default":
        return frozenset()
    return frozenset(
        column.name
        for column in columns
        if column.taken and column.name not in HOLDERS and not (holds_null(column) or column.default)
    )


def _check_materialized(client: Client, target_table: TargetTable) -> None:
    """Raises TargetRefused for a MATERIALIZED column that reads an EPHEMERAL one. The INSERT from the staging
    table computes it again, and has no EPHEMERAL columns."""
    passing = {column.name for column in target_table.columns if column.kind == "EPHEMERAL"}
    for column in target_table.columns if passing else ():
        if column.kind != "MATERIALIZED":
            continue
        read = passing.intersection(columns_read(client.rows, target_table, column))
        if read:
            definition = f"{identifier(column.name)} {column.type} DEFAULT {column.default}"
            raise TargetRefused(
                target_table.table,
                f"MATERIALIZED column {column.name} reads {min(read)}, which is EPHEMERAL: where rows are "
                "inserted once more, it is computed without it",
                f"ALTER TABLE {table(target_table.table)} MODIFY COLUMN {definition}",
            )
