"""Refuses tables that another program's view writes to: a unit's deletion would delete those rows, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.passing import Passing
from sluice.clients.clickhouse.sql import literal, render
from sluice.clients.clickhouse.tables import TargetTable, written_by
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused

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
