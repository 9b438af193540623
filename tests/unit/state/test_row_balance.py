"""Where every row that landed is."""

from __future__ import annotations

from dataclasses import replace

from sluice.state.row_balance import balance_of, without_table
from sluice.state.unit_state import UnitState
from tests.support.verified import FOUND, TEN, manifest, pipeline

WHOLE = FOUND[0]
MISSING = replace(WHOLE, state=UnitState.MISSING, manifest=None, tables={})


def test_rows_of_a_type_without_a_table_are_counted_as_such():
    """6 clicks, of which one is a misfit, and 3 views that no table takes."""
    spec = pipeline(tables={"click": "e.clicks"})
    assert without_table(spec, manifest(TEN, 0)) == {"view": 3}
    assert without_table(pipeline(), manifest(TEN, 0)) == {}
    assert str(balance_of(spec, [WHOLE, MISSING])) == (
        "9 rows parsed = 5 loaded + 1 misfits + 3 without a table (view) + 0 not loaded"
    )
    assert balance_of(spec, [replace(WHOLE, tables={})]).not_loaded == 6
    assert str(balance_of(pipeline(), FOUND)) == (
        "18 rows parsed = 16 loaded + 2 misfits + 0 without a table + 0 not loaded"
    )


def test_a_commit_of_an_earlier_manifest_is_not_of_this_one():
    """The hour was landed again, and the tables still hold what was there before."""
    again = replace(WHOLE, manifest=replace(manifest(TEN, 0), generation=2))
    assert balance_of(pipeline(), [again]).not_loaded == 9


def test_rows_that_an_earlier_pipeline_file_routed_are_not_loaded_by_this_one():
    """The table has the views, and they have no table any more: nothing is counted twice."""
    spec = pipeline(tables={"click": "e.clicks", "push": "e.other"})
    found = balance_of(spec, [WHOLE])
    assert (found.loaded, found.misfits, found.without, found.not_loaded) == (5, 1, {"view": 3}, 0)
