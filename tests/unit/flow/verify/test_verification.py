"""Each broken equation is found at its place, with the command that repairs it; a sound range has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import RowIdentities, ViewTableRows
from sluice.flow.verify.repairs import Repairs, commands
from sluice.slices import Slice, Unit
from sluice.state.held import Held, HeldRows
from sluice.state.unit_state import UnitState
from tests.support.verified import (
    CLICKS,
    ELEVEN,
    FACTS,
    FOUND,
    LAKE,
    OTHER,
    START,
    TEN,
    found,
)

RELAND_TEN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode reland"
REPAIR_TEN = RELAND_TEN.replace("reland", "repair") + " --table e.clicks"


def told(facts) -> list[str]:
    return [f"{a.kind}: {a.place}: {a.message}" for a in found(facts)]


def with_clicks(**changes):
    return replace(FACTS, tables=(replace(CLICKS, **changes), OTHER))


def test_a_sound_range_has_no_anomaly():
    assert found(FACTS) == []


def test_rows_missing_and_too_many():
    fewer, more = ({TEN: {"": n}, ELEVEN: {"": 5}} for n in (4, 7))
    assert told(with_clicks(rows=fewer)) == [
        "rows missing: table e.clicks, slice 2026-11-20T10Z/dc1, type click: expected 5 rows, seen 4"
    ]
    assert found(with_clicks(rows=fewer))[0].command == REPAIR_TEN
    assert [a.kind for a in found(with_clicks(rows=more))] == [AnomalyKind.ROWS_EXTRA]


def test_a_ttl_takes_rows_and_never_adds_any():
    fewer, more = ({TEN: {"": n}, ELEVEN: {"": 5}} for n in (2, 6))
    assert found(with_clicks(rows=fewer, expiring=True)) == []
    assert len(found(with_clicks(rows=more, expiring=True))) == 1


def test_rows_of_a_type_that_is_not_the_tables():
    rows = {TEN: {"view": 2, "click": 1}, ELEVEN: {"view": 3}}
    facts = replace(FACTS, tables=(CLICKS, replace(OTHER, rows=rows)))
    assert [(a.kind, a.type, a.expected, a.seen) for a in found(facts)] == [
        (AnomalyKind.ROWS_EXTRA, "click", "0 rows", "1"),
        (AnomalyKind.ROWS_MISSING, "view", "3 rows", "2"),
    ]


def test_duplicates_explain_the_rows_that_are_too_many():
    rows = {TEN: {"": 6}, ELEVEN: {"": 5}}
    identities = (RowIdentities(TEN, "bids", 0, 6, 5, 0, 9), CLICKS.identities[1])
    assert told(with_clicks(rows=rows, identities=identities)) == [
        "duplicate rows: table e.clicks, slice 2026-11-20T10Z/dc1, bids/0: "
        "expected a row for each record, seen 6 rows of 5 records"
    ]


@pytest.mark.parametrize(
    "unit",
    [Unit(Slice(START.subtract(hours=1)), "dc1"), Unit(Slice(START), "dc9"),
     Unit(Slice(START.add(minutes=5)), "dc1"), Unit(Slice(START.add(years=1)), "dc1")],
)  # fmt: skip
def test_rows_that_no_ledger_row_covers(unit: Unit):
    [one] = found(with_clicks(rows={**CLICKS.rows, unit: {"": 2}}))
    assert (one.kind, one.seen, one.command) == (AnomalyKind.ROWS_UNCOVERED, "2 rows", "")
    assert "DELETE FROM `e`.`clicks`" in one.advice
    # A lightweight DELETE refuses a table with projections.
    [one] = found(with_clicks(rows={**CLICKS.rows, unit: {"": 2}}, projections=True))
    assert "ALTER TABLE `e`.`clicks` DELETE WHERE" in one.advice


def test_a_view_is_not_blamed_for_its_source():
    fed = ViewTableRows("e.sums", "e.view", {TEN: 4}, {TEN: 5})
    assert [(a.kind, a.table) for a in found(with_clicks(view_tables=(fed,)))] == [
        (AnomalyKind.VIEW, "e.sums")
    ]
    broken = with_clicks(view_tables=(fed,), rows={TEN: {"": 4}, ELEVEN: {"": 5}})
    assert [a.kind for a in found(broken)] == [AnomalyKind.ROWS_MISSING]
    older = replace(fed, committed={})
    assert found(with_clicks(view_tables=(older,))) == []


def test_files_without_a_readable_manifest_are_left_alone():
    broken = replace(FOUND[0], state=UnitState.MISSING, manifest=None)
    named = {key: value for key, value in LAKE.named.items() if key[0] != TEN.slice.id}
    facts = replace(
        FACTS, statuses=(broken, FOUND[1]), lake=replace(LAKE, named=named), unreadable={TEN: "cut"}
    )
    assert [a.kind for a in found(facts)] == [AnomalyKind.MANIFEST]
    gone = replace(facts, unreadable={})
    assert {(a.kind, a.command.rpartition(" ")[2]) for a in found(gone)} == {
        (AnomalyKind.INCOMPLETE, "fill"),
        (AnomalyKind.FILE_UNKNOWN, "fill"),
    }


def test_the_repair_of_an_hour_that_a_check_holds_is_its_release():
    """A fill would be held again; where another table lacks the hour, too, it loads that one."""
    rows = HeldRows("e.clicks", "dc1", "", FOUND[0].manifest.id, {"positive": ("n > 0", 12)}, 0)
    held = replace(FACTS, held=(Held(TEN.slice, rows),))
    advice = RELAND_TEN.replace("sluice run ads", "`sluice release ads --table e.clicks")
    advice = f"a check holds it: {advice.removesuffix(' --mode reland')}` lets it in"
    for tables, command in ((("e.other",), ""), ((), RELAND_TEN.replace("reland", "fill"))):
        kept = {name: FOUND[0].tables[name] for name in tables}
        late = replace(FOUND[0], state=UnitState.LANDED, tables=kept)
        [one] = [
            a for a in found(replace(held, statuses=(late, FOUND[1]))) if a.kind is AnomalyKind.INCOMPLETE
        ]
        assert (one.command, one.advice) == (command, advice)


def test_commands_are_told_once_and_in_an_order_that_works():
    repairs = Repairs("ads", Path("/a b/ads.yaml"))
    repair = repairs.repair(TEN.slice, "e.clicks")
    lines = [repairs.clean(), repair, repairs.reland(TEN.slice), repair]
    anomalies = [Anomaly(AnomalyKind.VIEW, "", "", line) for line in [*lines, ""]]
    assert [line.split()[-1] for line in commands(anomalies)] == ["reland", "e.clicks", "--clean"]
    assert "--config '/a b/ads.yaml'" in lines[0]


def test_an_anomaly_as_json_says_all_of_it():
    anomaly = Anomaly(AnomalyKind.GAP, "1", "2", "c", "a", "s", "dc1", "t", 0, (3, 4), "click", "e.t", "f")
    said = anomaly.as_dict()
    assert said["kind"] == "gap"
    assert {name: said[name] for name in ("expected", "seen", "slice", "offsets", "table")} == {
        "expected": "1",
        "seen": "2",
        "slice": "s",
        "offsets": (3, 4),
        "table": "e.t",
    }
