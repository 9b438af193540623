"""The page's dry run: what a backfill would do in numbers and lines, and how long it would take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.errors import KafkaUnavailable
from sluice.flow.verify.verdict import OpenAnomaly
from sluice.page.plan import left_broken, plan_view
from sluice.plan.dry_run import DryRun
from sluice.plan.estimate import Rate, TimeEstimate, estimate_time
from sluice.plan.plan import work_of
from sluice.slices import SliceRange
from sluice.state.unit_state import UnitState
from sluice.watch.obstacles import Asks, Stops
from tests.support.page_world import START, TABLE, complete, missing, pipeline, unit

THREE = SliceRange(START, START.add(hours=3))
RATES = {
    "land": Rate(30.0, 0.0, 0.0),
    "load": Rate(1.0, 2.0, 0.0),
    "verify": Rate(0.0, 1.0, 0.0),
    "publish": Rate(2.0, 0.0, 0.0),
}


def dry(mode: str, rates: dict[str, Rate], **silent: KafkaUnavailable) -> DryRun:
    units = [complete(unit(0)), missing(unit(1)), missing(unit(2))]
    found = [replace(s, ranges=s.ranges or ()) for s in units]
    work = work_of(found, mode)
    return DryRun(found, silent, mode, "fail", work, estimate_time(work, rates))


@pytest.mark.parametrize(
    ("mode", "actions", "time"),
    [
        # Landing 30 s; loading 1 s and 2 s for each of two units; verify 1 s for each of three; publish 2 s.
        (
            "fill",
            {"land and load": 2, "nothing": 1},
            "about 40 s (land 30 s, load 5 s, verify 3 s, publish 2 s)",
        ),
        (
            "reload",
            {"land and load": 2, "load again": 1},
            "about 42 s (land 30 s, load 7 s, verify 3 s, publish 2 s)",
        ),
    ],
)
def test_a_plan_says_what_is_done_and_how_long_it_takes(mode: str, actions: dict, time: str):
    plan = plan_view(pipeline(), THREE, dry(mode, RATES))
    assert (plan.units, plan.actions, plan.time) == (3, actions, time)
    assert (plan.batches, len(plan.lines)) == (1, 3)
    assert plan.waiting == []


def test_what_was_never_timed_and_who_does_not_answer():
    gone = KafkaUnavailable("dc2", "h:1", "no answer")
    said = dry("fill", {"land": RATES["land"]}, dc2=gone)
    plan = plan_view(pipeline(), THREE, said)
    assert plan.time == "unknown: no earlier run of this pipeline has timed load, verify, publish"
    assert plan.waiting == [f"cluster dc2 waits: {gone}"]
    assert said.lines[0].startswith("2026-11-20T10Z/dc1: complete → nothing; ")
    assert said.lines[3:] == [
        f"cluster dc2 waits: {gone}",
        "complete: 1; offsets to land: 0; reads: 0; records to load: 0; batches: 1; "
        "time: unknown: no earlier run of this pipeline has timed load, verify, publish",
    ]
    assert str(TimeEstimate({}, ())) == "about 0 s"


def planned(found: list, mode: str, tables: frozenset[str] | None = None):
    work = work_of(found, mode)
    said = DryRun(found, {}, mode, "fail", work, estimate_time(work, RATES))
    return plan_view(pipeline(), THREE, said, tables)


def units() -> list:
    """5 rows of 50 bytes in the table, 8 of which an earlier landing's rows are there, and 40 to land."""
    old = complete(unit(1), rows=8)
    row = replace(old.tables[TABLE], manifest="1-before", rows=6)
    stale = replace(old, tables={TABLE: row}, state=UnitState.STALE)
    away = replace(missing(unit(2)), ranges=(replace(old.ranges[0], start=0, until=40),))
    return [complete(unit(0)), stale, away]


@pytest.mark.parametrize(
    ("mode", "replaces", "size"),
    [
        # Landed are 13 rows in 130 bytes: 40 more will have 400.
        ("fill", [(TABLE, 1, 6, 0)], 480),
        ("reload", [(TABLE, 2, 11, 0)], 530),
        ("reland", [("lake", 2, 13, 130), (TABLE, 2, 11, 0)], 530),
        ("reload --missing-columns", [(TABLE, 1, 6, 0)], 480),
    ],
)
def test_what_a_run_takes_away_and_how_large_it_is(mode: str, replaces: list, size: int):
    plan = planned(units(), mode)
    assert [(one.place, one.units, one.rows, one.bytes) for one in plan.replaces] == replaces
    assert (plan.bytes, plan.estimated) == (size, True)


def test_rejected_records_and_counts_of_traffic_are_no_rows_of_the_hour():
    landed = complete(unit(0), rows=5, rejected_records={"no type": 2})
    lake, table = planned([landed], "reland").replaces
    assert (lake.place, lake.rows, table.rows) == ("lake", 5, 5)


def test_a_refill_replaces_the_table_that_lacks_a_column():
    lacking = replace(complete(unit(0)), later={TABLE: {"country": 3}})
    (one,) = planned([lacking], "reload --missing-columns").replaces
    assert (one.place, one.units, one.rows) == (TABLE, 1, 5)
    assert planned([lacking], "fill").replaces == []


def test_bytes_where_all_has_landed_or_nothing():
    assert (
        planned([complete(unit(0))], "reload").bytes,
        planned([complete(unit(0))], "reload").estimated,
    ) == (50, False)
    nothing = planned([missing(unit(0))], "fill")
    assert (nothing.bytes, nothing.estimated, nothing.replaces) == (0, False, [])
    some = planned(units()[2:], "fill")
    assert (some.bytes, some.estimated) == (None, True)


def test_a_plan_divides_what_is_in_its_way():
    met = replace(dry("fill", RATES), obstacles=["a disk is full", Stops("no table"), Asks("a run")])
    plan = plan_view(pipeline(), THREE, met)
    assert (plan.obstacles, plan.stops, plan.asks) == (
        ["a disk is full", "no table", "a run"],
        ["no table"],
        ["a run"],
    )


def broken(*hours: int) -> list[OpenAnomaly]:
    edges = START.isoformat(), START.add(hours=1).isoformat()
    names = tuple(unit(hour).slice.id for hour in hours)
    found = OpenAnomaly("rows", TABLE, "m", "", "", names, "dc1", *edges, edges[0], "", "", TABLE, "", "", "")
    return [found]


def test_a_fill_that_leaves_hours_broken_says_so_before_the_start():
    """Of three hours the first is complete, and a fill lands the others, whatever was wrong with them."""
    (line,) = left_broken(dry("fill", RATES), broken(0, 1))
    assert isinstance(line, Asks)
    assert line.startswith("1 hour of the range is broken, and a fill does not mend it: ")
    assert left_broken(dry("fill", RATES), broken(1, 2, 7)) == []
    assert left_broken(dry("reload", RATES), broken(0)) == []
