"""One list of what needs somebody: a finding for each cause, however many sources say it; and its order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pendulum
import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import Verification, opened_by
from sluice.page.findings import MOST, Known, by_need, findings_of, verdict_line, with_findings
from sluice.page.models import Finding, FindingKind, OverviewCell, OverviewRow
from sluice.page.odd import Odd, OddKind
from sluice.slices import Slice
from sluice.watch.problems import Alarm, Problem, ProblemKind
from tests.support.verified import pipeline

NOW = pendulum.datetime(2026, 11, 21)
SINCE, FOUND = "2026-11-20T12:00:00+00:00", "2026-11-20T13:00:00Z"
LOOK = Verification(FOUND, "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", 24, 10, 1)


def hour(number: int) -> str:
    return f"2026-11-20T{number:02}Z"


def cells(*states: str) -> list[OverviewCell]:
    return [OverviewCell(id=hour(n), cell=state, unlanded=state == "late") for n, state in enumerate(states)]


def alarm(kind: ProblemKind, place: str, message: str = "its message", **more: Any) -> Alarm:
    return Alarm(Problem(kind, place, message), SINCE, **more)


def anomaly(kind: AnomalyKind, number: int, **more: Any) -> Any:
    piece = Slice.from_id(hour(number), pipeline().slice)
    return opened_by(Anomaly(kind, "5", "4", slice=piece.id, cluster="dc1", **more), LOOK)


def known(*states: str, **more: Any) -> Known:
    return Known(pipeline=pipeline(), now=NOW, cells=cells(*states), **more)


def lines(it: Known) -> list[str]:
    return [one.line for one in findings_of(it)]


def rows_missing(number: int, table: str = "e.clicks") -> Any:
    command = Repairs("ads").repair(Slice.from_id(hour(number), pipeline().slice), table)
    return anomaly(AnomalyKind.ROWS_MISSING, number, table=table, command=command)


def test_a_dropped_table_is_one_finding_with_the_hours_that_lack_it():
    """Three sources have seen it, each with a number of its own: 1 alarm of 19 units, 2 incomplete hours of
    verify and 3 cells. It is also why the newest complete hour is old."""
    it = known(
        *["no-table"] * 3,
        "verified",
        gone={"e.clicks"},
        anomalies=[
            anomaly(AnomalyKind.TABLE_MISSING, 0, table="e.clicks"),
            *(anomaly(AnomalyKind.INCOMPLETE, n, cause="e.clicks") for n in (0, 1)),
        ],
        alarms=[
            alarm(ProblemKind.TABLE, "table e.clicks", "h:8123 has no such table"),
            alarm(ProblemKind.NOT_COMMITTED, "table e.clicks", "19 units; inspect its load task"),
            alarm(ProblemKind.ANOMALY, "table missing, table e.clicks"),
            alarm(ProblemKind.LAG, "seconds", "the newest complete slice ended 3 hours ago"),
        ],
    )
    (found,) = findings_of(it)
    assert found.line == "e.clicks is missing in ClickHouse: 3 hours"
    assert (found.tone, found.slices, found.first, found.last) == ("bad", 3, hour(0), hour(2))
    assert (found.since, found.message) == (SINCE, "h:8123 has no such table")
    (repair,) = found.repairs
    assert (repair.mode, repair.start, repair.end) == ("fill", "2026-11-20T00:00Z", "2026-11-20T03:00Z")


def test_a_table_that_is_there_again_is_no_finding_whatever_was_seen_before():
    seen = {
        "anomalies": [anomaly(AnomalyKind.TABLE_MISSING, 0, table="e.clicks")],
        "alarms": [alarm(ProblemKind.TABLE, "table e.clicks")],
    }
    assert findings_of(known("verified", gone=(), **seen)) == []
    nobody_asked = known("verified", gone=None, **seen)
    assert [one.what for one in findings_of(nobody_asked)] == ["e.clicks is missing in ClickHouse"]
    # Of a table that a view writes to the page knows nothing.
    view = {"alarms": [alarm(ProblemKind.TABLE, "table e.seen_by_view")]}
    assert [one.kind for one in findings_of(known("verified", gone=(), **view))] == ["table missing"]


def test_what_waits_for_a_table_is_repaired_once_that_is_there():
    """`verify` has put it off, and none has run since: the page sees that nothing is missing any more."""
    command = Repairs("ads").repair(Slice.from_id(hour(1), pipeline().slice), "e.clicks")
    advice = f"when e.other is created: {command}"
    seen = [replace(rows_missing(1), command="", later=command, advice=advice)]
    (waits,) = findings_of(known("verified", "broken", gone={"e.other"}, anomalies=seen))[1:]
    assert (waits.repairs, waits.advice) == ([], advice)
    (due,) = findings_of(known("verified", "broken", gone=(), anomalies=seen))
    assert [(one.mode, one.tables) for one in due.repairs] == [("repair", ["e.clicks"])]
    assert due.advice == ""
    (still,) = findings_of(known("broken", gone=(), absent={"e.other"}, one=True, anomalies=seen))
    assert still.repairs == [], "the hour has no need of it, and no run begins without it"


def test_hours_that_the_page_sees_complete_refute_the_watch():
    it = alarm(ProblemKind.NOT_COMMITTED, "table e.clicks", "19 units; inspect its load task")
    assert lines(known(*["verified"] * 24, alarms=[it])) == []
    late = known("verified", alarms=[it])
    later = replace(late, now=NOW.add(days=9))
    assert lines(later) == ["Not loaded into e.clicks"], "the cells are of other hours"


def test_a_paused_dag_is_not_why_what_has_landed_is_not_loaded():
    it = [OverviewCell(id=hour(0), cell="late"), OverviewCell(id=hour(1), cell="late", unlanded=True)]
    both = replace(known(paused=True), cells=it)
    assert sorted(lines(both)) == ["DAG ads is paused: 1 hour isn't complete", "Not loaded: 1 hour"]


def test_the_fill_of_a_missing_table_takes_in_hours_that_are_not_late_yet():
    (found,) = findings_of(known("no-table", "no-table", "landed", gone={"e.clicks"}))
    assert found.line == "e.clicks is missing in ClickHouse: 3 hours"
    assert found.repairs[0].end == "2026-11-20T03:00Z"


def test_what_verify_has_found_is_said_once_in_plain_words():
    it = known(
        "verified",
        "broken",
        anomalies=[rows_missing(1)],
        alarms=[
            alarm(ProblemKind.ANOMALY, "wrong rows, table e.clicks"),
            alarm(ProblemKind.ANOMALY, "wrong rows, table e.other"),  # repaired, and verified since
        ],
        verifications=[
            replace(LOOK, at="2026-11-20T03:00:00Z", found=0),
            replace(LOOK, at="2026-11-20T04:00:00Z"),
        ],
    )
    (found,) = findings_of(it)
    assert (found.line, found.tone) == ("rows are missing (e.clicks): 1 hour", "bad")
    assert (found.since, found.held_at) == (SINCE, "2026-11-20T03:00:00Z")
    assert [(one.mode, one.tables) for one in found.repairs] == [("repair", ["e.clicks"])]


def test_late_hours_are_one_finding_and_the_alarms_of_hours_outside_another():
    it = known(
        "late",
        "late",
        "verified",
        alarms=[
            alarm(ProblemKind.OVERDUE, f"slice {hour(0)}/dc1"),
            alarm(ProblemKind.OVERDUE, f"slice {hour(2)}/dc1"),  # it has landed since
            alarm(ProblemKind.OVERDUE, "slice 2026-11-18T02Z/dc1"),
            alarm(ProblemKind.OVERDUE, "slice 2026-11-18T03Z/dc1"),
            alarm(ProblemKind.LAG, "seconds"),
        ],
        anomalies=[anomaly(AnomalyKind.INCOMPLETE, n) for n in (0, 2)],
    )
    assert sorted(lines(it)) == ["Not landed: 2 hours", "Not landed: 2 hours"]
    assert {one.since for one in findings_of(it)} == {SINCE}
    (one,) = findings_of(known("late"))
    assert one.line == "Not landed: 1 hour"


def test_a_paused_dag_is_why_hours_are_late():
    assert lines(known("late", "late", paused=True)) == ["DAG ads is paused: 2 hours aren't complete"]
    assert lines(known("verified", paused=True)) == ["DAG ads is paused: no hour is landed by itself"]
    assert lines(known("late", paused=None)) == ["DAG ads is not in Airflow: 1 hour isn't complete"]
    assert lines(known("verified", watched=False)) == ["ads_watch is paused: new problems go unnoticed"]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("verified open loaded landed waiting landing before empty forgotten", []),
        (
            "expired failed failed",
            ["Kafka no longer has the records: 1 hour", "The last run failed: 2 hours"],
        ),
        ("stale", ["A table has the rows of an earlier landing: 1 hour"]),
        ("lossy lossy", ["Landed with a loss: 2 hours"]),
    ],
)
def test_what_cells_say(states: str, expected: list[str]):
    assert lines(known(*states.split())) == expected


def test_days_count_their_hours():
    days = [
        OverviewCell(id="2026-11-18", cell="late", counts={"late": 3, "verified": 21}),
        OverviewCell(id="2026-11-19", cell="failed", counts={"failed": 1, "late": 2, "verified": 21}),
    ]
    found = findings_of(Known(pipeline(), NOW, days))
    assert [one.line for one in found] == [
        "The last run failed: 1 hour",
        "Not complete: 5 hours",
    ]
    assert [(one.start, one.end) for one in found[1].repairs] == [("2026-11-18T00:00Z", "2026-11-20T00:00Z")]


def test_a_repair_ends_before_the_open_hour():
    today = OverviewCell(id="2026-11-20", cell="late", counts={"late": 3})
    (found,) = findings_of(Known(pipeline(), pendulum.datetime(2026, 11, 20, 10, 5), [today]))
    assert found.repairs[0].end == "2026-11-20T10:00Z"


def test_what_is_unusual_is_one_finding_of_all_its_hours_with_the_newest_share():
    def odd(number: int, share: str) -> Odd:
        what = f"{share} of rows of e.clicks rejected"
        return Odd(OddKind.REJECTED, hour(number), "table e.clicks", what, f"of {hour(number)}")

    it = known(
        "odd",
        "odd",
        odd=[odd(1, "44 %"), odd(0, "3 %")],
        alarms=[alarm(ProblemKind.REJECTED, "table e.clicks"), alarm(ProblemKind.REJECTED, "records")],
    )
    first, other = findings_of(it)
    assert (first.line, first.message, first.since) == (
        "44 % of rows of e.clicks rejected: 2 hours",
        f"of {hour(1)}",
        SINCE,
    )
    assert other.line == "records: rejects above share"


def test_what_the_watch_alone_sees_is_there_and_an_event_needs_nobody():
    it = known(
        "verified",
        alarms=[
            alarm(ProblemKind.DISK, "h:8123, disk default"),
            alarm(ProblemKind.UNAVAILABLE, "kafka"),
            alarm(ProblemKind.RETENTION, "slice 2026-11-18T02Z/dc1"),
            alarm(ProblemKind.RETENTION, "slice 2026-11-18T03Z/dc1"),
            alarm(ProblemKind.SCHEMA, f"slice {hour(0)}/dc1, type click"),
            alarm(ProblemKind.QUEUE, "table e.clicks", over=True),
        ],
    )
    assert [(one.line, one.tone) for one in findings_of(it)] == [
        ("No answer from kafka", "bad"),
        ("Kafka deletes records soon that haven't landed: 2 hours", "bad"),
        ("h:8123, disk default: disk", "warn"),
        (f"Fields changed: slice {hour(0)}/dc1, type click", ""),
    ]


def test_what_does_not_answer_is_the_first_finding_and_the_watch_does_not_say_it_again():
    seen = [alarm(ProblemKind.UNAVAILABLE, "clickhouse"), alarm(ProblemKind.UNAVAILABLE, "kafka")]
    assert lines(known(error="h:1 refuses", alarms=seen)) == [
        "Nothing is known",
        "No answer from kafka",
    ]


@pytest.mark.parametrize("kind", [kind for kind in AnomalyKind if kind is not AnomalyKind.TABLE_MISSING])
def test_every_kind_of_anomaly_has_plain_words(kind: AnomalyKind):
    (found,) = findings_of(known(anomalies=[anomaly(kind, 3, table="e.t")]))
    words = found.what.removeprefix("e.t: ")
    assert " " in words and (words != kind or kind is AnomalyKind.ROWS_DUPLICATE)


def test_the_verdict_is_the_first_finding_and_how_many_more():
    assert verdict_line(findings_of(known("verified"))) == "nothing needs attention"
    one = findings_of(known("failed"))
    assert verdict_line(one) == "needs attention: The last run failed: 1 hour"
    four = findings_of(known("failed", "expired", "stale", "lossy"))
    assert verdict_line(four) == (
        "needs attention: Kafka no longer has the records: 1 hour; 3 more: The last run failed: 1 hour · "
        "A table has the rows of an earlier landing: 1 hour …"
    )


def row(name: str, *states: str, **more: Any) -> OverviewRow:
    fixed = {"slice_seconds": 3600, "can_start": False, "paused": False, "behind_seconds": 0}
    made = OverviewRow.model_validate({**fixed, "pipeline": name, "cells": cells(*states)})
    return with_findings(made, findings_of(known(*states, **more)))


def test_the_order_of_the_overview():
    """By the most urgent finding, then by how many hours have it, then by name; those that need nobody are
    last."""
    rows = [
        row("well", "verified"),
        row("also-well", "verified"),
        row("late", "late"),
        row("later", "late", "late"),
        row("wrong", "broken", "late", anomalies=[rows_missing(0)]),
        row("down", error="the lake does not answer"),
        row("paused", "verified", paused=True),
        row("changed", "verified", alarms=[alarm(ProblemKind.SCHEMA, "slice x")]),
    ]
    assert [one.pipeline for one in by_need(rows)] == [
        "down", "wrong", "later", "late", "paused", "also-well", "changed", "well"
    ]  # fmt: skip


def test_findings_have_a_bound():
    many = [Finding(kind=FindingKind.NOTE, tone="", what=str(n)) for n in range(MOST + 3)]
    found = with_findings(row("well"), many)
    assert (len(found.findings), found.more) == (MOST, 3)
