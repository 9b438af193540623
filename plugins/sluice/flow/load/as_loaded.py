"""A target table as it was when units were loaded: with the DEFAULTs, types and views of their rules. Pure.

What a table has by now was changed for rows to come. Rows of units that are loaded by their own rules get the
values that they had: computed by the expressions of then, in the types of then, and brought into the types of
now as ALTER TABLE brought those that were there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.clients.clickhouse.defaults import blank
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.errors import TargetRefused
from sluice.flow.load.casts.columns import HOLDERS
from sluice.state.rules import TableRules


def as_loaded(target_table: TargetTable, rules: TableRules) -> TargetTable:
    """Returns the table with the expressions of the rules' columns, and the SELECTs of their views.

    Raises TargetRefused for rows that have to be inserted where the server computes them by what is there
    now.
    """
    columns = tuple(_computing(column, rules) for column in target_table.columns)
    loaded = replace(with_views(target_table, rules), columns=columns)
    if not target_table.attachable:
        for what in _computed_anew(target_table, loaded):
            raise TargetRefused(
                target_table.table,
                f"{what} was changed since these hours were loaded, and a replicated table computes it "
                "when rows are inserted",
                "ALTER it back, or reload these hours, which takes the table as it is",
            )
    return loaded


def with_views(target_table: TargetTable, rules: TableRules) -> TargetTable:
    """Returns the table with the SELECTs that its views had."""
    views = tuple(
        replace(view_table, select=rules.views.get(view_table.view, view_table.select))
        for view_table in target_table.view_tables
    )
    return replace(target_table, view_tables=views)


def filled_as_loaded(columns: tuple[Column, ...], rules: TableRules) -> tuple[Column, ...]:
    """Returns the columns of `as_loaded` as events fill them: in the types of then."""
    return tuple(_filled(column, rules) for column in columns)


def refuse_altered(target_table: TargetTable, rules: TableRules) -> None:
    """Raises TargetRefused where rows that are there would get the values of another expression."""
    for column in target_table.columns:
        if _computing(column, rules).altered:
            raise TargetRefused(
                target_table.table,
                f"the expression of column {column.name} was altered since these hours were loaded, and "
                "would change rows that are there: only in a table with _topic, _partition and _offset can "
                "they stay",
                "ALTER it back, or reload these hours, which takes the table as it is",
            )


def _computing(column: Column, rules: TableRules) -> Column:
    _, kind, default = rules.definitions.get(column.name, ("", column.kind, column.default))
    if not column.stored or (kind, default) == (column.kind, column.default):
        return column
    # An empty expression cannot be given, and means the same.
    default = default or blank(column.type)
    return replace(column, kind=kind or "DEFAULT", default=default, altered=True)


def _filled(column: Column, rules: TableRules) -> Column:
    if column.name not in rules.definitions or column.name in HOLDERS or not column.stored:
        return column
    then, kind, default = rules.definitions[column.name]
    return replace(column, type=then, kind=kind, default=default, explicit=then != column.type)


def _computed_anew(now: TargetTable, loaded: TargetTable) -> Iterator[str]:
    for before, after in zip(loaded.columns, now.columns, strict=True):
        if before.altered and "MATERIALIZED" in (before.kind, after.kind):
            yield f"column {after.name}"
    for earlier, view_table in zip(loaded.view_tables, now.view_tables, strict=True):
        if earlier.select != view_table.select:
            yield f"view {view_table.view}"
