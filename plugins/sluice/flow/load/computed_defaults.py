"""Finds what the expressions of a table's columns read, and which DEFAULTs the server has to compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import Sql, identifier, own_prefix, render, table
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.clickhouse.types import parse
from sluice.errors import TargetRefused

_TABLE = re.compile(r"^ *TABLE id: (\d+),")
_COLUMN = re.compile(r" COLUMN id: \d+, column_name: (.+), result_type: .+, source_id: (\d+)$")


def with_computed(client: Client, target_table: TargetTable) -> TargetTable:
    """Returns the table with those columns marked whose DEFAULTs the load cannot evaluate by themselves, or
    that must not be evaluated for rows that have a value. Raises TargetRefused for one of a Nested."""
    columns = [_marked(client, target_table, column) for column in target_table.columns]
    for column in columns:
        if column.computed and parse(column.type).name == "Array" and "." in column.name:
            raise TargetRefused(
                target_table.table,
                f"the DEFAULT of column {column.name} ({column.type}) depends on other columns",
                f"make it constant: ALTER TABLE {table(target_table.table)} MODIFY COLUMN "
                f"{identifier(column.name)} {column.type} {column.kind} <constant>",
            )
    return replace(target_table, columns=tuple(columns))


def columns_read(
    rows: Callable[[Sql], Sequence[Sequence[Any]]], target_table: TargetTable, column: Column
) -> tuple[str, ...]:
    """Returns the columns that its expression reads, also by parts of them (`t.k`) and by an ALIAS, which is
    its own expression; `rows` runs a statement."""
    quoted = table(target_table.table)
    tree = [
        line
        for (line,) in rows(render("load/explain_expression", expression=Sql(column.default), table=quoted))
    ]
    tables = {match[1] for line in tree if (match := _TABLE.search(line))}
    names = {other.name for other in target_table.columns if other.kind != "ALIAS"}
    read = [
        _whole(match[1], names) for line in tree if (match := _COLUMN.search(line)) and match[2] in tables
    ]
    return tuple(name for name in dict.fromkeys(read) if name in names)


def _whole(name: str, names: set[str]) -> str:
    """Returns the column of which this is a part."""
    while name not in names and "." in name:
        name = name.rpartition(".")[0]
    return name


def _marked(client: Client, target_table: TargetTable, column: Column) -> Column:
    if not column.taken or not column.default:
        return column
    reads = columns_read(client.rows, target_table, column) if _names_another(target_table, column) else ()
    computed = bool(reads) or (column.needs_constant and not _is_constant(client, column))
    return replace(column, computed=computed, reads=reads, own=own_prefix(_names(target_table)))


def _names(target_table: TargetTable) -> list[str]:
    return [column.name for column in target_table.columns]


def _names_another(target_table: TargetTable, column: Column) -> bool:
    """Returns whether it may read another column: the server is asked of those only."""
    words = _words(column.default)
    return any(_words(other.name) <= words for other in target_table.columns if other.name != column.name)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _is_constant(client: Client, column: Column) -> bool:
    try:
        client.rows(render("clickhouse/evaluate", expression=Sql(column.default)))
    except ServerError as error:
        if error.retryable:
            raise
        return False
    return True
