"""Which columns of a view's table are compared, by which expressions, and which views are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.load.columns import Column
from sluice.load.inspect import FedTable
from sluice.verification.summing import Summing, summing
from sluice.verification.sums import FloatSum, Sums

PLAIN = "SELECT _slice, _cluster, k, x, y FROM e.t"
GROUPED = "SELECT _slice, _cluster, k, sum(x) AS x, max(y) AS y FROM e.t GROUP BY _slice, _cluster, k"


def fed(
    engine: str, *columns: Column, key: str = "_slice, _cluster, k", views: str = "_slice _cluster k x y"
) -> FedTable:
    own = (
        Column("_slice", "DateTime('UTC')"),
        Column("_cluster", "LowCardinality(String)"),
        Column("k", "UInt8"),
    )
    return FedTable("e.v", "e.sums", engine, key, (*own, *columns), frozenset(views.split()), False)


def bits(name: str, kind: str) -> str:
    return f"sumWithOverflow(cityHash64(CAST(`{name}` AS {kind})))"


def total(name: str) -> str:
    return f"(ifNull(sum(`{name}`), 0), ifNull(sum(abs(`{name}`)), 0))"


X, Y = Column("x", "UInt32"), Column("y", "Float64")


@pytest.mark.parametrize(
    ("table", "select", "exact", "floats"),
    [
        (fed("MergeTree", X, Y), PLAIN, ("count()", "sum(`x`)", bits("y", "Float64")), ()),
        (fed("MergeTree", X, Y), GROUPED, ("sum(`x`)",), ((total("y"), 1e-9),)),
        (fed("MergeTree", X, Y), "select distinct _slice, x FROM e.t", ("sum(`x`)",), ((total("y"), 1e-9),)),
        (fed("SummingMergeTree", X, Y), PLAIN, ("sum(`x`)",), ((total("y"), 1e-9),)),
        (fed("ReplicatedMergeTree", X), PLAIN, ("count()", "sum(`x`)"), ()),
        (fed("ReplicatedSummingMergeTree", X), PLAIN, ("sum(`x`)",), ()),
        (fed("AggregatingMergeTree", X, Y), GROUPED, ("sum(`x`)",), ((total("y"), 1e-9),)),
        # A column of the key, of no INSERT, or that the view does not give says nothing.
        (fed("MergeTree", X, Y, key="_slice, `x`"), PLAIN, ("count()", "sum(`k`)", bits("y", "Float64")), ()),
        (fed("MergeTree", X, Y, key="`x`, _slice, k"), PLAIN, ("count()", bits("y", "Float64")), ()),
        (
            fed("MergeTree", Column("aX", "UInt8"), key="aX, _slice, k", views="_slice aX"),
            PLAIN,
            ("count()",),
            (),
        ),
        (fed("MergeTree", X, replace(Y, kind="MATERIALIZED")), PLAIN, ("count()", "sum(`x`)"), ()),
        (fed("MergeTree", X, Y, views="_slice x"), PLAIN, ("count()", "sum(`x`)"), ()),
        (fed("MergeTree", Column("x", "String")), PLAIN, ("count()",), ()),
        (
            fed("MergeTree", Column("x`y", "Float32"), views="_slice x`y"),
            PLAIN,
            ("count()", bits("x\\`y", "Float32")),
            (),
        ),
    ],
)
def test_the_columns_that_are_compared(table, select, exact, floats):
    assert summing(table, select) == Summing(exact, floats)


@pytest.mark.parametrize(
    "table",
    [
        fed("ReplacingMergeTree", X, Y),
        fed("CollapsingMergeTree", X, Y),
        fed("SummingMergeTree", Column("x", "String")),
        fed("MergeTree", X, Y, views="_cluster k x y"),
    ],
)
def test_tables_that_prove_nothing(table):
    assert summing(table, GROUPED) is None


@pytest.mark.parametrize(
    "part",
    [
        *(
            "JOIN e.u USING (k)",
            "WHERE k IN (SELECT k FROM e.u)",
            "where k in ( select 1 )",
            "dictGet('d', 'a', k)",
        ),
        *("joinGetOrNull('j', 'a', k)", "now()", "now64(3)", "today()", "yesterday()", "rand()", "rand64()"),
        *(
            "generateUUIDv4()",
            "currentUser()",
            "hostName()",
            "rowNumberInAllBlocks()",
            "LIMIT 5",
            "limit 1 BY k",
        ),
        *("file('x')", "url('x')", "s3('x')"),
    ],
)
def test_views_that_may_say_something_else_today(part):
    assert summing(fed("MergeTree", X), f"{PLAIN} {part}") is None


@pytest.mark.parametrize(
    "part", ["WHERE k IN (1, 2)", "WHERE brand = 'x'", "WHERE unlimited", "WHERE k = 'GROUPED BY'"]
)
def test_views_that_say_the_same_tomorrow(part):
    assert summing(fed("MergeTree", X), f"{PLAIN} {part}") == Summing(("count()", "sum(`x`)"), ())


MERGED = "(ifNull(sumMerge(`x`), 0), ifNull(sum(abs(finalizeAggregation(`x`))), 0))"


@pytest.mark.parametrize(
    ("kind", "exact", "floats"),
    [
        ("UInt8", ("sum(`x`)",), ()),
        ("Int256", ("sum(`x`)",), ()),
        ("Nullable(Int64)", ("sum(`x`)",), ()),
        ("LowCardinality(UInt16)", ("sum(`x`)",), ()),
        ("Decimal(9, 2)", ("sum(`x`)",), ()),
        ("Decimal64(2)", ("sum(`x`)",), ()),
        ("Float64", (), ((total("x"), 1e-9),)),
        ("Nullable(Float32)", (), ((total("x"), 1e-5),)),
        ("AggregateFunction(sum, Float32)", (), ((MERGED, 1e-5),)),
        ("AggregateFunction(sum, Nullable(Float64))", (), ((MERGED, 1e-9),)),
        ("SimpleAggregateFunction(sum, Float32)", (), ((total("x"), 1e-5),)),
        ("SimpleAggregateFunction(sum, Int64)", ("sum(`x`)",), ()),
        ("SimpleAggregateFunction(min, Float64)", ("min(`x`)",), ()),
        ("SimpleAggregateFunction(max, String)", ("max(`x`)",), ()),
        *(
            (f"AggregateFunction({f}, UInt64)", (f"{f}Merge(`x`)",), ())
            for f in ("count", "sum", "min", "max", "uniqExact")
        ),
        ("AggregateFunction(max, Float64)", ("maxMerge(`x`)",), ()),
    ],
)
def test_the_sum_of_each_type(kind, exact, floats):
    assert summing(fed("AggregatingMergeTree", Column("x", kind)), GROUPED) == Summing(exact, floats)


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "String",
            "Date",
            "Array(UInt8)",
            "Interval",
            "AggregateFunction(any, UInt8)",
            "AggregateFunction(uniq, UInt8)",
        ),
        *("SimpleAggregateFunction(any, UInt8)", "SimpleAggregateFunction(groupArrayArray, Array(UInt8))"),
    ],
)
def test_types_of_which_nothing_has_to_be_the_same(kind):
    assert summing(fed("AggregatingMergeTree", Column("x", kind)), GROUPED) is None


def test_the_parts_of_the_statement():
    both = Summing(("count()", "sum(`x`)"), ((total("y"), 1e-9), (total("z"), 1e-5)))
    assert both.parts == {
        "exact": "toString(tuple(count(), sum(`x`)))",
        "floats": f"CAST([{total('y')}, {total('z')}], 'Array(Tuple(Float64, Float64))')",
    }
    assert Summing((), ()).parts == {"exact": "''", "floats": "CAST([], 'Array(Tuple(Float64, Float64))')"}


def test_the_answer_as_sums():
    both = Summing(("count()",), ((total("y"), 1e-9), (total("z"), 1e-5)))
    assert both.read("(5)", [(1.5, 2.5), (0.0, 0.5)]) == Sums(
        "(5)", (FloatSum(1.5, 2.5, 1e-9), FloatSum(0.0, 0.5, 1e-5))
    )
