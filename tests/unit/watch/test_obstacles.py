"""What would stop a run that is started now, or hold it up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from sluice.clients.lake import layout
from sluice.errors import ShardUnavailable, TableMissing
from sluice.slices import SliceRange
from sluice.state.lease import LeaseState, encode
from sluice.state.notes import COMMAND, Timing, record
from sluice.watch import obstacles
from sluice.watch.observe import Disk
from sluice.watch.obstacles import (
    Asks,
    AtWork,
    Stops,
    at_work_lines,
    commands_of,
    full_disks,
    read_obstacles,
    refused,
)
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, TABLE, pipeline

HOURS = SliceRange(START, START.add(hours=2))
NOW = START.add(days=1)


def at_work(first: int, end: int, **more: object) -> AtWork:
    edges = START.add(hours=first), START.add(hours=end)
    return replace(AtWork("backfill run", "reland", *edges, "ann", NOW.subtract(seconds=9)), **more)


def test_a_run_over_the_same_hours_is_named_with_its_age():
    (line,) = at_work_lines([at_work(1, 3), at_work(2, 4), at_work(-2, 0)], HOURS, NOW)
    assert line == (
        "a reland of 2026-11-20T11:00Z – 2026-11-20T13:00Z (backfill run of ann) has run for 9 s: "
        "this run waits wherever both load the same table"
    )
    (queued,) = at_work_lines([at_work(0, 1, began=None, user="a\x1bb")], HOURS, NOW)
    assert queued == (
        "a reland of 2026-11-20T10:00Z – 2026-11-20T11:00Z (backfill run of a\\x1bb) is queued: "
        "this run waits wherever both load the same table"
    )


def test_a_run_of_some_tables_is_named_with_them_and_asks_before_another_start():
    (line,) = at_work_lines([at_work(0, 1, tables=("adx.clicks", "a\x1b"))], HOURS, NOW)
    assert ", only adx.clicks, a\\x1b (backfill run of ann)" in line
    assert isinstance(line, Asks)


def noted(run: str, state: str, minutes_ago: float) -> Timing:
    at = NOW.subtract(minutes=minutes_ago).isoformat(timespec="milliseconds")
    edges = HOURS.start.isoformat(), HOURS.end.isoformat()
    return Timing(COMMAND, *edges, at, 0.0, 2, 0, mode="reload", run=run, user="eve", state=state)


def test_a_command_is_at_work_until_it_notes_its_end_or_a_day_is_over():
    timings = [
        noted("a", "running", 30),
        noted("b", "running", 20),
        noted("a", "success", 30),
        noted("c", "running", 24 * 60 + 1),
        replace(noted("d", "running", 5), step="land"),
    ]
    (found,) = commands_of(timings, NOW)
    assert (found.what, found.mode, found.user, found.start) == ("sluice run", "reload", "eve", HOURS.start)
    assert found.began == NOW.subtract(minutes=20)


@pytest.mark.parametrize(
    ("free", "said"), [(9, ["h:1, disk d: 9.0% of 0 GiB are free: give it more room"]), (11, [])]
)
def test_a_disk_is_full_where_the_watch_would_say_so(free: int, said: list[str]):
    spec = pipeline(alarms={"disk_free": 0.1})
    assert full_disks(spec, "h:1", (Disk("d", free, 100), Disk("unknown", 0, 0))) == said


def server(client: object = None, error: object = None) -> SimpleNamespace:
    return SimpleNamespace(client=client, error=error, shard=SimpleNamespace(replicas=()))


def test_a_table_that_a_run_would_refuse_is_named_once(monkeypatch: pytest.MonkeyPatch):
    def inspect(client: object, spec: object, target: object) -> None:
        raise TableMissing(TABLE, "there is no such table", "create it")

    monkeypatch.setattr(obstacles, "inspect_target", inspect)
    spec, silent = pipeline(), ShardUnavailable("s3", "no answer")
    found = list(refused([server("s1"), server("s2"), server(error=silent)], spec, spec.targets))
    assert found == [
        f"the run would stop before it lands anything: table {TABLE}: there is no such table; create it",
        f"{silent}: what it lacks is loaded by a later run",
    ]
    assert [type(one) for one in found] == [Stops, str]
    rollup = SimpleNamespace(table="e.per_hour", rollup=object())
    (late,) = refused([server("s1")], spec, [rollup])
    assert isinstance(late, Asks) and late.startswith("the run would stop at its load: ")


def test_a_lease_that_somebody_holds_and_a_command_are_in_the_way():
    spec, lake = pipeline(tables={}), MemoryLake()
    assert read_obstacles(spec, HOURS, None, NOW, lake) == []
    record(lake, noted("b", "running", 20))
    (command,) = read_obstacles(spec, HOURS, None, NOW, lake)
    assert command.startswith(
        "a reload of 2026-11-20T10:00Z – 2026-11-20T12:00Z (sluice run of eve) has run for 20 min"
    )
    held = LeaseState("x", 1, 1, timedelta(seconds=30).total_seconds(), 7, "host")
    lake.put(layout.lease(TABLE), encode(held))
    (line,) = obstacles._held(lake, pipeline().targets)
    assert (
        line == f"table {TABLE} is being loaded: this run's load waits for that one, or for 30 s where its "
        "process has died"
    )
    lake.put(layout.lease(TABLE), encode(held.given_back()))
    assert list(obstacles._held(lake, pipeline().targets)) == []
