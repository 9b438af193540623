"""Which columns of a table can be compared with what the lake gives, and as what expression."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import expiring_columns
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render
from sluice.clients.clickhouse.tables import Column, TargetTable, ViewTable
from sluice.flow.verify.read_view_shapes import changing as changing_columns
from sluice.flow.verify.ttl import deleting, instants

# Their bytes depend on how parts were merged; as text the same value reads the same.
_AS_TEXT = re.compile(r"\b(JSON|Object|Dynamic|Variant)\b")
# The order of rows decides what these give, or their state's bytes.
_BY_ORDER = re.compile(r"\b(AggregateFunction|Float32|Float64|BFloat16)\b")
IDENTITY = ("_topic", "_partition", "_offset")
MARGIN_SECONDS = 3600  # what expires while two tables are compared is left out of both


@dataclass(frozen=True)
class Comparison:
    """The `columns` that are compared, in the table's order, and of the others why not."""

    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...]
    kept: Sql

    def without(self, later: Collection[str]) -> Comparison:
        """Leaves out columns that the table has got since: no load has given their values."""
        return replace(self, columns=tuple(column for column in self.columns if column.name not in later))

    @property
    def row(self) -> Sql:
        """All compared values of a row as one tuple; the fixed end makes it one of a single column, too."""
        return Sql(f"tuple({listed([*map(value, self.columns), '0'])})")

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell a row from all others; none where the table lacks them."""
        names = {column.name for column in self.columns}
        return (*IDENTITY, *(("_row",) if "_row" in names else ())) if names >= set(IDENTITY) else ()


def value(column: Column) -> Sql:
    name = identifier(column.name)
    for chosen in ("Dynamic", "Variant"):  # the text of 1 and "1" is the same
        if column.type.startswith(chosen):
            return Sql(f"tuple(toString({name}), toString({chosen.lower()}Type({name})))")
    return Sql(f"toString({name})") if _AS_TEXT.search(column.type) else name


def compare(client: Client, compared_table: TargetTable | ViewTable, derived: bool) -> Comparison:
    """`derived`: a SELECT gave the rows, in any order. Raises what the client raises."""
    expiring = expiring_columns(client, compared_table)
    changing = changing_columns(client, compared_table.columns)
    left_out: list[tuple[str, str]] = []
    columns: list[Column] = []
    for column in compared_table.columns:
        if not column.filled:
            left_out.append((column.name, f"it is {column.kind}"))
        elif column.name in expiring:
            left_out.append((column.name, "its TTL takes values away"))
        elif column.name in changing:
            left_out.append((column.name, "its DEFAULT may give another value each time"))
        elif derived and _BY_ORDER.search(column.type):
            left_out.append((column.name, f"a {column.type} depends on the order of rows"))
        else:
            columns.append(column)
    return Comparison(tuple(columns), tuple(left_out), _kept(client, compared_table))


def _kept(client: Client, compared_table: TargetTable | ViewTable) -> Sql:
    """Returns the condition on rows that have not expired by any TTL, now nor within the margin."""
    expiries = deleting(compared_table.engine_full)
    if not expiries:
        return Sql("1")
    [(now,)] = client.rows(render("clickhouse/evaluate", expression=Sql("toUnixTimestamp(now())")))
    until = int(now) + MARGIN_SECONDS
    return Sql(f"NOT arrayExists(expiry -> expiry != 0 AND expiry <= {until}, [{instants(expiries)}])")
