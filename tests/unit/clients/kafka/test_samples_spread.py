"""Which offsets a sample of a topic reads: a bounded number, from all partitions and all their time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kafka.topics import spread_spans


def edges(ranges: dict[int, tuple[int, int]], count: int) -> list[tuple[int, int, int]]:
    return [(span.partition, span.start, span.until) for span in spread_spans("t", ranges, count)]


@pytest.mark.parametrize(
    ("ranges", "count", "expected"),
    [
        ({}, 100, []),
        ({0: (5, 5)}, 100, []),
        ({0: (5, 9)}, 100, [(0, 5, 9)]),
        ({0: (0, 4), 1: (0, 2)}, 100, [(0, 0, 4), (1, 0, 2)]),
        ({0: (0, 1000)}, 1, [(0, 999, 1000)]),
        ({0: (0, 1000)}, 2, [(0, 0, 1), (0, 999, 1000)]),
        ({0: (0, 10), 1: (100, 200)}, 4, [(0, 0, 1), (1, 100, 101), (0, 9, 10), (1, 199, 200)]),
    ],
)
def test_spans(ranges: dict, count: int, expected: list):
    assert edges(ranges, count) == expected


def test_a_long_partition_is_read_from_its_first_to_its_last_record():
    found = edges({0: (0, 1_000_000)}, 5_000)
    assert len(found) == 20 and sum(until - start for _, start, until in found) == 5_000
    assert found[0][1] == 0 and found[-1][2] == 1_000_000
    gaps = {after[1] - before[2] for before, after in pairwise(found)}
    assert max(gaps) - min(gaps) <= 1


@given(
    st.dictionaries(st.integers(0, 999), st.tuples(st.integers(0, 50), st.integers(0, 10_000)), max_size=60),
    st.integers(1, 6_000),
)
def test_no_offset_is_read_twice_and_none_that_is_not_there(ranges: dict, count: int):
    found = edges(ranges, count)
    offsets = [(number, offset) for number, start, until in found for offset in range(start, until)]
    assert len(set(offsets)) == len(offsets) <= max(count, 1)
    assert all(ranges[number][0] <= offset < ranges[number][1] for number, offset in offsets)
    held = [number for number, (start, end) in ranges.items() if start < end]
    if count >= len(held):
        assert {number for number, _ in offsets} == set(held)
