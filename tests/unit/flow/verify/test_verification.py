"""Each broken equation is found at its place, with the command that repairs it; a sound range has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.clients.lake.layout import parse_name
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_files import dead
from sluice.flow.verify.facts import RowIdentities, ViewTableSums
from sluice.flow.verify.repairs import Repairs, commands
from sluice.flow.verify.view_sums import ViewSums
from sluice.manifest import Loss, OffsetRange
from sluice.slices import Slice, Unit
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
    pipeline,
    with_manifest,
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
    ("unit", "repairable"),
    [(Unit(Slice(START.subtract(hours=1)), "dc1"), True), (Unit(Slice(START), "dc9"), False),
     (Unit(Slice(START.add(minutes=5)), "dc1"), False), (Unit(Slice(START.add(years=1)), "dc1"), False)],
)  # fmt: skip
def test_rows_that_no_ledger_row_covers(unit: Unit, repairable: bool):
    [one] = found(with_clicks(rows={**CLICKS.rows, unit: {"": 2}}))
    assert (one.kind, one.seen, bool(one.command)) == (AnomalyKind.ROWS_UNCOVERED, "2 rows", repairable)
    assert repairable or "DELETE FROM `e`.`clicks`" in one.advice
    # A lightweight DELETE refuses a table with projections.
    [one] = found(with_clicks(rows={**CLICKS.rows, unit: {"": 2}}, projections=True))
    assert repairable or "ALTER TABLE `e`.`clicks` DELETE WHERE" in one.advice


def test_a_view_is_not_blamed_for_its_source():
    fed = ViewTableSums("e.sums", "e.view", {TEN: ViewSums("(4)")}, {TEN: ViewSums("(5)")}, frozenset({TEN}))
    assert [(a.kind, a.table) for a in found(with_clicks(view_tables=(fed,)))] == [
        (AnomalyKind.VIEW, "e.sums")
    ]
    broken = with_clicks(view_tables=(fed,), rows={TEN: {"": 4}, ELEVEN: {"": 5}})
    assert [a.kind for a in found(broken)] == [AnomalyKind.ROWS_MISSING]
    older = replace(fed, covered=frozenset())
    assert found(with_clicks(view_tables=(older,))) == []


def test_a_record_that_a_manifest_lost():
    assert told(with_manifest(read=9)) == [
        "records read: slice 2026-11-20T10Z/dc1: expected 10 records of 10 offsets, "
        "seen 9 read, 0 holes, 0 lost",
        "records read: slice 2026-11-20T10Z/dc1: expected 10 records, by partition, seen 9 read",
        "rows landed: slice 2026-11-20T10Z/dc1: expected 8 rows of as many records parsed, "
        "seen 9 in its files",
    ]
    assert {a.command for a in found(with_manifest(read=9))} == {RELAND_TEN}


@pytest.mark.parametrize(("until", "kind"), [(9, AnomalyKind.GAP), (11, AnomalyKind.OVERLAP)])
def test_neighbours_that_do_not_share_their_boundary(until: int, kind: AnomalyKind):
    ranges = (OffsetRange("bids", "u1", 0, 0, until),)
    [one] = [a for a in found(with_manifest(ranges=ranges)) if a.kind is kind]
    assert one.offsets == (min(until, 10), max(until, 10))
    assert one.command.endswith("--from 2026-11-20T10:00Z --to 2026-11-20T12:00Z --mode reland")


def test_a_slice_between_two_that_is_missing_hides_no_overlap():
    later = replace(FOUND[1].unit, slice=Slice(START.add(hours=5)))
    facts = replace(FACTS, statuses=(FOUND[0], replace(FOUND[1], unit=later)))
    assert [a.kind for a in found(facts) if a.kind is AnomalyKind.GAP] == []
    ranges = (OffsetRange("bids", "u1", 0, 0, 12),)
    first = replace(FOUND[0], ranges=ranges, manifest=replace(FOUND[0].manifest, ranges=ranges))
    overlapping = replace(facts, statuses=(first, facts.statuses[1]))
    assert AnomalyKind.OVERLAP in [a.kind for a in found(overlapping)]


def test_an_hour_that_is_missing_and_one_that_expired():
    missing = replace(FOUND[0], state=UnitState.MISSING, manifest=None)
    expired = replace(
        FOUND[1], state=UnitState.EXPIRED, manifest=None, losses=(Loss("bids", 0, 0, 7, False),)
    )
    facts = replace(FACTS, statuses=(missing, expired), lake=replace(LAKE, sizes={}))
    facts = replace(facts, tables=())
    assert told(facts) == [
        "incomplete: slice 2026-11-20T10Z/dc1: expected complete, seen missing",
        "loss: slice 2026-11-20T11Z/dc1, bids/0, offsets [0, 7): expected all offsets in Kafka, "
        "seen up to 7 expired",
    ]


def test_a_recorded_loss_breaks_the_equation_unless_it_is_accepted():
    lost = (Loss("bids", 0, 0, 4, True),)
    facts = with_manifest(lost=lost, read=6)
    done = replace(facts.statuses[0], state=UnitState.COMPLETE_WITH_LOSS)
    facts = replace(facts, statuses=(done, facts.statuses[1]))
    assert [(a.partition, a.offsets) for a in found(facts) if a.kind is AnomalyKind.LOSS] == [(0, (0, 4))]
    accepted = replace(facts, pipeline=pipeline(on_expired="land_rest"))
    assert [a for a in found(accepted) if a.kind is AnomalyKind.LOSS] == []


def test_files_of_an_older_generation_are_dead_and_no_anomaly():
    old = "type=click/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-0-0.parquet"
    facts = replace(FACTS, lake=replace(LAKE, sizes={**LAKE.sizes, old: 5}))
    assert (dead(facts), found(facts)) == ([old], [])


def test_files_of_a_newer_generation_are_unknown():
    new = "type=click/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-2-0.parquet"
    facts = replace(FACTS, lake=replace(LAKE, sizes={**LAKE.sizes, new: 5}))
    assert (dead(facts), [(a.kind, a.file) for a in found(facts)]) == ([], [(AnomalyKind.FILE_UNKNOWN, new)])


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


@pytest.mark.parametrize(
    ("key", "name"),
    [("type=a/date=2026-11-20/hour=10/2026-11-20T10Z-dc.1_x-2-33.parquet", ("2026-11-20T10Z", "dc.1_x", 2)),
     ("_rejected/2026-11-20T1015Z-dc1-1-0.parquet", ("2026-11-20T1015Z", "dc1", 1)),
     ("type=a/date=2026-11-20/hour=10/part-0.parquet", None),
     ("type=a/B/type=c/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-2-0.parquet", None),
     ("type=a/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-2.parquet", None)],
)  # fmt: skip
def test_names_of_files(key: str, name: tuple[str, str, int] | None):
    parsed = parse_name(key)
    assert (parsed and (parsed.slice, parsed.cluster, parsed.generation)) == name


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
