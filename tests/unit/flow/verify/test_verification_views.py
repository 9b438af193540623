"""When two sums of floating point numbers are the same."""

from __future__ import annotations

import math
from random import Random

import pytest

from sluice.flow.verify.view_sums import FloatSum, ViewSums


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
    assert ViewSums("(2)", price).agrees(ViewSums("(2)", (FloatSum(10.0 + 1e-10, 10.0, 1e-9),)))
    assert not ViewSums("(2)", price).agrees(ViewSums("(3)", price))
