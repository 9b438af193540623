"""What tables hold decides the word for a landed record."""

from __future__ import annotations

from dataclasses import replace

import pendulum
import pytest

from sluice.flow.find.outcome import Outcome, meaning, outcome_of
from sluice.flow.find.record_facts import LakeRow, RecordFacts, TableRecord
from sluice.flow.find.record_place import RecordPlace, SeatedOffset
from sluice.manifest import Forgotten, LandedFile, Manifest, OffsetRange
from sluice.slices import Slice

START = pendulum.datetime(2026, 11, 20, 10)
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


@pytest.mark.parametrize("tables", [(), (table(landed=0),), (table(rows=0, landed=0),)])
def test_of_a_forgotten_unit_only_tables_are_known(tables: tuple[TableRecord, ...]):
    files = (LandedFile("type=click/f", "a", "click", "2026-11-20T10", 1, 1, "x"),)
    landed = Manifest("p", "s", "dc1", 1, "a", (OffsetRange("bids", "u", 0, 0, 9),), files, (), 9, {}, 0)
    gone = replace(landed, forgotten=Forgotten(lake="2028-01-01T00:00:00Z"))
    facts = RecordFacts(PLACE, SeatedOffset("u", Slice(START), None, None), gone, (), (), tables)
    assert outcome_of(facts) == Outcome.FORGOTTEN
    assert facts.found == bool(tables and tables[0].rows)
    # An offset that the slice has not read is none of it.
    beyond = replace(facts, place=replace(PLACE, offset=9))
    assert outcome_of(beyond) == Outcome.LACKING


def test_each_outcome_has_words():
    words = [meaning(outcome) for outcome in Outcome]
    assert len(set(words)) == len(words)
    assert all(words)
