"""What tables hold decides the word for a landed record."""

from __future__ import annotations

import pytest

from sluice.flow.find.outcome import Outcome, meaning, outcome_of
from sluice.flow.find.record_facts import LakeRow, RecordFacts, TableRecord
from sluice.flow.find.record_place import RecordPlace

PLACE = RecordPlace("dc1", "bids", 0, 5)
ROW = LakeRow(PLACE, "f", 0, 0, type="click")
REFUSED = LakeRow(PLACE, "r", 0, 0, reason="no type", number=1)


def table(commit: str = "committed", rows: int | None = 1, *misfits: int, **more) -> TableRecord:
    """`misfits`: the rows of the array that have one."""
    found = tuple(("price", "does not fit UInt16", row) for row in misfits)
    return TableRecord("db.t", commit, rows=rows, misfits=found, **more)


MISFIT = table("committed", 0, 0)


@pytest.mark.parametrize(
    ("rows", "tables", "outcome"),
    [
        ([ROW], [], Outcome.NO_TABLE),
        ([ROW], [table()], Outcome.IN_TABLE),
        ([ROW], [table(rows=None)], Outcome.IN_TABLE),
        ([ROW], [table(rows=0)], Outcome.ABSENT),
        ([ROW], [table(), table(rows=0)], Outcome.ABSENT),
        ([ROW], [table("not loaded", 0)], Outcome.NOT_LOADED),
        ([ROW], [table("stale")], Outcome.NOT_LOADED),
        ([ROW], [table(), table("not loaded", None)], Outcome.NOT_LOADED),
        ([ROW], [table(rows=2)], Outcome.TWICE),
        ([ROW], [table(rows=0, lasting=False)], Outcome.IN_TABLE),
        ([ROW], [table(rows=2, lasting=False)], Outcome.IN_TABLE),
        ([ROW, ROW], [table(rows=2, landed=2)], Outcome.IN_TABLE),
        ([ROW, ROW], [table(rows=1, landed=2)], Outcome.ABSENT),
        ([ROW, ROW], [table("committed", 1, 1, 1, landed=2)], Outcome.MISFIT),
        ([ROW, ROW], [table("committed", 1, 0, 1, landed=2)], Outcome.TWICE),
        ([ROW], [table("stale", 0, 0)], Outcome.NOT_LOADED),
        ([ROW], [MISFIT], Outcome.MISFIT),
        ([ROW], [table(), MISFIT], Outcome.MISFIT),
        ([ROW], [table("unavailable", None)], Outcome.UNKNOWN),
        ([ROW], [table(), table("unavailable", None)], Outcome.UNKNOWN),
        ([REFUSED], [], Outcome.REJECTED),
        ([ROW, REFUSED], [table()], Outcome.IN_TABLE),
    ],
)
def test_a_record_with_rows(rows: list[LakeRow], tables: list[TableRecord], outcome: Outcome):
    assert outcome_of(RecordFacts(PLACE, None, None, tuple(rows), (), tuple(tables))) == outcome


def test_each_outcome_has_words():
    words = [meaning(outcome) for outcome in Outcome]
    assert len(set(words)) == len(words)
    assert all(words)
