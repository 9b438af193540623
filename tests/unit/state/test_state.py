"""The state of a unit, row by row."""

from __future__ import annotations

import pytest

from sluice.manifest import Loss, Manifest
from sluice.state.unit_state import Commit, Facts, State, state_of

LOSS = Loss("bids", 0, 0, 10, exact=False)
MANIFEST = Manifest("ads", "2026-11-20T10Z", "dc1", 1, "a", (), (), (), 0, {}, 0)
LOSSY = Manifest("ads", "2026-11-20T10Z", "dc1", 1, "a", (), (), (), 0, {}, 0, lost=(LOSS,))
CLICKS, OTHER = Commit("1-a", ("click",)), Commit("1-a", ("view",))
WANTED = {"e.clicks": CLICKS, "e.other": OTHER}


@pytest.mark.parametrize(
    ("over", "losses", "manifest", "committed", "state"),
    [
        (False, (), None, {}, State.NOT_OVER),
        (False, (LOSS,), None, {}, State.NOT_OVER),
        (True, (), None, {}, State.MISSING),
        (True, (LOSS,), None, {}, State.EXPIRED),
        (True, (), None, WANTED, State.MISSING),
        (True, (), MANIFEST, {}, State.LANDED),
        (True, (), MANIFEST, {"e.clicks": CLICKS}, State.LANDED),
        (True, (LOSS,), MANIFEST, WANTED, State.COMPLETE),
        (True, (), MANIFEST, WANTED, State.COMPLETE),
        (True, (), MANIFEST, {**WANTED, "e.clicks": Commit("0-z", ("click",))}, State.STALE),
        (True, (), MANIFEST, {**WANTED, "e.other": Commit("1-a", ("click", "view"))}, State.STALE),
        (True, (), MANIFEST, {**WANTED, "e.dropped": CLICKS}, State.COMPLETE),
        (True, (), LOSSY, WANTED, State.COMPLETE_WITH_LOSS),
        (True, (), LOSSY, {}, State.LANDED),
    ],
)
def test_state(over, losses, manifest, committed, state):
    wanted = WANTED if manifest else {}
    assert state_of(Facts(over, losses, manifest, committed, wanted)) is state


def test_without_tables_a_landed_unit_is_complete():
    assert state_of(Facts(True, (), MANIFEST, {}, {})) is State.COMPLETE


@pytest.mark.parametrize("state", list(State))
def test_only_complete_states_are_done(state):
    assert state.done == state.value.startswith("complete")
