from __future__ import annotations

import pytest

from sluice.state.field_changes import FieldSeries, Turn, begins, ends


def series(*pairs: tuple[int, int], unknown: int = 0) -> FieldSeries:
    """(rows, having) by slice."""
    return FieldSeries([rows for rows, _ in pairs], [having for _, having in pairs], [unknown] * len(pairs))


BEGINS = [
    ("enough rows have it, and all before lack it", [(100, 0), (100, 50)], Turn(1, 100, 0, 100, 50)),
    ("it was there from the first slice on", [(100, 6), (100, 50)], None),
    ("too few rows have it", [(100, 0), (100, 9)], None),
    ("few rows before would have had it", [(100, 0), (1000, 100)], None),
    ("slices of few rows add up", [(30, 0), (4, 4), (3, 3), (3, 3)], Turn(1, 30, 0, 10, 10)),
    ("it was told one slice before", [(100, 0), (100, 50), (100, 50)], None),
    ("it is gone again", [(100, 0), (100, 9), (100, 0)], None),
    ("a rare one meets too few rows before", [(1000, 0), *[(1000, 1)] * 10], None),
    ("no slice before has rows", [(0, 0), (100, 50)], None),
    ("nothing has it", [(100, 0), (100, 0)], None),
    ("strays were there before", [(1000, 1), (1000, 2), (100, 90)], Turn(2, 2000, 3, 100, 90)),
    ("it was more than a stray", [(1000, 100), (100, 90)], None),
    ("it grew from one slice to the next", [(1000, 0), (1000, 50), (1000, 999)], None),
]


@pytest.mark.parametrize(("why", "pairs", "expected"), BEGINS, ids=lambda value: str(value)[:40])
def test_what_begins(why: str, pairs: list[tuple[int, int]], expected: Turn | None) -> None:
    assert begins(series(*pairs)) == expected


ENDS = [
    ("none of enough rows has it", [(100, 100), (20, 0)], Turn(1, 100, 100, 20, 0)),
    ("too few rows lack it", [(100, 100), (19, 0)], None),
    ("slices of few rows add up", [(100, 100), (8, 0), (8, 0), (8, 0)], Turn(1, 100, 100, 24, 0)),
    ("it was told one slice before", [(100, 100), (20, 0), (20, 0)], None),
    ("one row has it", [(100, 100), (1000, 1)], None),
    ("empty slices tell nothing", [(100, 100), (0, 0), (0, 0)], None),
    ("it was rare", [(1000, 99), (1000, 0)], None),
    ("half of them, in one slice", [(100, 50), (100, 0)], Turn(1, 100, 50, 100, 0)),
    ("a third of them, in two slices", [(100, 33), (100, 33), (100, 0)], None),
    ("a third of them, in three", [(100, 33), (100, 33), (100, 33), (100, 0)], Turn(3, 300, 99, 100, 0)),
    ("it has been away before", [(100, 99), (100, 0), (100, 99), (100, 0)], None),
    ("a slice of few rows lacks it", [(100, 60), (4, 0), (100, 60), (100, 0)], Turn(3, 204, 120, 100, 0)),
    ("it came late", [(100, 0), (100, 99), (100, 0)], Turn(2, 200, 99, 100, 0)),
    ("too few rows ever had it", [(19, 19), (100, 0)], None),
    ("nothing ever had it", [(100, 0), (100, 0)], None),
]


@pytest.mark.parametrize(("why", "pairs", "expected"), ENDS, ids=lambda value: str(value)[:40])
def test_what_ends(why: str, pairs: list[tuple[int, int]], expected: Turn | None) -> None:
    assert ends(series(*pairs)) == expected


def test_where_fields_were_left_out_it_may_be_one_of_them() -> None:
    assert begins(series((100, 0), (100, 50), unknown=31)) is None
    assert begins(series((100, 0), (100, 50), unknown=30)) is not None
    assert ends(series((100, 100), (50, 0), unknown=31)) is None
    assert ends(series((100, 100), (50, 0), unknown=30)) is not None
