"""Refuses `evolve: add` where a column cannot be added, or would break what reads the table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import TargetRefused
from sluice.state.target_ddl import over

_RIGHT = Sql("ALTER ADD COLUMN")
_ALL = re.compile(r" *(Qualified)?(Asterisk|ColumnsRegexpMatcher)\b")
_COUNTS = " Function count ("


def check_may_add(client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable) -> None:
    """Raises TargetRefused where `evolve: add` lacks the right, or a SELECT would take the new columns to a
    table that has none of them; and what the client raises."""
    if not target.evolves:
        return
    name = table(target.table)
    [(granted,)] = client.rows(render("clickhouse/check_grant", rights=_RIGHT, place=name))
    if not int(granted):
        raise TargetRefused(
            target.table,
            f"`evolve: add`: the user of the connection lacks {_RIGHT}",
            f"GRANT {_RIGHT} ON {name} to the user, or set `evolve: off`",
        )
    for reader, select in _selects(pipeline, target_table):
        tree = client.rows(render("load/explain_syntax", select=Sql(select)))
        if takes_all([line for (line,) in tree]):
            raise TargetRefused(
                target.table,
                f"`evolve: add`: {reader} selects all its columns, and its own table would lack the new ones",
                "name the columns in its SELECT, or set `evolve: off`",
            )


def _selects(pipeline: Pipeline, target_table: TargetTable) -> Iterator[tuple[str, str]]:
    for view_table in target_table.view_tables:
        if view_table.source == target_table.table:
            yield f"view {view_table.view}", view_table.select
    for name, rollup in pipeline.rollups.items():
        if rollup.source == target_table.table:
            yield f"rollup {name}", over(rollup, table(target_table.table))


def takes_all(tree: Sequence[str]) -> bool:
    """Returns whether a SELECT has columns that it does not name; `count(*)` has none."""
    return any(
        _ALL.match(line) and _COUNTS not in (tree[number - 2] if number > 1 else "")
        for number, line in enumerate(tree)
    )
