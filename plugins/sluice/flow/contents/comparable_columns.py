"""Which columns of a table can be compared with what the lake gives, and as what expression."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import deterministic, expiring_columns
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render
from sluice.clients.clickhouse.tables import Column, TargetTable, ViewTable
from sluice.clients.clickhouse.types import parse
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.staged_load import Staged
from sluice.slices import Unit
from sluice.state.ledger import unit_of
from sluice.state.ttl import deleting, instants

# Their bytes depend on how parts were merged; as text the same value reads the same.
_AS_TEXT = re.compile(r"\b(JSON|Object|Dynamic|Variant)\b")
# The order of rows decides what these give, or their state's bytes.
_BY_ORDER = re.compile(r"\b(AggregateFunction|Float32|Float64|BFloat16)\b")
_FLOAT = re.compile(r"\b(Float32|Float64|BFloat16)\b")
# Of these the same rows give the same value, in any order.
_STATES = re.compile(r"(count|sum|min|max|uniq|uniqExact)(If)?")
IDENTITY = ("_topic", "_partition", "_offset")
MARGIN_SECONDS = 3600  # what expires while two tables are compared is left out of both


@dataclass(frozen=True)
class Comparison:
    """The `columns` that are compared, in the table's order, and of the others why not. `distinct`: each
    different row counts once."""

    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...]
    kept: Sql
    distinct: bool = False

    def of_different_rows(self) -> Comparison:
        """Compares each different row once: then the rows that are put together vary, and sums of floats."""
        return replace(self.leaving_out(_by_order(self.columns), _ORDERED), distinct=True)

    def leaving_out(self, names: Collection[str], why: str) -> Comparison:
        left_out = (*self.left_out, *((name, why) for name in sorted(names)))
        return replace(self.without(names), left_out=left_out)

    def without(self, later: Collection[str]) -> Comparison:
        """Leaves out columns that may be others by a new name."""
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
    if _finalized(column):
        return Sql(f"finalizeAggregation({name})")
    for chosen in ("Dynamic", "Variant"):  # the text of 1 and "1" is the same
        if column.type.startswith(chosen):
            return Sql(f"tuple(toString({name}), toString({chosen.lower()}Type({name})))")
    return Sql(f"toString({name})") if _AS_TEXT.search(column.type) else name


_ORDERED = "it depends on the order of rows"


def _finalized(column: Column) -> bool:
    kind = parse(column.type)
    return (
        kind.name == "AggregateFunction"
        and bool(_STATES.fullmatch(kind.arguments[0]))
        and not _FLOAT.search(column.type)
    )


def _by_order(columns: Sequence[Column]) -> list[str]:
    return [c.name for c in columns if _BY_ORDER.search(c.type) and not _finalized(c)]


def compare(client: Client, compared_table: TargetTable | ViewTable, ordered: bool) -> Comparison:
    """`ordered`: the order of rows decides what adding them up gives. Raises what the client raises."""
    expiring = expiring_columns(client, compared_table)
    changing = _changing(client, compared_table.columns)
    by_order = _by_order(compared_table.columns) if ordered else []
    left_out: list[tuple[str, str]] = []
    columns: list[Column] = []
    for column in compared_table.columns:
        if not column.filled:
            left_out.append((column.name, f"it is {column.kind}"))
        elif column.name in expiring:
            left_out.append((column.name, "its TTL takes values away"))
        elif column.name in changing:
            left_out.append((column.name, "its DEFAULT may give another value each time"))
        elif column.name in by_order:
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


# Which expressions give the same for the same row every time.
_CALL = re.compile(r"\b(\w+)\s*\(")
_WORDS = frozenset({"in", "and", "or", "not", "between", "like", "ilike", "when", "then", "else", "case"})


def _changing(client: Client, columns: Sequence[Column]) -> frozenset[str]:
    """Returns columns whose DEFAULT calls what is not known to be deterministic, or reads such a column."""
    defaults = {c.name: c.default for c in columns if c.kind and c.default}
    called = {column: _calls(text) for column, text in defaults.items()}
    sure = deterministic(client, sorted(set().union(*called.values())))
    unsure = {column for column, names in called.items() if not names <= sure}
    while True:
        more = {
            name
            for name, text in defaults.items()
            if any(re.search(rf"(?<!\w){re.escape(other)}(?!\w)", text) for other in unsure)
        }
        if more <= unsure:
            return frozenset(unsure)
        unsure |= more


def _calls(expression: str) -> set[str]:
    return {name for name in _CALL.findall(expression) if name.lower() not in _WORDS}


# Sums over the rows of a unit, and when two of them say the same.

_REJECTED = ("topic", "partition", "offset", "row", "type", "column", "payload")


@dataclass(frozen=True)
class RowFilter:
    """Which rows of a table are summed: `prewhere` is read before all other columns are."""

    condition: Sql
    prewhere: Sql


ALL_ROWS = RowFilter(Sql("1"), Sql(""))


@dataclass(frozen=True)
class RowSums:
    """Rows of a unit, sums of two independent hashes over them, and where asked for a sum for each column."""

    rows: int = 0
    first: int = 0
    second: int = 0
    columns: tuple[int, ...] = ()


def sums_of(
    client: Client,
    pipeline: Pipeline,
    staged: Staged,
    name: Sql,
    comparison: Comparison,
    where: RowFilter,
    by_column: bool,
) -> dict[Unit, RowSums]:
    """Returns what the table `name` holds of each unit in the fence. `where`: which of its rows."""
    columns = [_column(comparison, column) for column in comparison.columns] if by_column else []
    sql = render(
        "verify/contents",
        slice=identifier("_slice"),
        cluster=identifier("_cluster"),
        **_aggregates(comparison.distinct),
        row=comparison.row,
        columns=listed(columns),
        table=name,
        fence=staged.fence,
        prewhere=where.prewhere,
        kept=Sql(f"({comparison.kept}) AND ({where.condition})"),
    )
    return _read(pipeline, client.rows(sql))


def _column(comparison: Comparison, column: Column) -> Sql:
    """Returns the sum of a column, with each row's identity: two rows that have swapped their values change
    it."""
    identity = [] if comparison.distinct else [identifier(name) for name in comparison.identity]
    add = _aggregates(comparison.distinct)["sum"]
    return Sql(f"{add}(cityHash64(tuple({listed([value(column), *identity, Sql('0')])})))")


def _aggregates(distinct: bool) -> dict[str, Sql]:
    """Returns what counts rows and adds up hashes, each different one once if they are `distinct`."""
    names = ("uniqExact", "sumWithOverflowDistinct") if distinct else ("count", "sumWithOverflow")
    return dict(zip(("count", "sum"), map(Sql, names), strict=True))


def sums_of_rejected_rows(
    client: Client, pipeline: Pipeline, staged: Staged, name: Sql
) -> dict[Unit, RowSums]:
    """Returns the same of sluice.rejected, or of a table like it."""
    sql = render(
        "verify/contents",
        slice=identifier("slice"),
        cluster=identifier("cluster"),
        **_aggregates(False),
        row=Sql(f"tuple({listed(map(identifier, _REJECTED))})"),
        columns=Sql(""),
        table=name,
        fence=staged.fence,
        prewhere=Sql(""),
        kept=Sql("target = {target:String}"),
    )
    return _read(pipeline, client.rows(sql, {"target": staged.target_table.table}))


def _read(pipeline: Pipeline, rows: Sequence[Sequence[Any]]) -> dict[Unit, RowSums]:
    return {
        unit_of(pipeline, start, cluster): RowSums(count, first, second, tuple(columns))
        for start, cluster, count, first, second, columns in rows
    }


def units_that_differ(these: Mapping[Unit, RowSums], those: Mapping[Unit, RowSums]) -> list[Unit]:
    return sorted(unit for unit in {*these, *those} if these.get(unit) != those.get(unit))


def columns_that_differ(comparison: Comparison, these: RowSums, those: RowSums) -> list[str]:
    pairs = zip(comparison.columns, these.columns, those.columns, strict=True)
    return [column.name for column, mine, theirs in pairs if mine != theirs]
