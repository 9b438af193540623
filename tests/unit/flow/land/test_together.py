"""Which slices one task reads: every one once, in order, none with more than it may hold."""

from __future__ import annotations

import pendulum
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.read_plan import ReadGroup, UnitRead, together
from sluice.manifest import OffsetRange
from sluice.slices import Slice, Unit

DAY = pendulum.datetime(2026, 11, 20)


def run_of(rows: list[int], partitions: int = 1) -> ReadGroup:
    """Slices with so many rows, all of them in partition 0 of the topic."""
    units, start = [], 0
    for number, count in enumerate(rows):
        ranges = [OffsetRange("bids", "id", 0, start, start + count)]
        ranges += (OffsetRange("bids", "id", p, number, number + 1) for p in range(1, partitions))
        units.append(UnitRead(Unit(Slice(DAY.add(hours=number)), "dc1"), tuple(ranges), tuple(ranges), ()))
        start += count
    return ReadGroup("dc1", tuple(units))


def shape(rows: list[int], **limits: int) -> list[tuple[int, bool]]:
    limits = {"max_rows": 100, "max_slices": 3, "min_rows": 0} | limits
    return [(len(run.units), run.together) for run in together(run_of(rows), **limits)]


def test_small_slices_are_read_together_up_to_a_number_of_rows_and_of_slices():
    assert shape([60, 40, 1, 1, 1, 1]) == [(2, True), (3, True), (1, False)]


def test_large_slices_in_a_row_stay_one_read():
    assert shape([1, 1, 500, 600, 1, 1]) == [(2, True), (2, False), (2, True)]


def test_large_slices_are_apart_where_a_task_reads_all_of_a_partition():
    parts = together(run_of([1, 1, 500, 600, 1, 1]), 100, 3, 0, large_apart=True)
    assert [(len(part.units), part.together) for part in parts] == [
        (2, True),
        (1, False),
        (1, False),
        (2, True),
    ]


def test_one_slice_alone_is_read_as_before():
    assert shape([5]) == [(1, False)]


def test_parts_without_records_are_left_out():
    assert shape([0, 0, 0, 0, 7, 1]) == [(3, True)]


def test_a_part_has_to_be_worth_asking_every_partition():
    runs = together(run_of([1] * 9, partitions=10), max_rows=1000, max_slices=3, min_rows=4)
    assert [len(run.units) for run in runs] == [4, 4, 1]


@given(st.lists(st.integers(0, 250), min_size=1, max_size=40), st.integers(1, 9), st.integers(0, 50))
def test_each_slice_with_records_is_read_once(rows, max_slices, min_rows):
    runs = together(run_of(rows), max_rows=100, max_slices=max_slices, min_rows=min_rows)
    read = [unit for run in runs for unit in run.units if unit.offsets]
    assert read == [unit for unit in run_of(rows).units if unit.offsets]
    for run in runs:
        assert not run.together or run.offsets <= 100
        assert run.together or len(run.units) == 1 or all(unit.offsets > 100 for unit in run.units)
