"""Refuses materialized views whose rows cannot be deleted and computed again unit by unit."""

from __future__ import annotations

from sluice.clients.clickhouse import query_tree
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.query_tree import explained
from sluice.clients.clickhouse.sql import table
from sluice.clients.clickhouse.tables import OtherReader, TargetTable, ViewTable
from sluice.clients.clickhouse.types import parse
from sluice.errors import TargetRefused
from sluice.flow.load.casts.columns import ALWAYS, HOLDERS


def check_views(client: Client, target_table: TargetTable) -> None:
    """Raises TargetRefused, and what the client raises."""
    for unseen in target_table.unseen:
        raise _unseen(unseen)
    sources = {view.source for view in target_table.view_tables}
    for view in target_table.view_tables:
        if view.stores:
            _check_table(view)
        if view.stores or view.table in sources:
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


def _unseen(unseen: OtherReader) -> TargetRefused:
    if unseen.engine:
        reason = f"{unseen.view}, a {unseen.engine}, gets its rows, and Sluice cannot take them back there"
        return TargetRefused(unseen.source, reason, f"DROP TABLE {table(unseen.view)}")
    return TargetRefused(
        unseen.source,
        f"{unseen.view} gets its rows, and the user of the connection may not see what it is",
        f"GRANT SHOW COLUMNS ON {table(unseen.view)} to the user, and SELECT, INSERT and ALTER DELETE on the "
        "table that it writes to",
    )


def _check_table(view: ViewTable) -> None:
    if not view.engine.endswith("MergeTree"):
        reason = f"materialized view {view.view} writes to it, and its engine is {view.engine or 'unknown'}"
        raise TargetRefused(view.called, reason, "let the view write to a table of the MergeTree family")
    for column in view.columns:
        if column.name in ALWAYS and parse(column.type).plain.name not in HOLDERS[column.name]:
            reason = f"its column {column.name} has type {column.type}, which does not hold a unit's as it is"
            raise TargetRefused(
                view.called, reason, "make it anew with the target's types of _slice and _cluster"
            )
    keys = {part.strip(" `") for part in view.sorting_key.split(",")}
    if view.engine not in ("MergeTree", "ReplicatedMergeTree") and not set(ALWAYS) <= keys:
        raise TargetRefused(
            view.called,
            f"materialized view {view.view} writes to it, and {view.engine} would merge slices into "
            "each other",
            "make it anew with _slice and _cluster in its ORDER BY",
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
