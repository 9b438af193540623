"""Of a range only some units are landed: the others stay as they are."""

from __future__ import annotations

from sluice.flow.land.land import land
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import InProcess, World, event, hours, pipeline

LOGS = {("dc1", "bids"): [[event("click", n) for n in range(240)]]}
UNITS = [Unit(slice_, "dc1") for slice_ in hours(4)]


def test_a_fill_and_a_remake_of_some():
    world, lake = World(LOGS), MemoryLake()
    world.resolve(pipeline(), lake, hours(4))
    _land(world, lake, "fill", "t", UNITS[:3])
    assert list(read_manifests(lake, UNITS)) == UNITS[:3]
    _land(world, lake, "remake", "again", {UNITS[0], UNITS[2]})
    found = read_manifests(lake, UNITS)
    assert [(unit, manifest.generation) for unit, manifest in found.items()] == [
        (UNITS[0], 2),
        (UNITS[1], 1),
        (UNITS[2], 2),
    ]


def _land(world: World, lake: MemoryLake, mode: str, token: str, only) -> None:
    engine = InProcess(world)
    land(pipeline(), lake, hours(4), mode, token, engine, lambda line: None, world.topics_of, only=only)
