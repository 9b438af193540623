"""From what is known of a slice to its cell, as a table of cases."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest

from sluice.page.airflow_runs import Phase, SliceActivity
from sluice.page.models import Cell, CellFacts, cell_of, due_by, worst
from sluice.state.unit_state import UnitState

RUNNING = SliceActivity(Phase.LANDING, "p", "r")
LOADING = SliceActivity(Phase.LOADING, "p", "r")
SETTLING = SliceActivity(Phase.SETTLING, "p", "r")
FAILED = SliceActivity(Phase.FAILED, "p", "r")
S = UnitState


def known(*states: UnitState, **more: object) -> CellFacts:
    return CellFacts(
        **{
            "states": states,
            "verified": False,
            "anomalies": 0,
            "work": None,
            "overdue": False,
            "expected": True,
            **more,
        }
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (known(S.NOT_OVER), "open"),
        (known(S.NOT_OVER, anomalies=1), "open"),
        (known(S.MISSING), "waiting"),
        (known(S.MISSING, expected=False), "before"),
        (known(S.MISSING, expected=False, overdue=True), "before"),
        (known(S.MISSING, overdue=True), "late"),
        (known(S.MISSING, work=RUNNING), "landing"),
        (known(S.MISSING, work=RUNNING, overdue=True), "landing"),
        (known(S.MISSING, work=SETTLING), "waiting"),
        (known(S.MISSING, work=SETTLING, overdue=True), "waiting"),
        (known(S.EXPIRED, work=SETTLING), "expired"),
        (known(S.MISSING, work=FAILED, overdue=True), "failed"),
        (known(S.EXPIRED), "expired"),
        (known(S.EXPIRED, work=FAILED), "expired"),
        (known(S.EXPIRED, work=RUNNING), "landing"),
        (known(S.LANDED), "landed"),
        (known(S.LANDED, work=LOADING, overdue=True), "landed"),
        (known(S.LANDED, work=FAILED), "failed"),
        (known(S.LANDED, overdue=True), "late"),
        (known(S.LANDED, overdue=True, gone=True), "no-table"),
        (known(S.LANDED, S.COMPLETE, overdue=True, gone=True), "no-table"),
        (known(S.LANDED, S.MISSING, overdue=True, gone=True), "late"),
        (known(S.STALE, overdue=True, gone=True), "late"),
        (known(S.LANDED, gone=True), "no-table"),
        (known(S.LANDED, gone=True, work=RUNNING), "landed"),
        (known(S.COMPLETE, odd=True, empty=True), "odd"),
        (known(S.COMPLETE, verified=True, odd=True), "odd"),
        (known(S.COMPLETE, verified=True, empty=True), "empty"),
        (known(S.COMPLETE, odd=True, anomalies=1), "broken"),
        (known(S.MISSING, empty=True), "waiting"),
        (known(S.LANDED, work=LOADING, overdue=True, gone=True), "landed"),
        (known(S.LANDED, work=FAILED, overdue=True, gone=True), "failed"),
        (known(S.COMPLETE, overdue=True, gone=True), "loaded"),
        (known(S.STALE), "stale"),
        (known(S.COMPLETE), "loaded"),
        (known(S.COMPLETE, overdue=True, work=FAILED), "loaded"),
        (known(S.COMPLETE, verified=True), "verified"),
        (known(S.COMPLETE, verified=True, anomalies=1), "broken"),
        (known(S.COMPLETE_WITH_LOSS, verified=True), "lossy"),
        (known(S.COMPLETE, S.COMPLETE_WITH_LOSS, verified=True), "lossy"),
        (known(S.FORGOTTEN, verified=True), "forgotten"),
        (known(S.COMPLETE, S.FORGOTTEN, verified=False), "forgotten"),
        (known(S.FORGOTTEN, S.COMPLETE_WITH_LOSS, verified=True), "lossy"),
        (known(S.COMPLETE, S.MISSING, verified=False), "waiting"),
        (known(S.COMPLETE, S.LANDED), "landed"),
        (known(S.LANDED, S.MISSING, work=RUNNING), "landing"),
    ],
)
def test_the_cell_of_a_slice(facts: CellFacts, expected: str):
    assert cell_of(facts) == expected


def test_every_cell_has_a_sign_of_its_own_and_a_meaning():
    assert all(cell.meaning for cell in Cell)
    assert len({cell.sign for cell in Cell}) == len(Cell)


def test_a_slice_is_overdue_when_the_next_one_is_due_too():
    end, settle = pendulum.datetime(2026, 11, 20, 10), timedelta(minutes=2)
    hour = timedelta(hours=1)
    assert not end < due_by(settle, hour, end + timedelta(minutes=62))
    assert end < due_by(settle, hour, end + timedelta(minutes=62, seconds=1))


def test_the_worst_of_some_cells():
    assert worst([Cell.VERIFIED, Cell.BROKEN, Cell.WAITING]) is Cell.BROKEN
    assert worst([]) is Cell.BEFORE
