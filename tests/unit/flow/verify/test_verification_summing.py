"""Which columns of a view's table are compared, by which expressions, and which views are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.clients.clickhouse.tables import Column, ViewTable
from sluice.clients.clickhouse.types import parse
from sluice.flow.verify.view_shape import ViewShape
from sluice.flow.verify.view_sums import FloatSum, Summing, ViewSums, added_up, summing

PLAIN = ViewShape()
GROUPED = ViewShape(one_by_one=False, columns={"x": "sum", "y": "max"})


def fed(
    engine: str, *columns: Column, key: str = "_slice, _cluster, k", views: str = "_slice _cluster k x y"
) -> ViewTable:
    own = (
        Column("_slice", "DateTime('UTC')"),
        Column("_cluster", "LowCardinality(String)"),
        Column("k", "UInt8"),
    )
    return ViewTable(
        "e.v",
        "e.sums",
        engine,
        key,
        (*own, *columns),
        frozenset(views.split()),
        False,
        engine_full=f"{engine} ORDER BY ({key})",
    )


def bits(name: str, kind: str) -> str:
    return f"sumWithOverflow(cityHash64(CAST(`{name}` AS {kind})))"


def total(name: str) -> str:
    return f"(ifNull(sum(`{name}`), 0), ifNull(sum(abs(`{name}`)), 0))"


def apart(name: str, kind: str) -> str:
    return f"sum(CAST(`{name}` AS {kind}))"


X, Y = Column("x", "UInt32"), Column("y", "Float64")
COUNT = ("count()", apart("k", "UInt8"))


@pytest.mark.parametrize(
    ("table", "shape", "exact", "floats"),
    [
        (fed("MergeTree", X, Y), PLAIN, (*COUNT, apart("x", "UInt32"), bits("y", "Float64")), ()),
        (fed("MergeTree", X, Y), GROUPED, ("sum(`x`)", "max(`y`)"), ()),
        (fed("MergeTree", Y), ViewShape(False, {"y": "sum"}), (), ((total("y"), 1e-9),)),
        (fed("SummingMergeTree", X, Y), PLAIN, ("sum(`x`)",), ((total("y"), 1e-9),)),
        (fed("ReplicatedMergeTree", X), PLAIN, (*COUNT, apart("x", "UInt32")), ()),
        (fed("ReplicatedSummingMergeTree", X), PLAIN, ("sum(`x`)",), ()),
        # Merges add up what is a maximum of each block.
        (fed("SummingMergeTree", X, Y), GROUPED, ("sum(`x`)",), ()),
        # A column of no INSERT, that the view does not give or that it gives by chance says nothing.
        (fed("MergeTree", replace(Y, kind="MATERIALIZED")), PLAIN, COUNT, ()),
        (fed("MergeTree", X, Y, views="_slice k x"), PLAIN, (*COUNT, apart("x", "UInt32")), ()),
        (fed("MergeTree", X), ViewShape(unsure={"x": "by chance"}), COUNT, ()),
        (fed("MergeTree", Column("x", "String")), PLAIN, COUNT, ()),
        (
            fed("MergeTree", Column("x`y", "Float32"), views="_slice x`y"),
            PLAIN,
            ("count()", bits("x\\`y", "Float32")),
            (),
        ),
    ],
)
def test_the_columns_that_are_compared(table, shape, exact, floats):
    assert summing(table, shape) == Summing(exact, floats)


@pytest.mark.parametrize(
    "table",
    [
        fed("ReplacingMergeTree", X, Y),
        fed("CollapsingMergeTree", X, Y),
        fed("SummingMergeTree", Column("x", "String")),
        # Of a number that it does not merge by a function, merges keep any.
        fed("AggregatingMergeTree", X, Y),
    ],
)
def test_tables_that_prove_nothing(table):
    assert summing(table, GROUPED) is None


@pytest.mark.parametrize(
    ("engine_full", "added"),
    [
        ("SummingMergeTree ORDER BY (_slice, _cluster, k)", {"x", "y"}),
        ("SummingMergeTree(y) ORDER BY (_slice, _cluster, k)", {"y"}),
        ("SummingMergeTree((x, y)) PARTITION BY k ORDER BY (_slice, _cluster, k)", {"x", "y"}),
        ("SummingMergeTree PARTITION BY x % 3 ORDER BY (_slice, _cluster, k)", {"y"}),
        ("ReplicatedSummingMergeTree('/p', '{replica}', `y`) ORDER BY (_slice, _cluster, k)", {"y"}),
    ],
)
def test_which_columns_a_table_adds_up(engine_full: str, added: set[str]):
    assert added_up(replace(fed("SummingMergeTree", X, Y), engine_full=engine_full)) == added


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
            for f in ("count", "sum", "min", "max", "uniq", "uniqExact", "sumIf")
        ),
        ("AggregateFunction(max, Float64)", ("maxMerge(`x`)",), ()),
    ],
)
def test_the_sum_of_each_type(kind, exact, floats):
    """As a view of rows gives it, and one that groups them in the way in which merges do."""
    simple, states = kind.startswith("Simple"), kind.startswith("Aggregate")
    name = parse(kind).arguments[0] if simple or states else "sum"
    by_block = ViewShape(False, {"x": f"{name}Merge" if states else name})
    for shape in (PLAIN, by_block):
        engine = "AggregatingMergeTree" if simple or states else "SummingMergeTree"
        assert summing(fed(engine, Column("x", kind)), shape) == Summing(exact, floats)


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "String",
            "Date",
            "Array(UInt8)",
            "Interval",
            "AggregateFunction(any, UInt8)",
            "AggregateFunction(avg, UInt8)",
        ),
        *("SimpleAggregateFunction(any, UInt8)", "SimpleAggregateFunction(groupArrayArray, Array(UInt8))"),
    ],
)
def test_types_of_which_nothing_has_to_be_the_same(kind):
    assert summing(fed("AggregatingMergeTree", Column("x", kind)), PLAIN) is None


def test_the_parts_of_the_statement():
    both = Summing(("count()", "sum(`x`)"), ((total("y"), 1e-9), (total("z"), 1e-5)))
    assert both.parts == {
        "exact": "toString(tuple(count(), sum(`x`)))",
        "floats": f"CAST([{total('y')}, {total('z')}], 'Array(Tuple(Float64, Float64))')",
    }
    assert Summing((), ()).parts == {"exact": "''", "floats": "CAST([], 'Array(Tuple(Float64, Float64))')"}


def test_the_answer_as_sums():
    both = Summing(("count()",), ((total("y"), 1e-9), (total("z"), 1e-5)))
    assert both.read("(5)", [(1.5, 2.5), (0.0, 0.5)]) == ViewSums(
        "(5)", (FloatSum(1.5, 2.5, 1e-9), FloatSum(0.0, 0.5, 1e-5))
    )
