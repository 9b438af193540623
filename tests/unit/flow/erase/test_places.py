"""The places of a receipt: what the lake's own objects still have of a value, and tables that are behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.clients.clickhouse.inspect_tables import Refreshing
from sluice.flow.erase.finish import refreshing_lines, state_place, table_place
from sluice.flow.erase.search import Where
from sluice.slices import Unit
from sluice.state.erasures import FoundUnit
from sluice.state.ledger import LedgerRow
from tests.support.fakes import MemoryLake
from tests.support.landing_world import hours, pipeline
from tests.support.manifests import made_manifest

WHERE = (Where(("uid",), "person-42"), Where(("n",), "7"))
UNITS = [Unit(slice_, "dc1") for slice_ in hours(2)]


def test_the_value_as_a_text_in_the_lakes_own_objects_is_left_to_a_person():
    lake = MemoryLake()
    lake.put("_history/file.json", b"tables: {person-42: db.x}")
    lake.put("_timings/2026.json", b"{}")
    lake.put(f"_slices/{UNITS[0]}/manifest-1.json", b'{"fields": {"person-42": 1}}')
    lake.put(f"_slices/{UNITS[1]}/manifest.json", b"a unit in which nobody was found: person-42")
    lake.put("_erasures/000000/found.json", b"7")
    place = state_place(lake, WHERE, [str(UNITS[0])])
    assert [line.split(" ")[0] for line in place.left] == [
        "_history/file.json",
        f"_slices/{UNITS[0]}/manifest-1.json",
    ]
    assert place.searched.startswith("3 objects") and "fewer bytes" in place.searched


def test_a_table_that_could_not_be_loaded_again_still_has_the_person():
    """Such as a derived table whose source has expired."""
    manifests = {
        unit: made_manifest("p", unit.slice.id, "dc1", 2, "b", (), (), (), 1, {}, 0, amends=("1-a",))
        for unit in UNITS
    }
    found = {str(UNITS[0]): FoundUnit("1-a", 1, 0, 0, 0, (), ())}
    ledgers = {
        "db.click": {unit: LedgerRow(unit, "2-b", (), 1, 1, 0, "", 1) for unit in UNITS},
        "db.daily": {unit: LedgerRow(unit, "1-a@7#5e1ec7", (), 1, 1, 0, "", 1) for unit in UNITS},
    }
    [line] = table_place(pipeline(), manifests, found, ledgers).left
    assert line.startswith(f"table db.daily still has the rows of 1 units, {UNITS[0]} … {UNITS[0]}")


FIRST = Refreshing("db.v", "db.fresh", frozenset({"db.t"}), appends=False)
SECOND = Refreshing("db.w", "db.again", frozenset({"db.fresh"}), appends=False)


@pytest.mark.parametrize(
    ("refreshes", "left"),
    [
        ({}, ["db.fresh", "db.again"]),  # the server knows of none
        ({"db.v": (999, 1_200), "db.w": (2_000, 2_100)}, ["db.fresh", "db.again"]),  # before the load
        ({"db.v": (1_000, 1_200), "db.w": (2_000, 2_100)}, ["db.fresh", "db.again"]),  # while it went on
        ({"db.v": (2_000, 2_500), "db.w": (2_000, 2_100)}, ["db.again"]),  # it may have read the old rows
        ({"db.v": (2_000, 2_500), "db.w": (3_000, 3_100)}, []),
    ],
)
def test_a_view_is_clean_that_has_refreshed_since_what_it_reads_was(refreshes: Any, left: list[str]):
    lines = list(refreshing_lines([FIRST, SECOND], refreshes, {"db.t": 1_000}))
    assert [line.split(" ")[1] for line in lines] == left
    assert all(": SYSTEM REFRESH VIEW `db`." in line for line in lines)


def test_a_view_that_appends_keeps_whom_it_had_and_nobody_knows_when_one_refreshed():
    refreshed = {"db.v": (2_000, 2_500), "db.w": (3_000, 3_100)}
    lines = list(refreshing_lines([replace(FIRST, appends=True), SECOND], refreshed, {"db.t": 1_000}))
    assert lines[0].endswith("(APPEND): delete the person's rows there") and len(lines) == 2
    allow = "GRANT SELECT ON system.view_refreshes TO `loader`"
    [line] = refreshing_lines([FIRST], allow, {"db.t": 1_000})
    assert f"has not since: {allow}, then SYSTEM REFRESH VIEW" in line
