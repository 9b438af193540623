"""A remake that would reject rows which are there needs a yes, and says how many: record by record."""

from __future__ import annotations

import pytest

from sluice.errors import NotAllLanded, WouldReject
from sluice.flow.land.remake_forecast import forecast
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

BIDS = ("dc1", "bids")
UNITS = [Unit(slice_, "dc1") for slice_ in hours(3)]
NOW = pipeline(event={"type": {"field": "type"}, "time": {"field": "when"}})


@pytest.fixture
def world() -> World:
    """In the first hour 20 rows have the old field, and 30 rejected ones the new one; the second hour has
    rejected ones alone, the third one nothing."""
    old = [event("click", n, grade=f"g{n}") for n in range(20)]
    new = [(text.replace(b'"at"', b'"when"'), at) for text, at in (*old, *old[:10])]
    second = [(text.replace(b'"at"', b'"when"'), at) for text, at in [event("click", 61), event("bid", 62)]]
    return World({BIDS: [[*old, *new, *second]]})


def test_a_net_gain_is_no_reason_to_take_rows_out(world: World) -> None:
    lake = MemoryLake()
    world.resolve(pipeline(), lake, hours(3))
    world.land(pipeline(), lake, hours(3))
    first = read_manifests(lake, UNITS)
    assert (first[UNITS[0]].landed, first[UNITS[0]].refused) == (20, 30)
    [told, gains, _] = forecast(NOW, lake, first)
    assert told.lost is not None and (told.lost.rows, told.lost.example) == (20, "dc1/bids/0/0")
    assert "20 rows would be 30" in str(told) and "20 rows that are there would be rejected" in str(told)
    assert gains.lost is not None and gains.lost.rows == 0 and "--yes" not in str(gains)
    with pytest.raises(NotAllLanded, match="01T00Z/dc1 did not land.*would reject 20 of its 20 rows"):
        world.land(NOW, lake, hours(3), "remake", "again", accept_loss=False)
    now = read_manifests(lake, UNITS)
    assert now[UNITS[0]] == first[UNITS[0]]
    assert (now[UNITS[1]].landed, now[UNITS[1]].generation) == (2, 2)
    world.land(NOW, lake, hours(3), "remake", "accepted", accept_loss=True)
    assert read_manifests(lake, UNITS)[UNITS[0]].landed == 30


def test_the_error_of_one_slice_says_what_to_do(world: World) -> None:
    lake = MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    with pytest.raises(WouldReject, match=r"the first dc1/bids/0/0 \(no time\).*take them out: --yes"):
        world.land(NOW, lake, hours(1), "remake", "again", accept_loss=False)
    assert not [key for key in lake.objects if key.startswith("_attempts/")]


def test_what_was_rejected_before_may_stay_rejected_for_another_reason(world: World) -> None:
    lake = MemoryLake()
    world.resolve(NOW, lake, hours(1))
    world.land(NOW, lake, hours(1))
    other = pipeline(event={"type": {"field": "type"}, "time": {"field": "when"}}, max_late="30m")
    world.land(other, lake, hours(1), "remake", "again", accept_loss=False)
    assert read_manifests(lake, UNITS)[UNITS[0]].generation == 2
