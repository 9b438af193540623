"""What tables hold decides the word for a landed record."""

from __future__ import annotations

from dataclasses import replace

import pendulum
import pytest

from sluice.flow.find.outcome import (
    LakeRow,
    OffsetLocation,
    Outcome,
    RecordFacts,
    RecordPlace,
    TableRecord,
    meaning,
    outcome_of,
)
from sluice.manifest import Forgotten, ForgottenRecords, LandedFile, OffsetRange, PartitionCount
from sluice.slices import Slice
from tests.support.manifests import made_manifest
from tests.support.verified import pipeline

START = pendulum.datetime(2026, 11, 20, 10)
PLACE = RecordPlace("dc1", "bids", 0, 5)
ROW = LakeRow(PLACE, "f", 0, 0, type="click")
ON = "2028-01-01T00:00:00Z"
BAD = (LandedFile("_rejected/f", "a", None, "", 2, 1, "x"),)
TOMBSTONE = LakeRow(PLACE, "r", 0, 0, reason="no value")
REFUSED = LakeRow(PLACE, "r", 0, 0, reason="no type", number=1)


def table(commit: str = "committed", rows: int | None = 1, *rejected_rows: int, **more) -> TableRecord:
    """`rejected_rows`: the rows of the array that have one."""
    found = tuple(("price", "does not fit UInt16", row) for row in rejected_rows)
    return TableRecord(
        "db.t", commit, rows=rows, rejected_rows=found, unfit_rows=len(set(rejected_rows)), **more
    )


REJECTED_ROW = table("committed", 0, 0)


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
        ([ROW, ROW], [table("committed", 1, 1, 1, landed=2)], Outcome.REJECTED_ROW),
        ([ROW, ROW], [table("committed", 1, 0, 1, landed=2)], Outcome.TWICE),
        ([ROW], [table("stale", 0, 0)], Outcome.NOT_LOADED),
        ([ROW], [REJECTED_ROW], Outcome.REJECTED_ROW),
        ([ROW], [table(), REJECTED_ROW], Outcome.REJECTED_ROW),
        ([ROW], [table("unavailable", None)], Outcome.UNKNOWN),
        ([ROW], [table(), table("unavailable", None)], Outcome.UNKNOWN),
        ([REFUSED], [], Outcome.REJECTED),
        ([TOMBSTONE], [], Outcome.TOMBSTONE),
        ([ROW, REFUSED], [table()], Outcome.IN_TABLE),
    ],
)
def test_a_record_with_rows(rows: list[LakeRow], tables: list[TableRecord], outcome: Outcome):
    assert outcome_of(RecordFacts(PLACE, None, None, tuple(rows), (), tuple(tables))) == outcome


@pytest.mark.parametrize("tables", [(), (table(landed=0),), (table(rows=0, landed=0),)])
def test_of_a_forgotten_unit_only_tables_are_known(tables: tuple[TableRecord, ...]):
    files = (LandedFile("type=click/f", "a", "click", "2026-11-20T10", 1, 1, "x"),)
    landed = made_manifest("p", "s", "dc1", 1, "a", (OffsetRange("bids", "u", 0, 0, 9),), files, (), 9, {}, 0)
    gone = replace(landed, forgotten=Forgotten(lake="2028-01-01T00:00:00Z"))
    facts = RecordFacts(PLACE, OffsetLocation("u", Slice(START), None, None), gone, (), (), tables)
    assert outcome_of(facts) == Outcome.FORGOTTEN
    assert facts.found == bool(tables and tables[0].rows)
    # An offset that the slice has not read is none of it.
    beyond = replace(facts, place=replace(PLACE, offset=9))
    assert outcome_of(beyond) == Outcome.LACKING


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"rejected": BAD, "forgotten": Forgotten(rejected=ON)}, Outcome.BYTES_FORGOTTEN),
        ({"without_bytes": (ForgottenRecords(ON, {"no type": 2}),)}, Outcome.BYTES_FORGOTTEN),
        (
            {"without_bytes": (ForgottenRecords(ON, {"no type": 2}),), "gaps": 1},
            Outcome.BYTES_FORGOTTEN_OR_NONE,
        ),
        (
            {"rejected": BAD, "forgotten": Forgotten(rejected=ON), "erased": 1},
            Outcome.BYTES_FORGOTTEN_OR_NONE,
        ),
        ({"rejected": BAD}, Outcome.NOWHERE),
    ],
)
def test_of_a_rejected_record_that_is_forgotten(changes: dict, outcome: Outcome):
    there = 2 if "without_bytes" in changes else 0
    counts = tuple(PartitionCount("bids", n, 9, 2 * (n == 0), without_bytes=there * (n == 0)) for n in (0, 1))
    ranges = tuple(OffsetRange("bids", "u", n, 0, 9) for n in (0, 1))
    manifest = made_manifest("p", "s", "dc1", 1, "a", ranges, (), (), 18, {"no type": 2}, 0, counts=counts)
    facts = RecordFacts(PLACE, OffsetLocation("u", Slice(START), None, None), replace(manifest, **changes))
    assert (PLACE.topic, PLACE.partition) == ("bids", 0)
    assert outcome_of(facts) == outcome
    # The other partition has none.
    other = outcome_of(replace(facts, place=replace(PLACE, partition=1)))
    assert other not in (Outcome.BYTES_FORGOTTEN, Outcome.BYTES_FORGOTTEN_OR_NONE)
    assert outcome_of(replace(facts, unreadable=("f: it is missing",))) == Outcome.UNREADABLE


def test_of_an_array_whose_elements_are_all_rejected_and_forgotten():
    counts = (PartitionCount("bids", 0, 9, 0, rows=9, rejected_elements=2),)
    ranges = (OffsetRange("bids", "u", 0, 0, 9),)
    made = made_manifest("p", "s", "dc1", 1, "a", ranges, (), BAD, 9, {}, 0, counts=counts, rows=9)
    gone = replace(made, rejected_elements={"no type": 2}, forgotten=Forgotten(rejected=ON))
    facts = RecordFacts(PLACE, OffsetLocation("u", Slice(START), None, None), gone)
    assert outcome_of(facts) == Outcome.BYTES_FORGOTTEN


def test_each_outcome_has_words():
    facts = RecordFacts(PLACE, None)
    words = [meaning(outcome, pipeline(), facts) for outcome in Outcome]
    assert len(set(words)) == len(words)
    assert all(words)


@pytest.mark.parametrize(
    ("outcome", "command"),
    [
        (Outcome.NOT_LOADED, "sluice run ads --from {} --to {}"),
        (Outcome.LACKING, "sluice run ads --from {} --to {} --mode reland"),
        (Outcome.TWICE, "sluice verify ads --from {} --to {}"),
        (Outcome.NOWHERE, "sluice verify ads --from {} --to {} --contents"),
    ],
)
def test_its_command_is_whole(outcome: Outcome, command: str):
    facts = RecordFacts(PLACE, OffsetLocation("u", Slice(START), None, None))
    assert f"`{command.format('2026-11-20T10:00Z', '2026-11-20T11:00Z')}`" in meaning(
        outcome, pipeline(), facts
    )
