from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.plan.estimate import Rate
from sluice.plan.step_limits import BASE, LONGEST, limit

SLOW = {"land": Rate(10, 0, 0.001), "load": Rate(1, 2, 0), "verify": Rate(0, 0.001, 0)}


@pytest.mark.parametrize(
    ("step", "units", "rows", "tries", "seconds"),
    [
        ("plan", 0, 0, 1, 3600),
        ("land", 0, 0, 1, 3600),
        ("land", 3, 0, 1, 3600 + 100),  # ten times the fixed part of what was timed
        ("land", 1, 5_000_000, 1, 3600 + 10 * (10 + 5000)),
        ("load", 100, 50_000_000, 1, 3600 + 10 + 10_000),  # what was timed is shorter
        ("load", 1_000, 50_000, 1, 3600 + 10 * 2001),  # what was timed is longer
        ("verify", 100_000, 0, 1, 3600 + 10_000),
        ("verify_all", 100_000, 0, 1, 3600 + 10_000),
        ("publish", 24, 1_000_000, 1, 3600 + 2.4 + 200),  # never timed
        ("resolve", 8760, 0, 1, 3600 + 876),
        ("cluster", 1, 0, 1, 3600 + 100 + 30 + 0.1 + 0.1),  # all four
        ("land", 3, 0, 2, 2 * 3700),
        ("land", 3, 0, 4, 8 * 3700),
        ("land", 0, 0, 0, 3600),
    ],
)
def test_a_try_has(step: str, units: int, rows: int, tries: int, seconds: float):
    assert limit(step, units, rows, SLOW, tries) == timedelta(seconds=seconds)


def test_it_is_never_less_than_the_base_and_always_finite():
    for tries in (1, 2, 50, 10_000):
        for rows in (0, 1, 10**12):
            assert BASE <= limit("land", 1, rows, {}, tries) <= LONGEST
    assert limit("land", 1, 10**12, {}, 10_000) == timedelta(days=30)
