"""How a view's table that merges rows is compared: by which key, which values, and what is left out."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.tables import Column, ViewTable
from sluice.flow.contents.compare_views import Merging, certain, merging
from sluice.flow.verify.view_shape import ViewShape
from sluice.flow.verify.view_sums import FloatSum, ViewSums

KEY = "_slice, _cluster, k"
OWN = (
    Column("_slice", "DateTime('UTC')"),
    Column("_cluster", "LowCardinality(String)"),
    Column("k", "UInt8"),
)
ROWS = ViewShape()


def blocks(**roles: str) -> ViewShape:
    return ViewShape(one_by_one=False, columns=roles)


def fed(engine: str, *columns: Column, key: str = KEY) -> ViewTable:
    names = frozenset(column.name for column in (*OWN, *columns))
    name, _, _ = engine.partition("(")
    full = f"{engine} ORDER BY ({key})"
    return ViewTable("e.v", "e.t", name, key, (*OWN, *columns), names, False, engine_full=full)


def made(engine: str, shape: ViewShape, *columns: Column):
    table = fed(engine, *columns)
    return merging(table, shape, table.columns)


X = Column("x", "UInt64")


def test_groups_of_blocks_are_put_together_by_what_they_are_grouped_by():
    found = made("MergeTree", blocks(x="max"), X)
    assert (found.key, found.values, found.present) == (("`_slice`", "`_cluster`", "`k`"), ["max(`x`)"], "1")


@pytest.mark.parametrize(
    ("kind", "shape", "values", "floats", "present"),
    [
        ("UInt64", ROWS, ["sumWithOverflow(`x`)"], [], "ifNull(sumWithOverflow(`x`) != 0, 0)"),
        ("UInt64", blocks(x="sum"), ["sumWithOverflow(`x`)"], [], "ifNull(sumWithOverflow(`x`) != 0, 0)"),
        ("Float64", blocks(x="sum"), [], [("`x`", 1e-9)], "0"),
        ("Nullable(Float32)", ROWS, [], [("`x`", 1e-5)], "0"),
    ],
)
def test_sums_whose_row_is_gone_when_they_are_nothing(kind, shape, values, floats, present):
    found = made("SummingMergeTree", shape, Column("x", kind))
    assert (found.key, found.values, found.floats, found.present) == ((KEY,), values, floats, present)


@pytest.mark.parametrize(
    ("kind", "shape", "values", "floats"),
    [
        ("AggregateFunction(uniq, String)", blocks(x="uniqMerge"), ["uniqMerge(`x`)"], []),
        ("AggregateFunction(count)", blocks(x="countMerge"), ["countMerge(`x`)"], []),
        (
            *("AggregateFunction(sum, Float64)", blocks(x="sumMerge")),
            *([], [("finalizeAggregation(`x`)", 1e-9)]),
        ),
        ("SimpleAggregateFunction(max, Float64)", blocks(x="max"), ["max(`x`) + 0"], []),
        ("SimpleAggregateFunction(min, String)", ROWS, ["min(`x`)"], []),
        ("SimpleAggregateFunction(sum, Float32)", blocks(x="sum"), [], [("`x`", 1e-5)]),
    ],
)
def test_states(kind, shape, values, floats):
    found = made("AggregatingMergeTree", shape, Column("x", kind))
    assert (found.key, found.values, found.floats, found.left_out) == ((KEY,), values, floats, [])


@pytest.mark.parametrize(
    ("engine", "kind", "shape"),
    [
        ("SummingMergeTree", "String", ROWS),
        ("SummingMergeTree", "UInt64", blocks(x="max")),
        ("SummingMergeTree(k)", "UInt64", blocks(x="sum")),
        ("AggregatingMergeTree", "UInt64", blocks(x="sum")),
        ("AggregatingMergeTree", "SimpleAggregateFunction(any, UInt8)", ROWS),
        ("AggregatingMergeTree", "SimpleAggregateFunction(max, UInt64)", blocks(x="sum")),
        ("AggregatingMergeTree", "AggregateFunction(quantile(0.5), UInt64)", ROWS),
        ("ReplacingMergeTree", "UInt64", blocks(x="sum")),
    ],
)
def test_what_merges_decide_is_left_out(engine, kind, shape):
    found = made(engine, shape, Column("x", kind))
    assert (found.values, found.floats, [name for name, _ in found.left_out]) == ([], [], ["x"])


def test_of_a_key_a_row_stays_that_the_view_gave_and_of_its_newest_version():
    found = made("ReplacingMergeTree(x)", ROWS, X)
    assert (found.key, found.values) == ((KEY,), ["max(`x`)"])
    assert found.members == ("`_slice`", "`_cluster`", "`k`", "`x`")


@pytest.mark.parametrize(
    ("engine", "shape", "why"),
    [
        ("SummingMergeTree", ViewShape(why="it reads e.u"), "it reads e.u"),
        ("CollapsingMergeTree(x)", ROWS, "rows of a CollapsingMergeTree"),
        ("ReplacingMergeTree(x, k)", ROWS, "marked as deleted"),
        ("SummingMergeTree", blocks(k="max", x="sum"), r"its sorting key is not certain \(k\)"),
    ],
)
def test_tables_of_which_nothing_is_certain(engine, shape, why):
    found = made(engine, shape, X)
    assert found.why and why.replace("\\", "") in found.why


def test_a_number_stands_at_its_key():
    """The weight differs from key to key, so that one that has moved is seen in the unit's sum."""
    parts = made("SummingMergeTree", blocks(x="sum"), Column("x", "Float64")).parts("sluice_")
    assert parts["key"] == f"tuple({KEY}, 0)"
    weight = "(1 + cityHash64(sluice_key) % 1000003 / 1000003)"
    assert parts["numbers"] == f"ifNull(sum(`x`), 0) * {weight}"
    assert parts["scales"] == f"ifNull(sum(abs(`x`)), 0) * {weight}"


# ---- What the comparison of merged rows selects, what it reads, and the reasons that it gives.

Y = Column("y", "UInt64")
F = Column("f", "Float64")


def test_a_table_of_which_nothing_is_certain_selects_nothing():
    assert made("SummingMergeTree", ViewShape(why="it reads e.u"), X) == Merging(
        (), [], "1", [], (), [], "it reads e.u"
    )


def test_what_is_selected():
    parts = made("SummingMergeTree", blocks(x="sum", y="sum", f="sum"), X, F, Y).parts("own_")
    assert parts == {
        "own": "own_",
        "key": f"tuple({KEY}, 0)",
        "values": "tuple(sumWithOverflow(`x`), sumWithOverflow(`y`), 0)",
        "present": "ifNull(sumWithOverflow(`x`) != 0, 0) OR ifNull(sumWithOverflow(`y`) != 0, 0)",
        "numbers": "ifNull(sum(`f`), 0) * (1 + cityHash64(own_key) % 1000003 / 1000003)",
        "scales": "ifNull(sum(abs(`f`)), 0) * (1 + cityHash64(own_key) % 1000003 / 1000003)",
    }


def test_what_is_read():
    found = made("MergeTree", blocks(f="sum", g="sum"), F, Column("g", "Float32"))
    assert found.why == ""
    assert found.members == ()
    assert found.read("3 1 2", [1.5, -2.5], [4.0, 8.0]) == ViewSums(
        "3 1 2", (FloatSum(1.5, 4.0, 1e-9), FloatSum(-2.5, 8.0, 1e-5))
    )
    assert found.nothing == ViewSums("0 0 0", (FloatSum(0.0, 0.0, 1e-9), FloatSum(0.0, 0.0, 1e-5)))


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("MergeTree", "UInt64"),
        ("SummingMergeTree", "UInt64"),
        ("AggregatingMergeTree", "SimpleAggregateFunction(sum, UInt64)"),
    ],
)
def test_a_replicated_table_is_compared_as_another_is(engine: str, kind: str):
    found = made(f"Replicated{engine}", blocks(x="sum"), Column("x", kind))
    assert found == made(engine, blocks(x="sum"), Column("x", kind))
    assert found.values == ["sumWithOverflow(`x`)"]


@pytest.mark.parametrize(
    ("key", "shape", "named"),
    [
        ("_slice, _cluster, k DESC", ROWS, "_slice, _cluster, k DESC"),
        ("_slice, k, x", blocks(k="max", x="sum"), "k, x"),
        ("_slice, k, x", blocks(x="sum"), "x"),
    ],
)
def test_a_sorting_key_that_is_not_certain(key: str, shape: ViewShape, named: str):
    table = fed("SummingMergeTree", X, key=key)
    assert merging(table, shape, table.columns) == Merging(why=f"its sorting key is not certain ({named})")


@pytest.mark.parametrize(
    ("engine", "column", "shape", "why"),
    [
        ("SummingMergeTree", Column("x", "String"), ROWS, "merges keep any of its values"),
        ("SummingMergeTree", X, blocks(x="max"), "it is no sum, and merges add it up"),
        ("AggregatingMergeTree", X, ROWS, "merges keep any of its values"),
        ("ReplacingMergeTree", X, blocks(x="sum"), "merges keep any of its values"),
    ],
)
def test_why_a_column_is_left_out(engine: str, column: Column, shape: ViewShape, why: str):
    assert made(engine, shape, column).left_out == [("x", why)]


def test_rows_that_are_marked_as_deleted():
    found = made("ReplacingMergeTree(x, k)", ROWS, X)
    assert found == Merging(why="rows that are marked as deleted may be gone")


def test_the_newest_version_of_blocks():
    found = made("ReplacingMergeTree(x)", blocks(x="max"), X, Y)
    assert found.values == ["max(`x`)"]
    assert found.members == ("`_slice`", "`_cluster`", "`k`", "`y`")
    assert found.left_out == []


def test_states_of_sums_of_some_rows():
    column = Column("x", "AggregateFunction(sumIf, Float64, UInt8)")
    found = made("AggregatingMergeTree", blocks(x="sumIfMerge"), column)
    assert (found.values, found.floats) == ([], [("finalizeAggregation(`x`)", 1e-9)])


def test_which_columns_are_certain():
    columns, why = certain([*OWN, X, Y], ViewShape(unsure={"x": "it reads e.u", "gone": "it is odd"}))
    assert columns == [*OWN, Y]
    assert why == {"x": "it reads e.u"}
