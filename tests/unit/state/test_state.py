"""The state of a unit, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.manifest import Forgotten, Loss
from sluice.state.row_balance import balance_of, without_table
from sluice.state.unit_state import Commit, UnitFacts, UnitState, state_of
from tests.support.manifests import made_manifest
from tests.support.verified import FOUND, TEN, manifest, pipeline

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


# ---- What states are called, wherever they are shown, and how the ledger's rows are compared.


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


# ---- Where every row that landed is.

WHOLE = FOUND[0]
MISSING = replace(WHOLE, state=UnitState.MISSING, manifest=None, tables={})


def test_rows_of_a_type_without_a_table_are_counted_as_such():
    """6 clicks, of which one is a rejected row, and 3 views that no table takes."""
    spec = pipeline(tables={"click": "e.clicks"})
    assert without_table(spec, manifest(TEN, 0)) == {"view": 3}
    assert without_table(pipeline(), manifest(TEN, 0)) == {}
    assert str(balance_of(spec, [WHOLE, MISSING])) == (
        "9 rows parsed = 5 loaded + 1 rejected + 3 without a table (view) + 0 not loaded"
    )
    assert balance_of(spec, [replace(WHOLE, tables={})]).not_loaded == 6
    assert str(balance_of(pipeline(), FOUND)) == (
        "18 rows parsed = 16 loaded + 2 rejected + 0 without a table + 0 not loaded"
    )


def test_a_commit_of_an_earlier_manifest_is_not_of_this_one():
    """The hour was landed again, and the tables still hold what was there before."""
    again = replace(WHOLE, manifest=replace(manifest(TEN, 0), generation=2))
    assert balance_of(pipeline(), [again]).not_loaded == 9


def test_rows_that_an_earlier_pipeline_file_routed_are_not_loaded_by_this_one():
    """The table has the views, and they have no table any more: nothing is counted twice."""
    spec = pipeline(tables={"click": "e.clicks", "push": "e.other"})
    found = balance_of(spec, [WHOLE])
    assert (found.loaded, found.rejected_rows, found.without, found.not_loaded) == (5, 1, {"view": 3}, 0)
