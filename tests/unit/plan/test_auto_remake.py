"""Which units `remake: auto` remakes: the table of auto_remake.py, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.manifest import Forgotten, LandedFile, Manifest, PartitionCount, Traffic
from sluice.plan import auto_remake
from sluice.plan.auto_remake import MOST_UNITS, Remakes, chosen, older_window, outdated, refusal, same_rules
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import hours, pipeline

NOW = "new"
COUNTED = {"counts": [{"table": "db.counts", "by": ["country"]}]}
UNITS = [Unit(slice_, "dc1") for slice_ in hours(60)]


def manifest(**changes) -> Manifest:
    old = Manifest("p", "2026-01-01T00Z", "dc1", 1, "a", (), (), (), 10, {}, 0, rules="new")
    return replace(old, **changes)


def status(
    unit: Unit, state: UnitState = UnitState.COMPLETE, gone: bool = False, landed: bool = True, **changes
) -> UnitStatus:
    made = manifest(**{"rules": "old", **changes}) if landed else None
    return UnitStatus(unit, state, (), (), made, {}, (), 1, gone)


def traffic(**changes) -> tuple[Traffic, ...]:
    return (replace(Traffic("db.counts", {"country": "country"}, (), {}, ()), **changes),)


@pytest.mark.parametrize(
    ("changes", "file", "found"),
    [
        ({}, {}, ()),
        ({"rules": "old"}, {}, ("rules",)),
        ({"rules": ""}, {}, ()),
        ({}, COUNTED, ("counts for db.counts",)),
        ({"rules": ""}, COUNTED, ("counts for db.counts",)),
        ({"traffic": traffic()}, COUNTED, ()),
        ({"traffic": traffic(by={"country": "geo.country"})}, COUNTED, ("counts for db.counts",)),
        ({"traffic": traffic(types=("click",))}, COUNTED, ("counts for db.counts",)),
        (
            {"rules": "old", "traffic": ()},
            COUNTED,
            ("counts for db.counts", "rules"),
        ),
    ],
)
def test_what_a_manifest_shows(changes: dict, file: dict, found: tuple[str, ...]):
    assert outdated(pipeline(**file), manifest(**changes), NOW) == found


BAD = LandedFile("_rejected/x", "a", None, "", 3, 1, "0")
GONE = {"rejected": (BAD,), "forgotten": Forgotten(rejected="2028-01-01T00:00:00Z")}
COUNTS = (PartitionCount("bids", 0, 10, 3),)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"unparsed": {"no type": 3}, "counts": COUNTS, **GONE}, None),
        ({"unparsed": {"no type": 3}, "counts": COUNTS, "rows": 9, **GONE}, None),
        ({"unparsed": {"no type": 3}, **GONE}, "it forgot the bytes of 3 unparsed ones on 2028-01-01"),
        (
            {
                "unparsed": {"no type": 1},
                "rows": 9,
                "rows_unparsed": {"no time": 2},
                "counts": COUNTS,
                **GONE,
            },
            "it forgot the bytes of 2 rejected elements of arrays on 2028-01-01",
        ),
        ({"rows": 9, "rows_unparsed": {"no time": 2}, "counts": COUNTS}, None),
        ({"forgotten": Forgotten(lake="2028-01-01T00:00:00Z")}, "it forgot its files on 2028-01-01"),
    ],
)
def test_what_the_lake_has_forgotten_is_remade_without_it_where_the_rest_is_whole(
    changes: dict, why: str | None
):
    said = refusal(pipeline(), manifest(**changes))
    assert (said or "").startswith(why or "") and (said is None) == (why is None)
    assert why is None or "`--mode reland`" in (said or "") or "its files" in why


def test_a_record_that_was_too_large_hinders_no_remake_when_it_is_forgotten():
    large = {"unparsed": {"too large": 3}, "counts": COUNTS}
    for changes, remade in ((large, False), ({**large, **GONE}, True)):
        found = chosen(pipeline(), [status(UNITS[0], **changes)], NOW)
        assert bool(found) is remade


@pytest.mark.parametrize(
    ("rules", "same"),
    [("new", True), ("old", False), ("", False)],
)
def test_the_rules_are_the_same_only_where_the_manifest_says_so(rules: str, same: bool):
    assert same_rules(manifest(rules=rules), NOW) == same


@pytest.mark.parametrize(
    ("changes", "remade"),
    [
        ({}, True),
        ({"state": UnitState.STALE}, True),
        ({"state": UnitState.LANDED}, True),
        ({"state": UnitState.COMPLETE_WITH_LOSS}, True),
        ({"state": UnitState.NOT_OVER}, False),
        ({"state": UnitState.MISSING, "landed": False}, False),
        ({"gone": True}, False),
        ({"empty": 1}, False),
        ({"unparsed": {"too large": 1}}, False),
        ({"unparsed": {"no type": 1}}, True),
        ({"rules": ""}, False),
    ],
)
def test_what_is_possible_out_of_the_lake(changes: dict, remade: bool):
    found = chosen(pipeline(), [status(UNITS[0], **changes)], NOW)
    assert bool(found) == remade
    assert found.left == 0


def test_the_newest_come_first_and_no_more_than_a_run_takes():
    found = chosen(pipeline(), [status(unit) for unit in UNITS], NOW)
    assert [one.unit for one in found.units] == UNITS[-MOST_UNITS:]
    assert found.left == len(UNITS) - MOST_UNITS
    span = "24 units of 2026-01-02T12Z … 2026-01-03T11Z"
    assert str(found) == f"`remake: auto`: {span} are remade; 36 more are left to later runs"


def test_every_second_run_begins_at_another_place():
    first = {
        turn: chosen(pipeline(), [status(u) for u in UNITS], NOW, turn=turn).units[-1] for turn in range(6)
    }
    assert {turn: one.unit for turn, one in first.items() if turn % 2 == 0} == dict.fromkeys(
        (0, 2, 4), UNITS[-1]
    )
    assert [first[turn].unit for turn in (3, 5)] == [UNITS[-2], UNITS[-3]]


def test_large_units_are_few(monkeypatch):
    monkeypatch.setattr(auto_remake, "MAX_ROWS", 25)
    assert len(chosen(pipeline(), [status(unit) for unit in UNITS], NOW).units) == 2
    alone = chosen(pipeline(), [status(unit, read=1000) for unit in UNITS], NOW)
    assert [one.unit for one in alone.units] == UNITS[-1:]


def test_what_the_run_lands_or_loads_is_left_to_a_later_one():
    apart = [hours(2), hours(1, first=5)]
    found = chosen(pipeline(), [status(unit) for unit in UNITS[:7]], NOW, apart)
    assert [one.unit for one in found.units] == [UNITS[n] for n in (2, 3, 4, 6)]
    assert found.left == 3


def test_nothing_is_chosen_of_nothing():
    assert chosen(pipeline(), [], NOW, turn=7) == Remakes()


@pytest.mark.parametrize(
    ("turn", "window"),
    [(0, hours(4, first=6)), (1, hours(4, first=2)), (2, hours(2)), (3, hours(4, first=6))],
)
def test_each_run_inspects_another_part_of_the_older_hours(turn: int, window: SliceRange):
    assert older_window(hours(10), turn, 4) == window
    assert older_window(None, turn) is None
