"""What of a view's table is compared, and when two sums of floating point numbers are the same."""

from __future__ import annotations

import math
from random import Random

import pytest

from sluice.load.columns import Column
from sluice.load.inspect import FedTable
from sluice.verification.summing import summing
from sluice.verification.sums import FloatSum, Sums

PLAIN = "SELECT _slice, _cluster, k, x FROM e.t"
GROUPED = "SELECT _slice, _cluster, k, sum(x) AS x FROM e.t GROUP BY _slice, _cluster, k"
TOTAL = "(ifNull(sum(`x`), 0), ifNull(sum(abs(`x`)), 0))"
MERGED = "(ifNull(sumMerge(`x`), 0), ifNull(sum(abs(finalizeAggregation(`x`))), 0))"


def fed(engine: str, kind: str) -> FedTable:
    columns = (Column("k", "String"), Column("x", kind))
    names = frozenset({"_slice", "_cluster", "k", "x"})
    return FedTable("e.v", "e.sums", engine, "_slice, _cluster, k", columns, names, False)


@pytest.mark.parametrize(
    ("engine", "select", "kind", "exact", "floats"),
    [
        ("MergeTree", PLAIN, "UInt32", ("count()", "sum(`x`)"), ()),
        ("MergeTree", PLAIN, "String", ("count()",), ()),
        (
            *("MergeTree", PLAIN, "Nullable(Float32)"),
            ("count()", "sumWithOverflow(cityHash64(CAST(`x` AS Nullable(Float32))))"),
            (),
        ),
        ("MergeTree", GROUPED, "Float64", (), ((TOTAL, 1e-9),)),
        ("SummingMergeTree", GROUPED, "Float32", (), ((TOTAL, 1e-5),)),
        ("SummingMergeTree", GROUPED, "Decimal(18, 4)", ("sum(`x`)",), ()),
        ("AggregatingMergeTree", GROUPED, "AggregateFunction(sum, Float64)", (), ((MERGED, 1e-9),)),
        ("AggregatingMergeTree", GROUPED, "AggregateFunction(sum, UInt64)", ("sumMerge(`x`)",), ()),
        ("AggregatingMergeTree", GROUPED, "AggregateFunction(max, Float64)", ("maxMerge(`x`)",), ()),
        ("AggregatingMergeTree", GROUPED, "SimpleAggregateFunction(sum, Float64)", (), ((TOTAL, 1e-9),)),
        ("AggregatingMergeTree", GROUPED, "SimpleAggregateFunction(min, Float64)", ("min(`x`)",), ()),
    ],
)
def test_what_is_compared(engine: str, select: str, kind: str, exact: tuple, floats: tuple):
    found = summing(fed(engine, kind), select)
    assert (found.exact, found.floats) == (exact, floats)


def test_nothing_is_compared_where_it_would_prove_nothing():
    assert summing(fed("SummingMergeTree", "String"), GROUPED) is None
    assert summing(fed("MergeTree", "Float64"), PLAIN + " WHERE x > rand()") is None


def added(values: list[float]) -> FloatSum:
    total = 0.0
    for value in values:
        total += value
    return FloatSum(total, sum(map(abs, values)), 1e-9)


def test_another_order_is_the_same_sum_and_a_lost_row_is_not():
    chance = Random(7)
    values = [chance.uniform(-1e6, 1e6) for _ in range(10_000)]
    one, other = added(values), added(sorted(values))
    assert one.value != other.value and one.agrees(other)
    assert not one.agrees(added(values[1:]))


@pytest.mark.parametrize(
    ("mine", "other", "same"),
    [
        (0.0, -0.0, True),
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1e308, False),
        (math.nan, 0.0, False),
    ],
)
def test_sums_without_a_scale(mine: float, other: float, same: bool):
    assert FloatSum(mine, abs(mine), 1e-9).agrees(FloatSum(other, abs(other), 1e-9)) is same


def test_counts_are_exact_whatever_the_floats_say():
    price = (FloatSum(10.0, 10.0, 1e-9),)
    assert Sums("(2)", price).agrees(Sums("(2)", (FloatSum(10.0 + 1e-10, 10.0, 1e-9),)))
    assert not Sums("(2)", price).agrees(Sums("(3)", price))
