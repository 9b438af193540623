"""The state of a unit, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.manifest import Forgotten, Loss
from sluice.state.unit_state import Commit, UnitFacts, UnitState, state_of
from tests.support.manifests import made_manifest

LOSS = Loss("bids", 0, 0, 10, exact=False)
MANIFEST = made_manifest("ads", "2026-11-20T10Z", "dc1", 1, "a", (), (), (), 0, {}, 0)
LOSSY = made_manifest("ads", "2026-11-20T10Z", "dc1", 1, "a", (), (), (), 0, {}, 0, lost=(LOSS,))
GONE = replace(LOSSY, forgotten=Forgotten(lake="2026-12-01T00:00:00Z"))
CLICKS, OTHER = Commit("1-a", ("click",)), Commit("1-a", ("view",))
WANTED = {"e.clicks": CLICKS, "e.other": OTHER}


@pytest.mark.parametrize(
    ("over", "losses", "manifest", "committed", "state"),
    [
        (False, (), None, {}, UnitState.NOT_OVER),
        (False, (LOSS,), None, {}, UnitState.NOT_OVER),
        (True, (), None, {}, UnitState.MISSING),
        (True, (LOSS,), None, {}, UnitState.EXPIRED),
        (True, (), None, WANTED, UnitState.MISSING),
        (True, (), MANIFEST, {}, UnitState.LANDED),
        (True, (), MANIFEST, {"e.clicks": CLICKS}, UnitState.LANDED),
        (True, (LOSS,), MANIFEST, WANTED, UnitState.COMPLETE),
        (True, (), MANIFEST, WANTED, UnitState.COMPLETE),
        (True, (), MANIFEST, {**WANTED, "e.clicks": Commit("0-z", ("click",))}, UnitState.STALE),
        (True, (), MANIFEST, {**WANTED, "e.other": Commit("1-a", ("click", "view"))}, UnitState.STALE),
        (True, (), MANIFEST, {**WANTED, "e.dropped": CLICKS}, UnitState.COMPLETE),
        (True, (), LOSSY, WANTED, UnitState.COMPLETE_WITH_LOSS),
        (True, (), LOSSY, {}, UnitState.LANDED),
        (True, (), GONE, WANTED, UnitState.FORGOTTEN),
        (True, (LOSS,), GONE, WANTED, UnitState.FORGOTTEN),
        (True, (), replace(MANIFEST, forgotten=Forgotten(rejected="…")), WANTED, UnitState.COMPLETE),
    ],
)
def test_state(over, losses, manifest, committed, state):
    wanted = WANTED if manifest else {}
    assert state_of(UnitFacts(over, losses, manifest, committed, wanted)) is state


def test_without_tables_a_landed_unit_is_complete():
    assert state_of(UnitFacts(True, (), MANIFEST, {}, {})) is UnitState.COMPLETE


@pytest.mark.parametrize("state", list(UnitState))
def test_only_complete_states_are_done(state):
    assert state.done == (state.value.startswith("complete") or state is UnitState.FORGOTTEN)
