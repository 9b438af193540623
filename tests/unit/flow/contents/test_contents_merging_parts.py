"""What the comparison of merged rows selects, what it reads, and the reasons that it gives."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.tables import Column
from sluice.flow.contents.compare_views import Merging, certain, merging
from sluice.flow.verify.view_shape import ViewShape
from sluice.flow.verify.view_sums import FloatSum, ViewSums
from tests.unit.flow.contents.test_contents_merging import KEY, OWN, ROWS, X, blocks, fed, made

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
