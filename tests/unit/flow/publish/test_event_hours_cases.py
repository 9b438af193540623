"""Which slices an event hour waits for, and which hours a range of slices can have completed."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pendulum
import pytest

from sluice import crash_points
from sluice.crash_points import Publish
from sluice.flow.publish import EventWindow, complete, publish_event_hours
from sluice.slices import Slice, SliceRange, last_late
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline

HOUR = timedelta(hours=1)
BIDS = ("dc1", "bids")


def window(length: float = 1, grace: float = 1, early: float | None = 1, first: float = 0) -> EventWindow:
    max_early = None if early is None else timedelta(hours=early)
    return EventWindow(timedelta(hours=length), timedelta(hours=grace), max_early, at(first))


def at(hour: float) -> pendulum.DateTime:
    return START + timedelta(hours=hour)


@pytest.mark.parametrize(
    ("known", "hour", "edges"),
    [
        (window(), 5, (4, 7)),
        (window(), 0, (0, 2)),
        (window(grace=0, early=0), 5, (5, 6)),
        (window(early=None), 5, (0, 7)),
        (window(early=None, first=3), 5, (3, 7)),
        (window(length=0.25, grace=0.25, early=0.1), 5, (4.75, 6.25)),
        (window(length=3, grace=1, early=1), 5, (3, 9)),
        (window(length=3, grace=0, early=0), 5, (3, 6)),
        (window(first=6), 5, (6, 7)),
        (window(length=24, grace=24, early=1), 0, (0, 48)),
    ],
)
def test_an_hour_waits_for_the_slices_that_may_bring_its_events(known, hour, edges):
    found = known.of(at(hour))
    assert (found.start, found.end, found.length) == (at(edges[0]), at(edges[1]), known.length)


KNOWN = [
    window(length, grace, early, first)
    for length, grace, early, first in product((0.25, 1, 3), (0, 1, 2.5), (None, 0, 1, 30), (0, 1.5, 4.25))
    if (first / length).is_integer()
]


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_the_hours_that_a_range_can_have_completed(known):
    """Against every hour of two days, asked one by one."""
    waits = {hour: known.of(at(hour)) for hour in range(-12, 36) if at(hour + 1) > known.first}
    for start, end, last in ((6, 9, 9), (6, 9, 12), (9, 12, 24), (0, 24, 24)):
        expected = [
            at(hour)
            for hour, slices in waits.items()
            if max(slices.start, at(start)) < min(slices.end, at(end)) and slices.end <= at(last)
        ]
        assert known.touched(SliceRange(at(start), at(end), known.length), at(last)) == expected


@pytest.mark.parametrize("early", [None, 0, 1])
def test_slices_before_the_first_one_touch_nothing(early):
    assert window(early=early, first=6).touched(SliceRange(at(3), at(6)), at(24)) == []


def test_hours_that_wait_for_none_of_the_missing_slices():
    known = window(length=0.25, grace=0.25, early=0)  # hour h waits for [h, h + 1:15)
    found = complete([at(h) for h in range(6)], known, [at(1), at(3.25), at(5.5)])
    assert found == [at(2), at(4)]
    assert complete([at(h) for h in range(3)], known, []) == [at(0), at(1), at(2)]
    assert complete([at(0), at(1)], known, [at(2.25)]) == [at(0), at(1)]
    assert complete([at(0), at(1)], known, [at(2)]) == [at(0)]
    assert complete([], known, [at(0)]) == []


@pytest.mark.parametrize(
    ("start", "length", "grace", "hour"),
    [
        (12, 1, 1, "2026-01-01T10"),
        (12, 1, 0, "2026-01-01T11"),
        (12, 0.25, 0.25, "2026-01-01T10"),
        (12.25, 0.25, 0.25, "2026-01-01T11"),
        (0, 24, 24, "2025-12-30T23"),
    ],
)
def test_the_last_hour_whose_events_come_late(start, length, grace, hour):
    piece = Slice(at(start), timedelta(hours=length))
    assert last_late(piece, timedelta(hours=grace)) == hour


def marks(lake: MemoryLake) -> dict[str, bytes]:
    return {
        k: data for k, (data, *_) in lake.objects.items() if k.startswith("type=") and k.endswith("/_SUCCESS")
    }


def landed(count: int = 5, **changes: object) -> tuple:
    spec = pipeline(**changes)
    world, lake = World({BIDS: [[event("click", 60 * n + 30) for n in range(count)]]}), MemoryLake()
    world.resolve(spec, lake, hours(count))
    world.land(spec, lake, hours(count))
    return spec, lake


def test_the_mark_is_empty_and_lies_in_the_hours_folder():
    spec, lake = landed(2, tables={"click": "d.click", "bid": "d.bid"}, grace="0h")
    assert publish_event_hours(spec, lake, hours(2)) == ["2026-01-01T00", "2026-01-01T01"]
    assert marks(lake) == {
        f"type={kind}/date=2026-01-01/hour={hour}/_SUCCESS": b""
        for kind in ("click", "bid")
        for hour in ("00", "01")
    }


@pytest.mark.parametrize(
    ("changes", "published"),
    [
        ({}, [1, 2, 3]),
        ({"grace": "0h"}, [2, 3, 4]),
        ({"grace": "2h"}, [0, 1, 2]),
        ({"max_early": "0h", "grace": "0h"}, [2, 3]),
        ({"max_early": None, "grace": "0h"}, [2, 3, 4]),
        ({"start": START.add(hours=3), "grace": "0h", "max_early": None}, [3, 4]),
    ],
)
def test_hours_that_a_run_of_two_slices_completes(changes, published):
    """Five hours have landed, and the run was of the hours 2 and 3."""
    spec, lake = landed(5, **{k: v for k, v in changes.items() if k != "start"})
    spec = spec.model_copy(update={k: v for k, v in changes.items() if k == "start"})
    assert [int(name[-2:]) for name in publish_event_hours(spec, lake, hours(2, first=2))] == published


def test_without_configured_types_nothing_is_marked():
    spec, lake = landed(3, tables={"*": "d.rest"})
    assert publish_event_hours(spec, lake, hours(3)) == []
    assert marks(lake) == {}


def test_a_range_that_completes_no_hour():
    spec, lake = landed(3)
    assert publish_event_hours(spec, lake, hours(1, first=40)) == []


@pytest.mark.parametrize(
    ("changes", "missing", "published"),
    [
        ({}, 2, [0]),
        ({"max_early": "0h", "grace": "0h"}, 0, [1, 2, 3]),
        ({"max_early": "0h", "grace": "0h"}, 1, [0, 2, 3]),
        ({"max_early": "0h", "grace": "0h"}, 3, [0, 1, 2]),
    ],
)
def test_an_hour_waits_for_a_slice_that_has_not_landed(changes, missing, published):
    spec, lake = landed(4, **changes)
    lake.delete([f"_slices/2026-01-01T0{missing}Z/dc1/manifest.json"])
    assert [int(name[-2:]) for name in publish_event_hours(spec, lake, hours(4))] == published


def test_after_each_mark_a_crash_is_harmless(monkeypatch):
    reached: list[object] = []
    spec, lake = landed(2, tables={"click": "d.click", "bid": "d.bid"}, grace="0h")
    monkeypatch.setattr(crash_points, "reached", reached.append)
    publish_event_hours(spec, lake, hours(2))
    assert [point for point in reached if isinstance(point, Publish)] == [Publish.HOUR_MARKED] * 4
    assert len(marks(lake)) == 4
