"""The history of runs: what each moved, and how fast."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from sluice.page.run_history import MOST_RUNS, AirflowRun, records_of_runs, throughput_of
from sluice.page.slice_findings import FailedTry
from sluice.slices import SliceRange
from sluice.state.notes import COMMAND, Timing
from tests.support.page_world import START

TOKEN = "0123456789abcdef0123456789abcdef"


def run(name: str, begins: int, ends: int | None, **more: object) -> AirflowRun:
    """From and to so many minutes after START."""
    return AirflowRun(
        **{
            "dag_id": "p",
            "run_id": name,
            "kind": "hourly",
            "state": "success",
            "user": "",
            "started": START.add(minutes=begins),
            "ended": None if ends is None else START.add(minutes=ends),
            "start": START,
            "end": START.add(hours=1),
            "mode": "fill",
            "tables": (),
            **more,
        }
    )


def step(name: str, minute: float, rows: int, seconds: float, **more: object) -> Timing:
    at = (START + timedelta(minutes=minute)).isoformat(timespec="milliseconds")
    edges = START.isoformat(), START.add(hours=1).isoformat()
    return Timing(name, *edges, at, seconds, more.pop("units", 1), rows, **more)


def test_a_run_has_what_its_steps_have_noted():
    timings = [
        step("land", 1, 100, 10.0, bytes=4000, run="one", units=2),
        step("load", 2, 60, 2.0, table="e.a", run="one"),
        step("load", 2.5, 40, 3.0, table="e.b", run="one"),
        step("load", 2.6, 5, 1.0, table="e.a", run="one"),
        step("verify", 3, 100, 1.5, run="one"),
        step("verify", 3.1, 900, 9.0),  # somebody's own `sluice verify`, meanwhile
        step("land", 4, 7, 1.0, bytes=70, run="two"),
        step("verify", 9, 7, 1.0, run="two"),
    ]
    two, one = records_of_runs([run("one", 0, 3.5), run("two", 3.6, None, state="running")], timings)
    assert (one.run_id, one.seconds, one.moved.landed, one.moved.bytes, one.moved.loaded) == (
        "one",
        210.0,
        100,
        4000,
        105,
    )
    assert (one.moved.land_seconds, one.moved.load_seconds) == (10.0, 6.0)
    assert [(s.step, s.table, s.units, s.rows, s.bytes, s.seconds) for s in one.moved.steps] == [
        ("land", "", 2, 100, 4000, 10.0),
        ("load", "e.a", 2, 65, 0, 3.0),
        ("load", "e.b", 1, 40, 0, 3.0),
        ("verify", "", 1, 100, 0, 1.5),
    ]
    assert (two.run_id, two.ended, two.seconds, two.moved.landed) == ("two", "", None, 7)
    assert [s.step for s in two.moved.steps] == ["land", "verify"]


def over(hours: tuple[int, int], name: str, minute: float, rows: int, units: int, **more: object) -> Timing:
    edges = (START.add(hours=hour).isoformat() for hour in hours)
    start, until = edges
    return replace(step(name, minute, rows, 1.0, units=units, run="one", **more), start=start, until=until)


def test_what_a_run_did_has_each_hour_once_and_no_rejected_row():
    """Three hours in two batches: the first is verified in two tries, and all three once more at the end,
    with an older hour beside them. Of the 25 rows that came to the second load one was rejected."""
    timings = [
        over((0, 2), "load", 1, 40, 2, table="e.a"),
        over((2, 3), "load", 2, 25, 1, table="e.a", rejected=1),
        over((0, 2), "verify", 3, 41, 2),
        over((0, 2), "verify", 4, 42, 2),
        over((2, 3), "verify", 5, 30, 1),
        over((-9, -8), "verify", 5.5, 7, 1),
        over((0, 2), "publish", 6, 0, 2),
        over((0, 2), "publish", 6.5, 0, 2),
        over((2, 3), "publish", 7, 0, 1),
        over((0, 3), "verify", 8, 72, 3),
    ]
    (one,) = records_of_runs([run("one", 0, 9)], timings)
    assert [(s.step, s.units, s.rows, s.seconds) for s in one.moved.steps] == [
        ("load", 3, 64, 2.0),
        ("verify", 4, 79, 5.0),
        ("publish", 3, 0, 3.0),
    ]
    assert one.moved.loaded == 64


def test_a_command_is_known_by_its_steps_and_a_run_that_is_gone_is_not():
    timings = [
        step("land", 10, 5, 60.0, run=TOKEN, mode="reload"),
        step("load", 11, 5, 30.0, run=TOKEN, mode="reload", table="e.a"),
        step("load", 20, 5, 1.0, run="manual__2026-11-20T10:00:00+00:00", table="e.a"),
    ]
    (command,) = records_of_runs([], timings)
    assert (command.kind, command.dag_id, command.run_id) == ("command", "", TOKEN)
    assert (command.started[11:16], command.ended[11:19], command.seconds) == ("10:10", "10:11:30", 90.0)
    assert (command.mode, command.tables, command.moved.loaded) == ("reload", ["e.a"], 5)


@pytest.mark.parametrize(
    ("first", "end", "listed"),
    [(0, 10, False), (0, 11, True), (11, 12, True), (12, 13, False), (0, 1440, True), (13, 1440, False)],
)
def test_a_command_is_listed_in_the_range_in_which_it_was_under_way(first: int, end: int, listed: bool):
    """From 10 minutes after START until 11.5; the timings that were read are those of the whole day."""
    timings = [step("land", 10, 5, 60.0, run=TOKEN), step("load", 11, 5, 30.0, run=TOKEN, table="e.a")]
    within = SliceRange(START.add(minutes=first), START.add(minutes=end), timedelta(minutes=1))
    records = records_of_runs([], timings, within)
    assert [record.run_id for record in records] == ([TOKEN] if listed else [])


def noted(minute: float, seconds: float, state: str, **more: object) -> Timing:
    return step(COMMAND, minute, 0, seconds, run=TOKEN, mode="reland", user="eve", state=state, **more)


def test_a_command_has_its_user_its_state_and_the_time_that_it_really_took():
    """Its landing took 60 seconds of 95."""
    timings = [
        noted(10, 0.0, "running"),
        step("land", 10.25, 5, 60.0, run=TOKEN, mode="reland"),
        noted(10, 95.4, "failed", error="adx.clicks does not exist\x1b", table="adx.clicks"),
    ]
    (found,) = records_of_runs([], timings)
    assert (found.state, found.user, found.seconds, found.mode) == ("failed", "eve", 95.4, "reland")
    assert (found.why, found.tables) == ("adx.clicks does not exist\\x1b", ["adx.clicks"])
    assert [one.step for one in found.moved.steps] == ["land"]


@pytest.mark.parametrize(("hours", "state"), [(1, "running"), (25, "lost")])
def test_a_command_without_an_end_is_running_for_a_day_at_most(hours: int, state: str):
    (found,) = records_of_runs([], [noted(10, 0.0, "running")], now=START.add(hours=hours, minutes=10))
    assert (found.state, found.ended, found.seconds) == (state, "", None)


FAILED = FailedTry(dag_id="p", run_id="two", task_id="batch.load.a.b", map_index=0, tries=3)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"state": "failed", "failed": FAILED}, "Stopped in load a.b"),
        ({"state": "failed"}, "No task of it failed: it took too long, or somebody ended it."),
        ({"state": "cancelled", "failed": FAILED, "ended_by": "admin"}, "Cancelled by admin while loading."),
        ({"state": "cancelled", "ended_by": "e\x1b"}, "Cancelled by e\\x1b."),
        ({"state": "cancelled"}, "Cancelled."),
        ({"batches": 0}, "Nothing to do: every hour of it was complete."),
        ({"batches": 2}, ""),
        ({"dry": True}, "A dry run: the log of its task plan has what it would do."),
        ({"state": "running", "batches": 0}, ""),
    ],
)
def test_a_run_says_what_stopped_it_or_why_it_had_nothing_to_do(more: dict, why: str):
    (found,) = records_of_runs([run("two", 0, 5, **more)], [])
    assert found.why == why
    # Of a run that somebody ended, the log of its task has no error.
    assert found.failed == (more.get("failed") if more.get("state") == "failed" else None)


def test_a_run_names_the_spells_that_had_work_where_that_is_not_all_of_its_range():
    edges = START, START.add(hours=1)
    early = START.subtract(hours=4), START.subtract(hours=2)
    heals, whole = records_of_runs(
        [run("a", 1, 5, worked=(early, edges)), run("b", 0, 5, worked=(edges,))], []
    )
    assert [(one.start[11:16], one.end[11:16]) for one in heals.worked] == [
        ("06:00", "08:00"),
        ("10:00", "11:00"),
    ]
    assert whole.worked == []


def test_a_run_over_hours_that_are_done_names_who_did_them():
    """Of three earlier runs one loaded other hours, and one loaded after it."""
    elsewhere = step("load", 1, 5, 1.0, run="other", table="a.b")
    elsewhere = replace(elsewhere, start=START.add(hours=5).isoformat(), until=START.add(hours=6).isoformat())
    timings = [
        step("load", 2, 5, 1.0, run="first", table="a.b"),
        step("load", 4, 5, 1.0, run="first", table="a.c"),
        step("load", 5, 5, 1.0, run=TOKEN, table="a.c"),
        noted(4.5, 60, "success"),
        elsewhere,
        step("load", 30, 5, 1.0, run="later", table="a.b"),
    ]
    runs = [
        run("first", 0, 4),
        run("other", 0, 3),
        run("later", 29, 31),
        run("again", 10, 11, batches=0, user="ann"),
    ]
    again = next(one for one in records_of_runs(runs, timings) if one.run_id == "again")
    assert [(one.run_id, one.kind, one.user, one.at[11:16]) for one in again.before] == [
        (TOKEN, "command", "eve", "10:05"),
        ("first", "hourly", "", "10:04"),
    ]
    busy = next(one for one in records_of_runs(runs, timings) if one.run_id == "later")
    assert busy.before == []


def test_commands_of_other_hours_crowd_out_none_of_the_range():
    others = [step("land", 60 + n, 1, 1.0, run=f"{n:032x}") for n in range(MOST_RUNS)]
    within = SliceRange(START, START.add(hours=1), timedelta(hours=1))
    records = records_of_runs([], [step("land", 10, 5, 60.0, run=TOKEN), *others], within)
    assert [record.run_id for record in records] == [TOKEN]


def test_what_a_caller_wrote_into_a_run_is_harmless():
    (found,) = records_of_runs([run("r", 0, 1, mode="\x1b[2J", tables=("a\u202eb",), user="m\ne")], [])
    assert (found.mode, found.tables, found.user) == ("\\x1b[2J", ["a\\u202eb"], "m\\ne")


def test_throughput_by_the_hour_in_which_steps_began():
    timings = [
        step("land", 10, 100, 10.0),
        step("land", 50, 300, 10.0),
        step("load", 70, 90, 3.0),
        step("land", 130, 1, 0.0),
        step("verify", 10, 999, 1.0),
        step("land", 190, 5, 1.0),
    ]
    found = throughput_of(timings, START, START.add(hours=3))
    at = int(START.timestamp())
    assert found.starts == [at, at + 3600, at + 7200]
    assert (found.land, found.load) == ([20.0, None, None], [None, 30.0, None])
