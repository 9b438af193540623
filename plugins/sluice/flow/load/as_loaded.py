"""A target table as it was when units were loaded: with the DEFAULTs, types and views of their rules. Pure.

What a table has by now was changed for rows to come. Rows of units that are loaded by their own rules get the
values that they had: computed by the expressions of then, in the types of then, and brought into the types of
now as ALTER TABLE brought those that were there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.clients.clickhouse.defaults import blank
from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.clickhouse.types import parse
from sluice.errors import TargetRefused
from sluice.flow.load.casts.columns import HOLDERS
from sluice.state.rules import TableRules


def as_loaded(target_table: TargetTable, rules: TableRules) -> TargetTable:
    """Returns the table with the expressions of the rules' columns, and with their views: one that came since
    has no rows of these units.

    Raises TargetRefused for rows that have to be inserted where the server computes them by what is there
    now.
    """
    columns = tuple(_computing(column, rules) for column in target_table.columns)
    views = tuple(
        replace(view_table, select=rules.views[view_table.view])
        for view_table in target_table.view_tables
        if view_table.view in rules.views
    )
    loaded = replace(target_table, columns=columns, view_tables=views)
    if not target_table.attachable:
        for what in _computed_anew(target_table, loaded):
            raise TargetRefused(
                target_table.table,
                f"{what} was changed since these hours were loaded, and a replicated table computes it "
                "when rows are inserted",
                "ALTER it back, or reload these hours, which takes the table as it is",
            )
    return loaded


def filled_as_loaded(
    loaded: TargetTable, now: TargetTable, rules: TableRules, types: bool
) -> tuple[Column, ...]:
    """Returns the columns of `as_loaded` as events fill them; without `types` in those of now."""
    pairs = zip(loaded.columns, now.columns, strict=True)
    return tuple(_filled(column, column_now, rules, types) for column, column_now in pairs)


def _computing(column: Column, rules: TableRules) -> Column:
    _, kind, default, _ = rules.definitions.get(column.name, ("", column.kind, column.default, ""))
    passing = "EPHEMERAL" in (kind, column.kind) and kind != column.kind
    if passing or "ALIAS" in (kind, column.kind) or (kind, default) == (column.kind, column.default):
        return column
    # An empty expression cannot be given, and means the same.
    default = default or blank(column.type)
    return replace(column, kind=kind or "DEFAULT", default=default, altered=True)


def _filled(column: Column, now: Column, rules: TableRules, types: bool) -> Column:
    if column.name not in rules.definitions or column.name in HOLDERS or not column.stored:
        return column
    then, kind, default, absent = rules.definitions[column.name]
    type_ = then if types else column.type
    null = ""
    if not parse(absent).stored.nullable and absent != column.type:
        null = _default_of(absent, default)
    elif parse(type_).stored.nullable and not column.may_be_null:
        null = _default_of(now.type, now.default)  # which ALTER TABLE put in place of NULLs
    return replace(column, type=type_, kind=kind, default=default, null=null)


def _default_of(kind: str, default: str) -> str:
    return f"CAST({default or blank(kind)}, {literal(kind)})"


def _computed_anew(now: TargetTable, loaded: TargetTable) -> Iterator[str]:
    for before, after in zip(loaded.columns, now.columns, strict=True):
        if before.altered and "MATERIALIZED" in (before.kind, after.kind):
            yield f"column {after.name}"
    selects = {view_table.view: view_table.select for view_table in loaded.view_tables}
    for view_table in now.view_tables:
        if selects.get(view_table.view) != view_table.select:
            yield f"view {view_table.view}"
