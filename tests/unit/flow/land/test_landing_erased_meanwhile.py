"""A landing reads the erasure list again when it has committed, whatever it could not land."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluice.errors import NotAllLanded, RecordsExpired
from sluice.flow.land.amend import erase_unit as module
from sluice.flow.land.amend.erase_unit import erase_owed, erase_unit
from sluice.slices import Unit
from sluice.state.erasures import read_erasures, unerased
from sluice.state.manifests import read_manifests
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import InProcess, World, event, pipeline, rows_in
from tests.unit.flow.land.test_erase_unit import bare
from tests.unit.flow.land.test_landing_erased import PERSON, whole
from tests.unit.flow.land.test_remake import BIDS, SLICES, spec, units, worlds

CLICKS = [event("click", n * 10, grade=f"k{n % 2}") for n in range(18)]
Meanwhile = Callable[[Callable[[], None]], None]


@pytest.fixture
def meanwhile(monkeypatch) -> Meanwhile:
    """Does something once, when the tasks of a landing have read all, and nothing is committed yet."""
    real = InProcess.land

    def on_landing(do: Callable[[], None]) -> None:
        def land(self: InProcess, reads: Any) -> Any:
            report = real(self, reads)
            monkeypatch.undo()
            do()
            return report

        monkeypatch.setattr(InProcess, "land", land)

    return on_landing


@pytest.mark.parametrize("mode", ["fill", "reland", "remake"])
def test_what_is_asked_for_while_a_slice_lands_is_left_out_of_it(mode: str, meanwhile: Meanwhile):
    world, lake = World(worlds()), MemoryLake()
    world.resolve(spec(), lake, SLICES)
    if mode != "fill":
        world.land(spec(), lake, SLICES)
    meanwhile(lambda: ask(lake, PERSON))
    found = world.land(spec(), lake, SLICES, mode, "meanwhile")
    manifests = list(read_manifests(lake, units(spec())).values())
    assert sorted(found.landed, key=str) == sorted(manifests, key=str)
    assert unerased(lake, read_manifests(lake, units(spec()))) == {}
    assert b'"k1"' not in whole(lake)
    world, oracle = World(worlds()), MemoryLake()
    world.resolve(spec(), oracle, SLICES)
    ask(oracle, PERSON)
    world.land(spec(), oracle, SLICES)
    assert bare(contents(lake, units(spec()))) == bare(contents(oracle, units(spec())))


def test_also_where_a_unit_of_the_batch_has_expired(meanwhile: Meanwhile):
    """The next landing is a `fill`: it leaves alone what has landed."""
    world, lake = World({BIDS: [CLICKS]}), MemoryLake()
    world.resolve(pipeline(), lake, SLICES)
    world.expire(*BIDS, 0, 3)
    meanwhile(lambda: ask(lake, PERSON))
    with pytest.raises(RecordsExpired):
        world.land(pipeline(), lake, SLICES)
    assert [*read_manifests(lake, all_units())] == all_units()[1:]
    assert b'"k1"' not in whole(lake)
    assert whole(lake).count(b'"grade":"k0"') == 6


def test_a_reland_that_fails_for_one_unit_brings_nobody_back(meanwhile: Meanwhile):
    """The whole erasure runs while the landing reads."""
    world, lake = World({BIDS: [CLICKS]}, plain=True), MemoryLake()
    world.resolve(pipeline(), lake, SLICES)
    world.land(pipeline(), lake, SLICES)

    def erase() -> None:
        ask(lake, PERSON)
        erase_owed(lake, all_units())
        assert "k1" not in repr(rows_in(lake, [*read_manifests(lake, all_units()).values()]))

    meanwhile(erase)
    with pytest.raises(NotAllLanded, match="01T01Z/dc1 did not land"):
        world.land(pipeline(), lake, SLICES, "reland", "R", hidden=frozenset([8]))
    generations = [manifest.generation for manifest in read_manifests(lake, all_units()).values()]
    assert generations == [4, 2, 4]  # landed, erased, landed again, erased again
    assert b'"k1"' not in whole(lake)
    assert whole(lake).count(b'"grade":"k0"') == 9


def test_what_is_asked_for_while_it_erases_is_left_out_too(meanwhile: Meanwhile):
    world, lake = World({BIDS: [CLICKS]}), MemoryLake()
    world.resolve(pipeline(), lake, SLICES)

    def then_ask(*arguments: Any) -> Any:
        new = erase_unit(*arguments)
        if len(read_erasures(lake).entries) == 1:
            ask(lake, entry("grade=k0"))
        return new

    meanwhile(lambda: ask(lake, PERSON))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "erase_unit", then_ask)
        world.land(pipeline(), lake, SLICES)
    assert not rows_in(lake, [*read_manifests(lake, all_units()).values()])
    assert [manifest.erased for manifest in read_manifests(lake, all_units()).values()] == [6, 6, 6]


def all_units() -> list[Unit]:
    return [Unit(piece, "dc1") for piece in SLICES]
