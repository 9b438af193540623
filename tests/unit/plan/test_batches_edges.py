"""Where one batch ends and the next begins: at the last row and the last slice that still fit."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest

from sluice.plan.batches import SliceWeight, cut
from sluice.slices import Slice

DAY = pendulum.datetime(2026, 11, 20)


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
