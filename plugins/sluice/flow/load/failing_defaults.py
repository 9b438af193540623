"""Finds the rows for which a column's DEFAULT fails: for one of them the server refuses its whole INSERT.

Nothing in SQL asks whether an expression fails without failing itself. So halves of the rows are tried, in a
table that computes the DEFAULTs and keeps nothing, until single rows are left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError, shorten
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, own_prefix, render, table
from sluice.clients.clickhouse.tables import Column, TargetTable, blank
from sluice.clients.clickhouse.types import parse
from sluice.errors import DefaultFails, TargetRefused
from sluice.flow.load.casts.columns import Filling
from sluice.flow.load.source.pull_or_push import definitions, filled
from sluice.flow.load.writer import Writer
from sluice.slices import Unit

MOST = 100
"""Rows of one run that become rejected rows by a DEFAULT; each takes some twenty statements to be found."""

RecordId = tuple[str, str, int, int, int]
_IDENTITY = ("_cluster", "_topic", "_partition", "_offset", "_row")


@dataclass(frozen=True)
class Failing:
    """`number` is the row's among the suspects, `reason` what the server says of it."""

    number: int
    unit: Unit
    record: RecordId
    column: Column
    reason: str

    @property
    def fault(self) -> str:
        return f"{self.column.type} {self.column.kind} {self.column.default}: {shorten(self.reason, 200)}"


def other_records(failing: Iterable[Failing]) -> Sql:
    """Returns the condition on the lake's rows that they are none of these."""
    names = listed(map(identifier, _IDENTITY))
    rows = listed(_tuple(one.record) for one in failing)
    return Sql(f"({names}) NOT IN ({rows})") if rows else Sql("1")


def _tuple(record: RecordId) -> Sql:
    cluster, topic, *numbers = record
    return Sql(f"({listed([literal(cluster), literal(topic), *map(str, numbers)])})")


@dataclass
class DefaultSuspects:
    """The rows of one run; `close` drops what the search makes."""

    target_table: TargetTable
    filling: Filling
    writer: Writer
    rows: int = 0
    _probes: dict[int, Sql] = field(default_factory=dict)

    @property
    def _table(self) -> Sql:
        return self.writer.attempt.temporary("suspects")

    @property
    def _columns(self) -> Sql:
        return listed(map(identifier, (*self.filling.lake_columns, "_slice")))

    @cached_property
    def _computed(self) -> list[Column]:
        """Columns that the server behind an INSERT computes, each behind those that its expression reads."""
        kinds = ("DEFAULT", "MATERIALIZED")
        computed = {
            column.name: column
            for column in self.target_table.columns
            if column.computed or (column.kind in kinds and not (column.taken and column.needs_constant))
        }
        order = TopologicalSorter({name: self._read(column) for name, column in computed.items()})
        return [computed[name] for name in order.static_order() if name in computed]

    def _read(self, column: Column) -> tuple[str, ...]:
        if column.taken:
            return column.reads
        return columns_read(self.writer.rows, self.target_table, column)

    def add(self, sources: Iterable[Sql], condition: Sql) -> None:
        columns = self._columns
        kinds = Sql(definitions(self.filling.lake_columns, with_slice=True))
        self.writer.run("search", render("load/create_suspects", suspects=self._table, definitions=kinds))
        for source in sources:
            parts = {"source": source, "wanted": condition, "first": Sql(str(self.rows))}
            self.writer.run(
                "search", render("load/fill_suspects", suspects=self._table, columns=columns, **parts)
            )
            [(self.rows,)] = self.writer.rows(render("clickhouse/count_table", table=self._table))

    def find(self) -> list[Failing]:
        """Finds failing rows; empty where no DEFAULT is at fault, for the rows fail also with none computed.
        Raises DefaultFails where more than MOST rows fail."""
        failing: list[Failing] = []
        if not self._computed or self._error(0, self.rows, 0) is not None:
            return failing
        ranges = [(0, self.rows)]
        while ranges:
            first, end = ranges.pop()
            if first == end or self._error(first, end, len(self._computed)) is None:
                continue
            if end - first == 1:
                failing.append(self._failing(first))
                self._check_few(failing)
                continue
            middle = (first + end) // 2
            ranges += [(middle, end), (first, middle)]
        return failing

    def reject(self, failing: Failing, rejected_rows: Sql, target: str) -> None:
        sql = render(
            "load/stage_rejected_rows",
            rejected_rows=rejected_rows,
            column=literal(failing.column.name),
            reason=literal(f"does not fit {failing.fault}"),
            value=literal(""),
            rows=self._range(failing.number, failing.number + 1),
            block=self.filling.block,
        )
        self.writer.run("rejected_rows", sql, {"target": target})

    def close(self) -> None:
        for temporary in (self._table, *self._probes.values()):
            self.writer.run("search", render("clickhouse/drop_table", table=temporary))

    def _range(self, first: int, end: int) -> Sql:
        columns = self._columns
        parts = {"first": Sql(str(first)), "end": Sql(str(end))}
        return render("load/source_suspects", columns=columns, suspects=self._table, **parts)

    def _error(self, first: int, end: int, computed: int) -> ServerError | None:
        """Returns what the server says of these rows, when it computes the first of the columns only."""
        sql = render(
            "load/stage_rows",
            staging=self._probe(computed),
            columns=listed(map(identifier, self.filling.into)),
            values=listed(self.filling.values),
            rows=filled(self.filling, self.filling.lake_columns, self._range(first, end), Sql("1")),
            unfit=self.filling.unfit,
            block=self.filling.block,
        )
        try:
            self.writer.run("search", sql)
        except ServerError as error:
            if error.retryable:
                raise
            return error
        return None

    def _probe(self, computed: int) -> Sql:
        if computed not in self._probes:
            probe = self.writer.attempt.temporary(f"probe{computed}")
            still = {column.name for column in self._computed[computed:]}
            kinds = listed(
                (_blank(c) if c.name in still else c).definition for c in self.target_table.columns
            )
            self._probes[computed] = probe
            self.writer.run("search", render("load/create_entry", entry=probe, definitions=kinds))
        return self._probes[computed]

    def _failing(self, number: int) -> Failing:
        """Returns the first column without which, and all behind it, the row can be computed."""
        low, high = 0, len(self._computed)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._error(number, number + 1, middle) else (middle, high)
        error = self._error(number, number + 1, high)
        suspect = render("load/suspect", suspects=self._table, number=Sql(str(number)))
        [(start, cluster, topic, partition, offset, row)] = self.writer.rows(suspect)
        record = (cluster, topic, int(partition), int(offset), int(row))
        unit = self.writer.unit_of(int(start), cluster)
        return Failing(number, unit, record, self._computed[high - 1], error.reason if error else "")

    def _check_few(self, failing: list[Failing]) -> None:
        if len(failing) <= MOST:
            return
        first, column = failing[0], failing[0].column
        cluster, topic, partition, offset, _ = first.record
        raise DefaultFails(
            self.target_table.table,
            f"the {column.kind} {column.default} of column {column.name} fails for more than {MOST} rows of "
            f"slice {first.unit}, first for {cluster}/{topic}/{partition} offset {offset}: "
            f"{shorten(first.reason, 200)}",
            "give the column an expression that holds for all values, by ifNull() or functions …OrNull(): "
            f"ALTER TABLE {table(self.target_table.table)} MODIFY COLUMN {identifier(column.name)} "
            f"{column.type} {column.kind} <expression>",
        )


def _blank(column: Column) -> Column:
    return replace(column, default=blank(column.type))


# Finds what the expressions of a table's columns read, and which DEFAULTs the server has to compute.
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
