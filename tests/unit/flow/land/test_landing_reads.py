"""What the landing's log says before it reads."""

from __future__ import annotations

from sluice.flow.land.read_plan import UnitRead, described
from sluice.manifest import OffsetRange
from sluice.slices import Unit
from tests.support.landing_world import hours


def unit_reads(*edges: tuple[int, ...], skip: int | None = None) -> list[UnitRead]:
    """A unit per hour between the edges of each partition; `skip` leaves one hour out."""
    found = []
    for number, piece in enumerate(hours(len(edges[0]) - 1)):
        ranges = tuple(OffsetRange("bids", "id", p, e[number], e[number + 1]) for p, e in enumerate(edges))
        if number != skip:
            found.append(UnitRead(Unit(piece, "dc1"), ranges, ranges, ()))
    return found


def test_consecutive_hours_are_one_line_a_partition():
    assert described(unit_reads((0, 5, 9), (7, 7, 8), (3, 3, 3))) == [
        "dc1/bids/0: offsets [0, 9) of 2026-01-01T00Z … 2026-01-01T01Z",
        "dc1/bids/1: offsets [7, 8) of 2026-01-01T00Z … 2026-01-01T01Z",
    ]


def test_an_hour_that_has_landed_divides_them():
    assert described(unit_reads((0, 5, 9, 12), skip=1)) == [
        "dc1/bids/0: offsets [0, 5) of 2026-01-01T00Z",
        "dc1/bids/0: offsets [9, 12) of 2026-01-01T02Z",
    ]


def test_of_many_only_the_number_is_said():
    edges = [(0, 1)] * 70
    assert described(unit_reads(*edges), most=64)[63:] == [
        "dc1/bids/63: offsets [0, 1) of 2026-01-01T00Z",
        "and 6 more partitions",
    ]
