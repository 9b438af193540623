"""What states are called, wherever they are shown, and how the ledger's rows are compared."""

from __future__ import annotations

import pytest

from sluice.state.unit_state import Commit, UnitFacts, UnitState, state_of
from tests.unit.state.test_state import MANIFEST


def test_the_words_for_each_state():
    assert [str(state) for state in UnitState] == [
        "not over",
        "missing",
        "expired",
        "landed",
        "stale",
        "complete",
        "complete with loss",
        "forgotten",
    ]


@pytest.mark.parametrize(
    ("committed", "wanted", "state"),
    [("", "", UnitState.COMPLETE), ("hash", "hash", UnitState.COMPLETE), ("hash", "", UnitState.STALE)],
)
def test_rows_that_were_spread_by_another_rule_are_stale(committed, wanted, state):
    held, needed = (Commit("1-a", ("click",), sharding) for sharding in (committed, wanted))
    assert state_of(UnitFacts(True, (), MANIFEST, {"e.clicks": held}, {"e.clicks": needed})) is state


def test_a_table_on_one_place_is_not_sharded():
    assert Commit("1-a", ("click",)) == Commit("1-a", ("click",), "")
