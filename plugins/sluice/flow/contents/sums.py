"""Sums over the rows of a unit, and when two of them say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render
from sluice.clients.clickhouse.tables import Column
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.comparable_columns import Comparison, value
from sluice.flow.contents.staged_load import Staged
from sluice.slices import Unit
from sluice.state.ledger import unit_of

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
