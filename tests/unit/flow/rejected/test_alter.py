"""The statement that gives a column a type which takes what it has rejected."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.clickhouse.types import parse
from sluice.flow.rejected.alter import alter, may_change, wider
from sluice.flow.rejected.rejections import RejectionCause

# The bounds are those of ClickHouse's documentation: Int64 to 2^63 - 1, Decimal256 of 76 digits.


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("Int32", ["7000000000"], "Int64"),
        ("Int32", ["9223372036854775807"], "Int64"),
        ("Int32", ["9223372036854775808"], "Int128"),
        ("UInt64", ["-1"], "Int128"),
        ("UInt8", ["300", "-5"], "Int64"),
        ("Int64", ["1" * 78], "String"),
        ("Int32", ["7", "N/A"], "String"),
        ("Int32", ["7.5"], "String"),
        ("Decimal(9, 2)", ["12345678.125"], "Decimal(38, 3)"),
        ("Decimal(38, 2)", ["-1" + "0" * 40], "Decimal(76, 2)"),
        ("Decimal(9, 2)", ["1.5", "N/A"], "String"),
        ("Decimal(9, 2)", ["1" * 75 + ".25"], "String"),
        ("Float64", ["N/A"], "String"),
        ("Enum8('a' = 1)", ["b"], "String"),
    ],
)
def test_the_narrowest_type_of_its_kind_that_takes_all(before: str, values: list[str], after: str):
    assert wider(parse(before), values) == after


def table(*columns: Column) -> TargetTable:
    return TargetTable(
        table="e.t",
        uuid="",
        engine="MergeTree",
        engine_full="",
        columns=columns,
        projections=False,
        view_tables=(),
        unseen=(),
        partition_key="toYYYYMM(_slice)",
        sorting_key="(campaign, _slice)",
    )


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("Decimal(9, 2)", "ALTER TABLE e.t MODIFY COLUMN price String"),
        ("Nullable(Decimal(9, 2))", "ALTER TABLE e.t MODIFY COLUMN price Nullable(String)"),
        ("LowCardinality(Nullable(String))", ""),
    ],
)
def test_the_statement_keeps_what_is_around_the_type(kind: str, statement: str):
    assert alter(table(Column("price", kind)), "price", ["N/A"]).replace("`", "") == statement
    assert alter(table(Column("price", kind)), "price", []) == ""


@pytest.mark.parametrize(
    ("column", "kind", "reason", "may"),
    [
        ("price", "Decimal(9, 2)", "does not fit Decimal(9, 2)", True),
        ("price", "Nullable(UInt8)", "does not fit UInt8", True),
        ("campaign", "UInt64", "does not fit UInt64", False),
        ("at", "DateTime64(3)", "does not fit DateTime64(3)", False),
        ("items[].price", "Int32", "does not fit Int32", False),
        ("tags", "Array(Int32)", "does not fit Int32", False),
        ("price", "UInt8", "missing", False),
    ],
)
def test_what_another_type_of_the_column_itself_can_cure(column: str, kind: str, reason: str, may: bool):
    own = Column(column.partition("[")[0], kind)
    assert may_change(table(own), RejectionCause("row", "e.t", column, reason)) is may
