"""What Kafka no longer has of a range whose boundaries are stored."""

from __future__ import annotations

import pytest

from sluice.manifest import Loss, OffsetRange
from sluice.state.boundaries.retention import rest, retained


def offset_range(partition: int, start: int, until: int) -> OffsetRange:
    return OffsetRange("bids", "id", partition, start, until)


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
