"""Which casts of a sum are the sum of the casts."""

from __future__ import annotations

import pytest

from sluice.flow.verify.view_shape import keeps


@pytest.mark.parametrize(
    ("stored", "given", "kept"),
    [
        ("UInt64", "UInt64", True),
        ("UInt32", "Int64", True),
        ("Float32", "Float64", True),
        ("Float64", "Decimal(18, 4)", True),
        ("Decimal(18, 4)", "UInt64", True),
        ("Decimal(38, 4)", "Decimal(18, 4)", True),
        ("SimpleAggregateFunction(sum, Float64)", "Nullable(Float64)", True),
        ("UInt64", "Float64", False),
        ("UInt64", "Decimal(18, 4)", False),
        ("Decimal(18, 2)", "Decimal(18, 4)", False),
        ("Decimal(18, 4)", "Float64", False),
        ("String", "UInt64", False),
        ("UInt64", "", True),
    ],
)
def test_what_a_cast_keeps(stored: str, given: str, kept: bool):
    assert keeps(stored, given) is kept
