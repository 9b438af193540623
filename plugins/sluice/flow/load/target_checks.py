"""Refuses a target table that cannot be loaded exactly, with the statement that repairs it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sluice.clients.clickhouse import query_tree
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.hidden_rows import check_visible
from sluice.clients.clickhouse.inspect_tables import Passing, grant, read_passing, read_table
from sluice.clients.clickhouse.query_tree import explained
from sluice.clients.clickhouse.sql import Sql, identifier, literal, render, table
from sluice.clients.clickhouse.tables import Column, OtherReader, TargetTable, ViewTable, written_by
from sluice.clients.clickhouse.types import parse
from sluice.config.clickhouse import BY_PARTITION
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import OTHERS, Missing, Newest, Rollup
from sluice.errors import TableMissing, TargetRefused
from sluice.field_path import paths_of
from sluice.flow.load.casts import event_paths
from sluice.flow.load.casts.casts import UnsupportedType
from sluice.flow.load.casts.column_sql import holds_null
from sluice.flow.load.casts.columns import ALWAYS, HOLDERS, Columns, Filling, fill, filled_fields
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.flow.load.count_targets import check_counts
from sluice.flow.load.failing_defaults import columns_read, with_computed
from sluice.flow.load.rollups import staging as rollups
from sluice.flow.load.rollups.newest import check_log, check_newest
from sluice.flow.load.row_checks import check_conditions
from sluice.state.departed_tables import check_written, creations, lacking

_REMEDY = "change its type, or make it MATERIALIZED or an ALIAS"
_STATE_REMEDY = (
    "keep the state in a table of its own, which a materialized view of this one fills: "
    "CREATE MATERIALIZED VIEW … TO … AS SELECT sumState(…) … GROUP BY …, _slice, _cluster"
)


def inspect_target(
    client: Client,
    pipeline: Pipeline,
    target: Target,
    then: Mapping[str, str] = MappingProxyType({}),
    own_rules: bool = False,
    checks: bool = True,
) -> tuple[TargetTable, Filling]:
    """Returns the table as it is and how its columns are filled; nothing is written. `then`: of a rollup by
    the rules of an earlier load, the types that its columns had. `own_rules`: the target is as it was then.
    Without `checks` its conditions on rows are not looked at.

    Raises TargetRefused for a missing table, an engine that merges rows away, missing `_slice` and
    `_cluster`, types that Sluice does not fill, rows that are hidden from its user, and materialized views
    whose rows it could not replace.
    """
    target_table = read_table(client, target.database, target.name)
    if target_table is None:
        if isinstance(target.rollup, Newest):
            check_log(client, target, target.rollup)
        remedy = creations(client, pipeline, [target.table])[target.table]
        raise TableMissing(target.table, "there is no such table", remedy)
    if not isinstance(target.rollup, Newest):
        _check_engine(target_table)
    _check_needed(target_table.table, target_table.columns)
    if target.counted:
        check_counts(target_table.table, target_table.columns)
    _check_lake_columns(target_table)
    check_written(client, pipeline, target_table)
    for view_table in target_table.stored:
        _check_needed(view_table.table, view_table.columns)
    check_visible(client, target_table.tables)
    check_views(client, target_table)
    view_tables = (view_table.table for view_table in target_table.view_tables)
    above = read_passing(client, list(dict.fromkeys((target_table.table, *view_tables))))
    check_passing(above)
    check_feeders(client, pipeline, target_table, above)
    if isinstance(target.rollup, Newest):
        return target_table, check_newest(client, pipeline, target_table, target, target.rollup)
    if isinstance(target.rollup, Rollup):
        return target_table, rollups.check_rollup(client, target_table, target, target.rollup, then)
    _check_paths(target_table, target)
    _check_names(target_table, target)
    _check_place(client, pipeline, target_table)
    if checks:
        check_conditions(client, target_table, target, own_rules)
    target_table = with_computed(client, target_table)
    return target_table, _filling(client, target_table, target)


def _check_engine(target_table: TargetTable) -> None:
    if not target_table.storage.keeps:
        raise TargetRefused(
            target_table.table,
            f"its engine is {target_table.engine}, which Sluice does not load (rows that merge away, or are "
            "kept elsewhere, cannot be counted)",
            "load a MergeTree table; `latest` of that keeps the newest row of each key in a "
            "ReplacingMergeTree, and a materialized view with _slice in its ORDER BY feeds others",
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
    for key, names in (("columns", target.columns), ("missing", by_column), ("times", target.times)):
        for name in names:
            if name not in fillable and (key, name) != ("missing", OTHERS):
                columns = {column.name for column in target_table.columns}
                without = f"take it out of `{key}` in the pipeline file"
                remedy = event_paths.remedy(target_table.table, name, "String", columns, without)
                reason = f"`{key}` names {name}, and the table has no such column that takes a field"
                raise TargetRefused(target_table.table, reason, remedy)


def _check_names(target_table: TargetTable, target: Target) -> None:
    for column in target_table.columns:
        fields = map(".".join, paths_of(column.name, target.columns))
        reserved = [field for field in fields if RESERVED in field.split(".")]
        if column.taken and column.name not in HOLDERS and reserved:
            raise TargetRefused(
                target_table.table,
                f"column {column.name} takes the field {reserved[0]}, and ClickHouse reserves the name "
                f"{RESERVED}",
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
        needed = required(target_table.columns, target)
        filling = fill(target_table.columns, target.columns, needed, target.spelled)
    except UnsupportedType as error:
        raise TargetRefused(
            target_table.table,
            f"{error}, which no JSON value fills",
            _STATE_REMEDY if "AggregateFunction(" in str(error) else _REMEDY,
        ) from error
    _check_materialized(client, target_table)
    return filling


def required(columns: Columns, target: Target) -> dict[str, Missing]:
    """Returns the columns without which a row is rejected: of those that a value would be made up for all
    that the file demands, of the others what it names. A field that no object holds needs none."""
    named = target.missing if isinstance(target.missing, Mapping) else {}
    needed: dict[str, Missing] = {name: "reject" for name, demand in named.items() if demand == "reject"}
    for column, paths in filled_fields(columns, target.columns)[0]:
        demand = target.demand(column.name)
        made_up = not (holds_null(column) or column.default)
        if made_up and (demand == "reject" or (demand == "object" and any(len(path) > 1 for path in paths))):
            needed[column.name] = demand
    needed.pop(OTHERS, None)
    return dict(sorted(needed.items()))


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


# Refuses tables that another program's view writes to: a unit's deletion would delete those rows, too.
_APART = "give each a table of its own, and read them together through a Merge table or a view with UNION ALL"


def check_feeders(
    client: Client, pipeline: Pipeline, target_table: TargetTable, above: Sequence[Passing] = ()
) -> None:
    """`above` stand over the target and its views' tables.

    Raises TargetRefused, and what the client raises.
    """
    views = {item.table: item.view for item in target_table.view_tables}
    own_views = {item.view for item in target_table.view_tables}
    bases = {passing.place: passing.base for passing in above}
    for view, written in _writers(client, [target_table.table, *views, *bases]):
        name = bases.get(written, written)
        if name == target_table.table:
            raise TargetRefused(name, f"materialized view {view} writes to it, too", _APART)
        if name in views and view not in own_views:
            raise TargetRefused(
                name,
                f"materialized view {views[name]} of {target_table.table} writes to it, and so does {view}, "
                "which is not a view of that table",
                _APART,
            )
    for name, owner in _loaded(client, pipeline, list(views)):
        raise TargetRefused(
            name,
            f"materialized view {views[name]} of {target_table.table} writes to it, and pipeline {owner!r} "
            "loads it",
            f"{_APART}; if no load uses it any more: "  # noqa: S608 - printed, and quoted
            f"DELETE FROM sluice.targets WHERE target = {literal(name)}",
        )


def _writers(client: Client, tables: list[str]) -> list[tuple[str, str]]:
    """Returns (view, table) of the views that may write to one of these tables, as far as the user sees
    them."""
    # In a definition a name is quoted, and what is escaped then is left out here.
    texts = [re.split(r"[\\`]", name.partition(".")[2])[0] for name in tables]
    return [
        (f"{database}.{view}", ".".join(written_by(database, uuid, text)))
        for database, view, uuid, text in client.rows(render("load/views_naming"), {"texts": texts})
    ]


def _loaded(client: Client, pipeline: Pipeline, tables: list[str]) -> list[tuple[str, str]]:
    """Returns (table, pipeline) of those that are targets, by the pipeline file or by their claims."""
    mine = [(target.table, pipeline.name) for target in pipeline.targets if target.table in tables]
    if mine or not tables:
        return mine
    try:
        return [(name, owner) for name, owner in client.rows(render("load/read_targets"), {"tables": tables})]
    except ServerError as error:
        if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            raise
        return []


# Refuses views that read a target through a table above it: loaded rows do not pass through that.
def check_passing(above: Sequence[Passing]) -> None:
    """Raises TargetRefused."""
    for passing in above:
        for view in passing.views:
            raise TargetRefused(
                passing.base,
                f"{view} reads {passing.place}, a {passing.engine} over it, and would get none of its rows: "
                f"they are put into {passing.base} itself",
                f"let it read {passing.base}, or DROP VIEW {table(view)}",
            )


# Refuses materialized views whose rows cannot be deleted and computed again unit by unit.
def check_views(client: Client, target_table: TargetTable) -> None:
    """Raises TargetRefused, and what the client raises."""
    for unseen in target_table.unseen:
        raise _unseen(client, unseen)
    sources = {view.source for view in target_table.view_tables}
    for view in target_table.view_tables:
        if view.storage.stores:
            _check_table(view)
        if view.storage.stores or view.table in sources:
            _check_select(client, view)


def _understood(client: Client, view: ViewTable) -> list[str]:
    try:
        return explained(client, view.select)
    except ServerError as error:
        if error.retryable:
            raise
        raise TargetRefused(
            view.called,
            f"the server does not understand the SELECT of materialized view {view.view}: {error.reason}",
            f"ALTER TABLE {table(view.view)} MODIFY QUERY …, or DROP VIEW {table(view.view)}",
        ) from error


def _unseen(client: Client, unseen: OtherReader) -> TargetRefused:
    if unseen.engine:
        reason = f"{unseen.view}, a {unseen.engine}, gets its rows, and Sluice cannot take them back there"
        return TargetRefused(unseen.source, reason, f"DROP TABLE {table(unseen.view)}")
    return TargetRefused(
        unseen.source,
        f"{unseen.view} gets its rows, and the user of the connection may not see what it is",
        f"`{grant(client, ['SHOW COLUMNS'], table(unseen.view))}`; the table that it writes to takes SELECT, "
        "INSERT and ALTER DELETE",
    )


def _check_table(view: ViewTable) -> None:
    if not view.storage.merge_tree:
        reason = f"materialized view {view.view} writes to it, and its engine is {view.engine or 'unknown'}"
        raise TargetRefused(view.called, reason, "let the view write to a table of the MergeTree family")
    for column in view.columns:
        if column.name in ALWAYS and parse(column.type).plain.name not in HOLDERS[column.name]:
            reason = f"its column {column.name} has type {column.type}, which does not hold a unit's as it is"
            raise TargetRefused(
                view.called, reason, "make it anew with the target's types of _slice and _cluster"
            )
    keys = {part.strip(" `") for part in view.sorting_key.split(",")}
    if not view.storage.keeps and not set(ALWAYS) <= keys:
        raise TargetRefused(
            view.called,
            f"materialized view {view.view} writes to it, and {view.engine} would merge slices into "
            "each other",
            "make it anew with _slice and _cluster in its ORDER BY; or DROP the view, and let `latest` of "
            "its source keep the newest row of each key",
        )


def _check_select(client: Client, view: ViewTable) -> None:
    tree = query_tree.pushed(query_tree.parse(_understood(client, view)))
    absent = [needed for needed in ALWAYS if needed not in query_tree.names(tree)]
    if absent:
        names = " and ".join(absent)
        remedy = f"ALTER TABLE {table(view.view)} MODIFY QUERY, with {names} in its SELECT"
        raise TargetRefused(view.called, f"materialized view {view.view} does not select {names}", remedy)
    if not query_tree.reads_once(tree, view.source):
        raise TargetRefused(
            view.called,
            f"materialized view {view.view} reads {view.source} in more than one place: what it gives "
            "depends on the blocks in which rows come",
            "let it read its source once, and make a rollup of what needs more (`rollups:`)",
        )
    for name in ALWAYS:
        if not query_tree.passes(tree, name, view.source):
            raise TargetRefused(
                view.called,
                f"materialized view {view.view} does not give {name} of {view.source} as it is: a unit's "
                "rows could not be found again",
                f"ALTER TABLE {table(view.view)} MODIFY QUERY, with {name} itself in its SELECT, and what is "
                "computed of it under another name",
            )
