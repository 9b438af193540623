"""One repair for each cause: what verify, the page and the watch say of many anomalies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from sluice.flow.verify import verdict as verdicts
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.causes import Cause, broken_units, causes_of
from sluice.flow.verify.check import check, check_states
from sluice.flow.verify.facts import TableFacts
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import OpenAnomaly, Verification, opened_by
from sluice.page.findings import Known, findings_of
from sluice.page.models import Finding, RepairRow
from sluice.slices import Slice
from sluice.state.ledger import LedgerRow
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, FACTS, FOUND, OTHER, START, TEN, pipeline

REPAIRS = Repairs("ads")
AT = Verification("2026-11-21T00:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T20:00:00Z", 2, 9, 2)
HOURS = [Slice(START.add(hours=n)) for n in range(10)]


def run(mode: str, first: int, last: int) -> str:
    return f"sluice run ads --from 2026-11-20T{10 + first}:00Z --to 2026-11-20T{11 + last}:00Z --mode {mode}"


def causes(*found: Anomaly) -> list[Cause]:
    return causes_of(opened_by(one, AT) for one in found)


def rows(hour: int, kind: AnomalyKind = AnomalyKind.ROWS_MISSING, table: str = "e.clicks") -> Anomaly:
    place = {"slice": HOURS[hour].id, "cluster": "dc1", "table": table, "type": "click"}
    return Anomaly(kind, "5 rows", "4", REPAIRS.repair(HOURS[hour], table), **place)


def test_a_dropped_table_is_one_cause_however_many_hours_had_rejected_rows():
    """Its ledger rows went with it; its rejected rows are still in sluice.rejected, one group for each
    hour."""
    rejected_rows = {status.unit: {"click": 1} for status in FOUND}
    gone = TableFacts("e.clicks", missing="create it", rejected_rows=rejected_rows)
    landed = tuple(
        replace(one, state=UnitState.LANDED, tables={"e.other": one.tables["e.other"]}) for one in FOUND
    )
    found = check(replace(FACTS, statuses=landed, tables=(gone, OTHER)), REPAIRS)
    assert [one.kind for one in found] == ["table missing", "uncovered rows", "uncovered rows"]
    (cause,) = causes(*found)
    assert (cause.name, cause.place, cause.commands) == ("table missing", "table e.clicks", ())
    assert cause.advice == f"create it; then: {run('fill', 0, 1)}"
    assert cause.slices == ("2026-11-20T10Z", "2026-11-20T11Z")
    assert cause.message == (
        "1 × table missing, 2 × uncovered rows in 2 hours, from 2026-11-20T10Z to 2026-11-20T11Z; of the "
        "first: expected a table, seen none, and 2 landed slices that are not in it"
    )
    assert not any(one.breaks for one in cause.anomalies[1:])


def test_a_rollup_of_a_dropped_table_waits_for_it(tmp_path):
    """Its own ledger row is there, and its source has none any more."""
    (tmp_path / "r.sql").write_text("SELECT * FROM {source}")
    spec = pipeline(rollups={"e.users": {"from": "e.clicks", "sql": str(tmp_path / "r.sql")}})
    users = LedgerRow(TEN, "m", (), 1, 1, 0, "t", 1)
    tables = {"e.users": users, "e.other": FOUND[0].tables["e.other"]}
    landed = replace(FOUND[0], state=UnitState.LANDED, tables=tables)
    gone = TableFacts("e.clicks", missing="create it")
    rollup = TableFacts("e.users", rows={TEN: {"": 1}}, ledger={TEN: users})
    known = replace(FACTS, pipeline=spec, statuses=(landed,), tables=(gone, OTHER, rollup))
    assert [one.kind for one in check_states(known, REPAIRS)] == []


def test_commands_that_have_to_wait_for_a_table_are_one():
    landed = tuple(replace(one, state=UnitState.LANDED, tables={}) for one in FOUND)
    gone = TableFacts("e.clicks", missing="create it")
    found = check(replace(FACTS, statuses=landed, tables=(gone, OTHER)), REPAIRS)
    incomplete = causes(*(one for one in found if one.kind is AnomalyKind.INCOMPLETE))
    assert [one.advice for one in incomplete] == [f"when every table is there: {run('fill', 0, 1)}"]
    assert incomplete[0].anomalies[0].message.endswith("landed, and not in e.other")


def test_what_waits_for_a_table_waits_no_longer_when_a_verify_of_other_hours_finds_it():
    """The other hours are not verified again: their anomalies have the command that works now."""
    landed = tuple(replace(one, state=UnitState.LANDED, tables={}) for one in FOUND)
    rejected_rows = {status.unit: {"click": 1} for status in FOUND}
    tables = (
        TableFacts("e.clicks", missing="create it", rejected_rows=rejected_rows),
        TableFacts("e.other", missing="x"),
    )
    found = [opened_by(one, AT) for one in check(replace(FACTS, statuses=landed, tables=tables), REPAIRS)]
    waits = replace(opened_by(rows(0, AnomalyKind.VALUES), AT), command="", later=run("repair", 0, 0))
    waits = replace(waits, advice=f"compare it; when e.clicks and e.other is created: {waits.later}")
    old = verdicts.after(verdicts.Verdict(), AT, [*found, waits])
    next_hour = Verification("2026-11-22T00:00:00Z", "2026-11-20T15:00:00Z", "2026-11-20T16:00:00Z", 1, 9, 0)
    one_left = [one for one in found if one.kind == "table missing" and one.table == "e.other"]
    partly = verdicts.after(old, next_hour, one_left).anomalies
    assert [one.advice for one in partly if one.later] == [
        f"when e.other is created: {run('fill', 0, 0)}",
        f"when e.other is created: {run('fill', 1, 1)}",
        f"compare it; when e.other is created: {run('repair', 0, 0)}",
    ]
    # What belongs to no slice changed while it was verified: nothing is known of the tables.
    assert verdicts.after(old, next_hour, [], None, {("", "")}).anomalies == old.anomalies
    there = verdicts.after(old, next_hour, []).anomalies
    assert [(one.kind, one.command, one.advice, one.later, one.cause) for one in there] == [
        ("uncovered rows", run("fill", 0, 0), "", "", ""),
        ("uncovered rows", run("fill", 1, 1), "", "", ""),
        ("values differ", run("repair", 0, 0), "compare it", "", ""),
    ]
    assert [(one.name, one.place) for one in causes_of(there)] == [
        ("uncovered rows", "table sluice.rejected"),
        ("wrong rows", "table e.clicks"),
    ]


def test_what_one_reload_repairs_is_one_cause_for_each_table():
    found = causes(
        rows(0), rows(1), rows(1, AnomalyKind.VALUES), rows(5), rows(0, AnomalyKind.ROWS_EXTRA, "e.other")
    )
    clicks, other = found
    assert (clicks.name, clicks.place) == ("wrong rows", "table e.clicks")
    assert clicks.commands == tuple(f"{run('repair', *at)} --table e.clicks" for at in ((0, 1), (5, 5)))
    assert clicks.message == (
        "3 × rows missing, 1 × values differ in 3 hours, from 2026-11-20T10Z to 2026-11-20T15Z; of the "
        "first: expected 5 rows, seen 4"
    )
    assert (other.place, other.commands) == ("table e.other", (f"{run('repair', 0, 0)} --table e.other",))
    assert other.message == "rows too many in 2026-11-20T10Z: expected 5 rows, seen 4"
    assert (
        str(other)
        == f"wrong rows, table e.other: {other.message}; repair: {run('repair', 0, 0)} --table e.other"
    )
    (row, _) = on_page(opened_by(one, AT) for one in (rows(0), rows(5), rows(0, table="e.other")))
    assert [(one.mode, one.start, one.end, one.tables) for one in row.repairs] == [
        ("repair", "2026-11-20T10:00Z", "2026-11-20T11:00Z", ["e.clicks"]),
        ("repair", "2026-11-20T15:00Z", "2026-11-20T16:00Z", ["e.clicks"]),
    ]
    assert (row.slices, row.first, row.last) == (2, HOURS[0].id, HOURS[5].id)


def on_page(anomalies: Iterable[OpenAnomaly], verifications: Sequence[Verification] = ()) -> list[Finding]:
    now = HOURS[5].end.add(days=1)
    return findings_of(Known(pipeline(), now, anomalies=tuple(anomalies), verifications=verifications))


def test_a_cause_says_when_its_hours_were_last_found_sound():
    """By the newest verification that covers them all and found nothing; one of fewer hours says nothing."""
    start, end, late = "2026-11-20T10:00:00+00:00", "2026-11-20T16:00:00+00:00", "2026-11-20T15:00:00+00:00"
    known = [
        Verification("2026-11-20T17:00:00+00:00", start, end, 6, 30, 0),
        Verification("2026-11-20T18:00:00+00:00", start, end, 6, 30, 0),
        Verification("2026-11-20T19:00:00+00:00", start, late, 5, 25, 0),
        Verification("2026-11-20T20:00:00+00:00", start, end, 6, 30, 2),
    ]
    both = [opened_by(rows(0), AT), opened_by(rows(5), AT)]
    assert [row.held_at for row in on_page(both, known)] == ["2026-11-20T18:00:00+00:00"]
    assert [row.held_at for row in on_page(both[:1], known)] == ["2026-11-20T19:00:00+00:00"]
    assert [row.held_at for row in on_page(both, known[2:])] == [""]
    assert [row.held_at for row in on_page(both)] == [""]


def test_a_command_that_is_no_run_has_no_button():
    found = Anomaly(AnomalyKind.FILE_UNKNOWN, "no file", "9 bytes", REPAIRS.clean(HOURS[0]), file="a")
    ((row,),) = (one.repairs for one in on_page([opened_by(found, AT)]))
    assert row == RepairRow(command=REPAIRS.clean(HOURS[0]))


def test_a_cause_is_called_the_same_when_more_hours_have_it():
    """The watch knows a problem by name and place: a second hour is no second notice."""
    (one,), (more,) = causes(rows(0)), causes(rows(0), rows(1, AnomalyKind.VALUES))
    assert (one.name, one.place) == (more.name, more.place)


def test_hours_that_are_not_done_are_one_cause_for_each_state():
    def unfinished(hour: int, seen: str) -> Anomaly:
        place = {"slice": HOURS[hour].id, "cluster": "dc1"}
        return Anomaly(AnomalyKind.INCOMPLETE, "complete", seen, REPAIRS.fill(HOURS[hour]), **place)

    found = causes(unfinished(0, "missing"), unfinished(7, "missing"), unfinished(3, "landed"), rows(4))
    assert [(one.name, one.breaks, one.commands) for one in found] == [
        ("wrong rows", True, (f"{run('repair', 4, 4)} --table e.clicks",)),
        ("incomplete", False, (run("fill", 0, 7),)),
        ("incomplete", False, (run("fill", 3, 3),)),
    ]
    assert found[1].place == "cluster dc1"


def test_advice_of_its_own_is_counted_and_not_dropped():
    def uncovered(hour: int) -> Anomaly:
        place = {"slice": HOURS[hour].id, "cluster": "x", "table": "e.clicks"}
        return Anomaly(AnomalyKind.ROWS_UNCOVERED, "none", "1", advice=f"DELETE {hour}", **place)

    (cause,) = causes(*(uncovered(hour) for hour in range(3)))
    assert cause.remedy == "DELETE 0; 2 more have an advice of their own"


@pytest.mark.parametrize("kind", list(AnomalyKind))
def test_every_kind_has_a_cause_with_a_place(kind: AnomalyKind):
    place = {"slice": TEN.slice.id, "cluster": "dc1", "table": "e.clicks", "topic": "bids", "type": "click"}
    (cause,) = causes(Anomaly(kind, "1", "2", **place))
    assert cause.place and TEN.slice.id in cause.message
    assert CLICKS.table == "e.clicks"


def test_files_and_offsets_are_grouped_by_cluster():
    def at(kind: AnomalyKind, hour: int, cluster: str, **more: str) -> Anomaly:
        command = REPAIRS.reland(HOURS[hour])
        return Anomaly(kind, "9 bytes", "no file", command, slice=HOURS[hour].id, cluster=cluster, **more)

    found = causes(
        at(AnomalyKind.FILE_MISSING, 0, "dc1", file="a"),
        at(AnomalyKind.FILE_CHECKSUM, 1, "dc1", file="b"),
        at(AnomalyKind.FILE_SIZE, 1, "dc2", file="c"),
        at(AnomalyKind.GAP, 1, "dc1", topic="bids"),
    )
    assert [(one.name, one.place, one.commands) for one in found] == [
        ("wrong files", "cluster dc1", (run("reland", 0, 1),)),
        ("wrong files", "cluster dc2", (run("reland", 1, 1),)),
        ("wrong offsets", "cluster dc1, bids", (run("reland", 1, 1),)),
    ]


def test_a_unit_is_broken_by_what_everybody_calls_the_cause():
    found = [
        rows(0),
        rows(0, AnomalyKind.MOSTLY_REJECTED),
        rows(1, AnomalyKind.INCOMPLETE),
        replace(rows(2), cluster=""),
        Anomaly(AnomalyKind.FILE_MISSING, "9 bytes", "no file", slice=HOURS[0].id, cluster="dc2", file="f"),
    ]
    broken = broken_units(opened_by(one, AT) for one in found)
    title = "wrong rows, table e.clicks"
    assert broken(HOURS[0].id, "dc1") == (title,)
    assert broken(HOURS[0].id, "dc2") == ("wrong files, cluster dc2",)
    assert broken(HOURS[1].id, "dc1") == ()
    assert broken(HOURS[2].id, "dc1") == broken(HOURS[2].id, "dc2") == (title,)


def test_what_is_found_again_keeps_the_instant_at_which_it_was_found_first():
    later = replace(AT, at="2026-11-23T00:00:00Z")
    wrong = rows(0, AnomalyKind.ROWS_MISSING)
    first = verdicts.after(verdicts.Verdict(), AT, [opened_by(wrong, AT)])
    again = verdicts.after(first, later, [opened_by(wrong, later), opened_by(rows(1, wrong.kind), later)])
    assert [one.found_at for one in again.anomalies] == [AT.at, later.at]
    sound = verdicts.after(again, later, [])
    anew = verdicts.after(sound, later, [opened_by(wrong, later)])
    assert [one.found_at for one in anew.anomalies] == [later.at]
