"""Refuses a target table that cannot be loaded exactly, with the statement that repairs it."""

from __future__ import annotations

import re

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
from sluice.flow.load.casts.casts import UnsupportedType
from sluice.flow.load.casts.columns import HOLDERS, Filling, fill
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.flow.load.computed_defaults import columns_read, with_computed
from sluice.flow.load.count_targets import check_counts
from sluice.flow.load.foreign_views import check_feeders
from sluice.flow.load.passing_views import check_passing
from sluice.flow.load.rollups import target as rollups
from sluice.flow.load.view_checks import check_views
from sluice.state.target_ddl import creation, lacking

ENGINES = ("MergeTree", "ReplicatedMergeTree")
_REMEDY = "change its type, or make it MATERIALIZED or an ALIAS"
_STATE_REMEDY = (
    "keep the state in a table of its own, which a materialized view of this one fills: "
    "CREATE MATERIALIZED VIEW … TO … AS SELECT sumState(…) … GROUP BY …, _slice, _cluster"
)


def inspect_target(client: Client, pipeline: Pipeline, target: Target) -> tuple[TargetTable, Filling]:
    """Returns the table as it is and how its columns are filled; nothing is written.

    Raises TargetRefused for a missing table, an engine that merges rows away, missing `_slice` and
    `_cluster`, types that Sluice does not fill, and materialized views whose rows it could not replace.
    """
    found = read_table(client, target.database, target.name)
    if found is None:
        raise TableMissing(target.table, "there is no such table", creation(pipeline, target))
    _check_engine(found)
    _check_needed(found.table, found.columns)
    if target.counted:
        check_counts(found.table, found.columns)
    _check_lake_columns(found)
    for view_table in found.stored:
        _check_needed(view_table.table, view_table.columns)
    check_views(client, found)
    above = read_passing(
        client, list(dict.fromkeys((found.table, *(view_table.table for view_table in found.view_tables))))
    )
    check_passing(above)
    check_feeders(client, pipeline, found, above)
    if target.rollup is not None:
        return found, rollups.check_rollup(client, found, target, target.rollup)
    _check_paths(found, target)
    _check_names(found, target)
    _check_place(client, pipeline, found)
    found = with_computed(client, found)
    return found, _filling(client, found, target)


def _check_engine(found: TargetTable) -> None:
    if found.engine not in ENGINES:
        raise TargetRefused(
            found.table,
            f"its engine is {found.engine}, which Sluice does not load (rows that merge away, or are kept "
            "elsewhere, cannot be counted)",
            "load a MergeTree table and feed this one from it through a materialized view",
        )


def _check_needed(name: str, columns: tuple[Column, ...]) -> None:
    found = lacking(name, (column.name for column in columns if column.filled))
    if found is not None:
        raise TargetRefused(name, *found)


def _check_lake_columns(found: TargetTable) -> None:
    for column in found.columns:
        allowed = HOLDERS.get(column.name)
        if allowed and column.taken and parse(column.type).plain.name not in allowed:
            kinds = " or ".join(sorted(allowed))
            raise TargetRefused(
                found.table,
                f"column {column.name} has type {column.type}, which cannot hold the lake's column",
                f"ALTER TABLE {table(found.table)} MODIFY COLUMN {identifier(column.name)} {kinds}",
            )


def _check_paths(found: TargetTable, target: Target) -> None:
    known = {column.name for column in found.columns if column.taken} - set(HOLDERS)
    for name in target.columns:
        if name not in known:
            remedy = f"ALTER TABLE {table(found.table)} ADD COLUMN {identifier(name)} String"
            raise TargetRefused(found.table, f"`columns` fills {name}, and the table cannot take it", remedy)


def _check_names(found: TargetTable, target: Target) -> None:
    for column in found.columns:
        path = target.columns.get(column.name, column.name)
        if column.taken and column.name not in HOLDERS and RESERVED in path.split("."):
            raise TargetRefused(
                found.table,
                f"column {column.name} takes the field {path}, and ClickHouse reserves the name {RESERVED}",
                "name another field under `columns`, or make it MATERIALIZED from a column `_payload`",
            )


def _check_place(client: Client, pipeline: Pipeline, found: TargetTable) -> None:
    """A row's shard is found by a whole number, of its columns alone."""
    by = pipeline.clickhouse.placed_by(found.table)
    if by == BY_PARTITION:
        return
    remedy = "correct `shard_by`, for instance: cityHash64(user_id)"
    try:
        described = client.rows(render("load/describe_place", place=Sql(f"({by})"), table=table(found.table)))
    except ServerError as error:
        if error.retryable:
            raise
        raise TargetRefused(found.table, f"`shard_by: {by}`: {error.reason}", remedy) from error
    kind = described[0][1]
    if not re.fullmatch(r"U?Int\d+", parse(kind).plain.name):
        raise TargetRefused(found.table, f"`shard_by: {by}` gives {kind}, not a whole number", remedy)


def _filling(client: Client, found: TargetTable, target: Target) -> Filling:
    try:
        filling = fill(found.columns, target.columns)
    except UnsupportedType as error:
        raise TargetRefused(
            found.table,
            f"{error}, which no JSON value fills",
            _STATE_REMEDY if "AggregateFunction(" in str(error) else _REMEDY,
        ) from error
    _check_materialized(client, found)
    return filling


def _check_materialized(client: Client, found: TargetTable) -> None:
    """An INSERT from the staging table computes them again, when nothing knows EPHEMERAL columns any more."""
    passing = {column.name for column in found.columns if column.kind == "EPHEMERAL"}
    for column in found.columns if passing else ():
        if column.kind != "MATERIALIZED":
            continue
        read = passing.intersection(columns_read(client.rows, found, column))
        if read:
            definition = f"{identifier(column.name)} {column.type} DEFAULT {column.default}"
            raise TargetRefused(
                found.table,
                f"MATERIALIZED column {column.name} reads {min(read)}, which is EPHEMERAL: where rows are "
                "inserted once more, it is computed without it",
                f"ALTER TABLE {table(found.table)} MODIFY COLUMN {definition}",
            )
