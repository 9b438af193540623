"""Batches: every slice with work in exactly one of them, none larger than it may be."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.plan.batches import SliceWeight, cut, spells
from sluice.slices import Slice, SliceRange

DAY = pendulum.datetime(2026, 11, 20)


def hour(n: int) -> Slice:
    return Slice(DAY.add(hours=n))


def test_consecutive_slices_are_one_batch_until_the_rows_run_out():
    batches = cut([SliceWeight(hour(n), 40) for n in range(5)], max_rows=100, max_slices=100)
    assert [str(b) for b in batches] == [
        "[2026-11-20T00:00Z, 2026-11-20T02:00Z)",
        "[2026-11-20T02:00Z, 2026-11-20T04:00Z)",
        "[2026-11-20T04:00Z, 2026-11-20T05:00Z)",
    ]


def test_a_slice_larger_than_a_batch_is_one_of_its_own():
    batches = cut([SliceWeight(hour(0), 1), SliceWeight(hour(1), 500), SliceWeight(hour(2), 1)], max_rows=100)
    assert [len(b) for b in batches] == [1, 1, 1]


def test_a_batch_spans_at_most_max_slices():
    batches = cut([SliceWeight(hour(0), 1), SliceWeight(hour(9), 1), SliceWeight(hour(10), 1)], max_slices=10)
    assert [(b.start.hour, b.end.hour) for b in batches] == [(0, 10), (10, 11)]


def test_two_clusters_of_one_slice_stay_in_one_batch():
    assert len(cut([SliceWeight(hour(3), 80), SliceWeight(hour(3), 80)], max_rows=100)) == 1


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), min_size=1, unique_by=lambda pair: pair[0]),
    st.integers(1, 100),
    st.integers(1, 50),
)
def test_each_slice_with_work_is_in_exactly_one_batch(pairs, max_rows, max_slices):
    rows = dict(pairs)
    batches = cut([SliceWeight(hour(n), count) for n, count in pairs], max_rows, max_slices)
    covered = [piece for batch in batches for piece in batch]
    assert len(covered) == len(set(covered))
    assert {hour(n) for n in rows} <= set(covered)
    for batch in batches:
        inside = [rows[n] for n in rows if hour(n) in set(batch)]
        assert len(batch) <= max_slices
        assert len(inside) == 1 or sum(inside) <= max_rows


# ---- Where one batch ends and the next begins: at the last row and the last slice that still fit.


def work(*rows: int, minutes: int = 60) -> list[SliceWeight]:
    length = timedelta(minutes=minutes)
    return [SliceWeight(Slice(DAY.add(minutes=minutes * n), length), count) for n, count in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        ((60, 40), [2]),
        ((60, 41), [1, 1]),
        ((0, 100, 0), [3]),
        ((30, 30, 40, 1, 99, 1), [3, 2, 1]),
    ],
)
def test_a_batch_is_full_at_exactly_its_rows(rows, sizes):
    assert [len(batch) for batch in cut(work(*rows), max_rows=100)] == sizes


def test_the_rows_of_both_clusters_fill_the_batch():
    first, second = (Slice(DAY.add(hours=n)) for n in range(2))
    batches = cut([SliceWeight(first, 60), SliceWeight(first, 40), SliceWeight(second, 1)], max_rows=100)
    assert [(b.start.hour, b.end.hour) for b in batches] == [(0, 1), (1, 2)]


def test_slices_keep_their_length():
    batches = cut(work(60, 40, 1, minutes=15), max_rows=100)
    assert [[piece.id for piece in batch] for batch in batches] == [
        ["2026-11-20T0000Z", "2026-11-20T0015Z"],
        ["2026-11-20T0030Z"],
    ]
    assert {batch.length for batch in batches} == {timedelta(minutes=15)}


def test_quarters_are_counted_as_slices():
    batches = cut(work(1, 1, 1, 1, 1, minutes=15), max_slices=4)
    assert [len(batch) for batch in batches] == [4, 1]


def test_fifty_million_rows_and_nine_thousand_slices_are_the_most():
    assert [len(b) for b in cut(work(25_000_000, 25_000_000, 1))] == [2, 1]
    far = [SliceWeight(Slice(DAY.add(hours=n)), 1) for n in (0, 8_999, 9_000)]
    assert [len(b) for b in cut(far)] == [9_000, 1]


def test_slices_as_ranges_without_gaps():
    quarter = timedelta(minutes=15)
    slices = [Slice(DAY.add(minutes=15 * n), quarter) for n in (0, 1, 3)]
    assert spells(slices) == [
        SliceRange(DAY, DAY.add(minutes=30), quarter),
        SliceRange(DAY.add(minutes=45), DAY.add(hours=1), quarter),
    ]
    assert spells([]) == []
