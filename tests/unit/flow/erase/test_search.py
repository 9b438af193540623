"""What a search finds in the files of the units, and what it takes for searched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.flow.erase.erasure_request import Where
from sluice.flow.erase.search import covered, search, unsearched_lines
from sluice.flow.erase.search_unit import UnitSearch
from sluice.flow.forget.decide import ForgetAction, ForgetDecision
from sluice.flow.forget.note_forgotten import confirm, note_forgotten, restore
from sluice.flow.land.task.erasing import ErasedValues
from sluice.manifest import Forgotten
from sluice.slices import Unit
from sluice.state.erasures.erasure_list import Erasure
from sluice.state.erasures.erasure_progress import ErasureProgress, note_progress, read_progress, unerased
from sluice.state.erasures.erasure_store import read_erasures
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

UNIT = Unit(next(iter(hours(1))), "dc1")
NOWHERE = Forgotten(lake="2028-01-01T00:00:00Z", tables=())
REJECTED = Forgotten(rejected="2028-01-01T00:00:00Z", tables=())


def searched(lake: MemoryLake, wheres: str, asked: Erasure) -> ErasureProgress:
    """Searches as the same words do, and notes it in the lake."""
    typed = tuple(Where(tuple(path.split(".")), value) for path, value in [wheres.split("=")])
    one = UnitSearch(lake, ErasedValues(read_erasures(lake), [asked]), typed, asked.type)
    more = ErasureProgress()
    for part in search(covered(pipeline(), lake, asked), one, read_progress(lake, 0), {}, lambda _: None):
        more = more.with_more(part.progress)
    return note_progress(lake, 0, more)


@pytest.mark.parametrize(
    ("forgotten", "person"),
    [(NOWHERE, event("click", 1, grade="k1")), (REJECTED, (b'{"grade":"k1"', event("x", 1)[1]))],
)
def test_what_has_begun_to_be_forgotten_is_searched_when_it_is_taken_back(forgotten: Forgotten, person: Any):
    world, lake, asked = World({("dc1", "bids"): [[person]]}), MemoryLake(), entry("grade=k1")
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    ask(lake, asked)
    status = cast("Any", SimpleNamespace(unit=UNIT, manifest=covered(pipeline(), lake, asked)[UNIT]))
    begun = ForgetDecision(status, ForgetAction.FORGET, forgotten)
    assert note_forgotten(lake, begun)
    assert searched(lake, "grade=k1", asked) == ErasureProgress()
    assert "`sluice forget` ends it" in unsearched_lines(covered(pipeline(), lake, asked))[0]
    restore(lake, begun)
    now = covered(pipeline(), lake, asked)
    assert unerased(lake, now) == {UNIT: 0}
    assert [*searched(lake, "grade=k1", asked).found] == [str(UNIT)]


def test_what_is_forgotten_is_searched_once():
    world, lake, asked = World({("dc1", "bids"): [[event()]]}), MemoryLake(), entry("grade=k1")
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    ask(lake, asked)
    manifest = covered(pipeline(), lake, asked)[UNIT]
    gone = ForgetDecision(
        cast("Any", SimpleNamespace(unit=UNIT, manifest=manifest)), ForgetAction.FORGET, NOWHERE
    )
    note_forgotten(lake, gone)
    confirm(lake, gone)
    assert searched(lake, "grade=k1", asked) == ErasureProgress({str(UNIT): manifest.id})
    now = covered(pipeline(), lake, asked)
    assert unerased(lake, now) == {}
    assert "the lake forgot its files" in unsearched_lines(now)[0]
