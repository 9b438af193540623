from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kafka.read_ranges import Read, read_count, reads
from sluice.manifest import Loss, OffsetRange
from sluice.state.boundaries.retention import rest, retained


def offset_range(partition: int, start: int, until: int) -> OffsetRange:
    return OffsetRange("bids", "id", partition, start, until)


@pytest.mark.parametrize(
    ("sizes", "rows_per_read", "expected"),
    [([], 10, 0), ([0, 0], 10, 0), ([1], 10, 1), ([10, 3], 10, 1), ([11, 3], 10, 2), ([100, 250], 100, 3)],
)
def test_the_largest_partition_says_how_many_reads(sizes, rows_per_read, expected):
    ranges = [offset_range(n, 7, 7 + size) for n, size in enumerate(sizes)]
    assert read_count(ranges, rows_per_read) == expected


def test_the_reads_of_a_slice():
    ranges = [offset_range(0, 0, 10), offset_range(1, 5, 5), offset_range(2, 100, 103)]
    assert reads(ranges, "dc1", 4) == (
        Read("dc1", "bids", 0, 0, 3),
        Read("dc1", "bids", 0, 3, 6),
        Read("dc1", "bids", 0, 6, 10),
        Read("dc1", "bids", 2, 100, 103),
    )


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 3000)), max_size=5),
    st.integers(1, 700),
)
def test_reads_tile_every_range(pairs, rows_per_read):
    ranges = [offset_range(n, start, start + size) for n, (start, size) in enumerate(pairs)]
    planned = reads(ranges, "dc1", rows_per_read)
    assert all(0 < read.offsets <= rows_per_read for read in planned)
    for r in ranges:
        mine = [read for read in planned if read.partition == r.partition]
        edges = [r.start, *(read.until for read in mine)]
        assert edges[-1] == r.until
        assert [read.start for read in mine] == edges[:-1]
        assert len(mine) <= read_count(ranges, rows_per_read)


@pytest.mark.parametrize(
    ("log_start", "losses", "left"),
    [
        (0, (), (10, 20)),
        (10, (), (10, 20)),
        (13, (Loss("bids", 0, 10, 13, exact=True),), (13, 20)),
        (20, (Loss("bids", 0, 10, 20, exact=True),), (20, 20)),
        (90, (Loss("bids", 0, 10, 20, exact=True),), (20, 20)),
    ],
)
def test_what_expired_of_a_stored_range(log_start, losses, left):
    ranges, starts = (offset_range(0, 10, 20),), {("bids", 0): log_start}
    assert retained(ranges, starts) == losses
    assert rest(ranges, starts) == (offset_range(0, *left),)


def test_an_empty_range_loses_nothing():
    assert retained([offset_range(0, 10, 10)], {("bids", 0): 15}) == ()
