"""Timings: kept line by line, by the day; rates and estimates out of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import date

import pendulum
import pytest
from typer import Exit

from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.errors import TargetRefused
from sluice.flow.land.submit import SUBMITTED, seconds_since_submit
from sluice.plan.estimate import (
    Rate,
    WholeRun,
    duration_text,
    estimate_time,
    rates,
    startup_of,
    whole_commands,
)
from sluice.plan.plan import PlannedWork
from sluice.plan.progress import Pace
from sluice.slices import SliceRange
from sluice.state.notes import (
    COMMAND,
    Timing,
    key_of,
    last_load,
    newest,
    noted_command,
    of_day,
    of_run,
    record,
    timed,
)

DAY = pendulum.datetime(2026, 11, 20)
HOURS = SliceRange(DAY, DAY.add(hours=3))


def timing(step: str, units: int, rows: int, seconds: float, **more) -> Timing:
    started = more.pop("started", "2026-11-20T10:00:00.000+00:00")
    return Timing(step, str(DAY), str(DAY), started, seconds, units, rows, **more)


@pytest.fixture
def lake(tmp_path) -> FolderLake:
    return FolderLake(tmp_path / "p")


def test_writers_at_once_lose_no_line(lake):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: record(lake, timing("land", n, 0, 1)), range(1, 25)))
    assert sorted(t.units for t in of_day(lake, date(2026, 11, 20))) == list(range(1, 25))


def test_the_newest_are_found_day_by_day_without_a_listing(lake):
    for day in (1, 18, 19, 20):
        record(lake, timing("land", day, 0, 1, started=f"2026-11-{day:02}T23:59:59.999+00:00"))
    assert [t.units for t in newest(lake, DAY, count=2)] == [19, 20]
    assert [t.units for t in newest(lake, DAY, days=5)] == [18, 19, 20]


def test_a_line_with_fields_of_a_later_release_is_read(lake):
    record(lake, timing("land", 7, 0, 1))
    stored = lake.read(key_of(DAY)).data
    lake.put(key_of(DAY), stored.replace(b'"units":7', b'"units":7,"colour":"red"'))
    assert [t.units for t in of_day(lake, DAY.date())] == [7]


def test_only_a_step_that_did_something_and_ended_well_is_recorded(lake):
    with timed(lake, "load", HOURS, table="db.t") as count:
        count({"units": 0, "rows": 0})
    with pytest.raises(ZeroDivisionError), timed(lake, "load", HOURS):
        raise ZeroDivisionError
    with timed(lake, "load", HOURS, table="db.t") as count:
        count({"units": 3, "rows": 5})
    (found,) = newest(lake, pendulum.now("UTC"))
    assert (found.step, found.table, found.units, found.rows) == ("load", "db.t", 3, 5)
    assert (found.start, found.until) == ("2026-11-20T00:00:00+00:00", "2026-11-20T03:00:00+00:00")


def test_a_step_has_the_run_inside_which_it_is_timed(lake):
    now = pendulum.now("UTC").date()

    def verify() -> None:
        with timed(lake, "verify", HOURS) as count:
            count({"units": 1, "rows": 0})

    verify()
    with of_run("manual__1"):
        verify()
        with timed(lake, "load", HOURS, run="own") as count:
            count({"units": 1, "rows": 0})
    with of_run("other"):
        verify()
    verify()
    found = [(one.step, one.run) for one in of_day(lake, now)]
    assert found == [
        ("verify", ""),
        ("verify", "manual__1"),
        ("load", "own"),
        ("verify", "other"),
        ("verify", ""),
    ]


def test_a_rate_is_found_again_from_what_it_made():
    made = [(1, 0), (24, 100_000), (8760, 43_800), (100, 5_000_000), (1, 3_000_000)]
    known = rates([timing("land", u, r, 10 + 0.008 * u + 4e-6 * r) for u, r in made])
    assert known["land"].seconds(8760, 43_800) == pytest.approx(10 + 70.08 + 0.1752)
    assert known["land"].seconds(0, 0) == 0


def test_one_earlier_run_is_not_stretched_to_nonsense():
    known = rates([timing("land", 1, 1_000_000, 20)])
    assert 0 < known["land"].seconds(1, 1_000_000) < 40


def test_loads_of_one_batch_into_several_tables_count_as_one():
    into = [timing("load", 10, rows, 2, table=f"db.t{rows}", run="r") for rows in (100, 900)]
    assert rates(into)["load"].seconds(10, 1000) == pytest.approx(4)


WORK = PlannedWork(
    batches=(HOURS, HOURS), land=((10, 1000), (10, 1000)), load=((10, 1000), (10, 1000)), check=(20, 2000)
)


def test_an_estimate_names_what_was_never_timed():
    known = rates([timing("land", 10, 1000, 30), timing("verify", 20, 2000, 3)])
    assert estimate_time(WORK, known).unknown == ("load", "publish")
    assert "load" in str(estimate_time(WORK, known))


def test_an_estimate_is_the_sum_over_batches():
    known = rates([timing(step, 10, 1000, took) for step, took in
                   (("land", 30), ("load", 5), ("verify", 2), ("publish", 1))])  # fmt: skip
    found = estimate_time(WORK, known)
    assert found.seconds["land"] == pytest.approx(60)
    assert found.seconds["load"] == pytest.approx(10)


def test_time_left_follows_the_pace_so_far():
    nothing_known = estimate_time(WORK, {})
    pace = Pace(WORK, nothing_known)
    assert pace.left(0, 0, 5) is None
    assert pace.left(1, 1, 60) == pytest.approx(60)
    assert pace.line(1, 1, 60, {}) == (
        "10 of 20 units and 1,000 of 2,000 rows done, 17 rows/s, about 1 min 0 s left"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (18_600, "5 h 10 min")]
)
def test_spoken(seconds, text):
    assert duration_text(seconds) == text


def test_a_damaged_line_is_left_out(lake):
    for units in (1, 2):
        record(lake, timing("land", units, 0, 1))
    first, second = lake.read(key_of(DAY)).data.splitlines()
    lake.put(key_of(DAY), b"\n".join([first, second[:40], b'{"step": "\xff"}', b"{}", second, b""]))
    assert [t.units for t in of_day(lake, DAY.date())] == [1, 2]
    assert [t.units for t in newest(lake, DAY)] == [1, 2]


def test_a_small_batch_takes_what_starting_takes():
    """A day took 30 s, of which submitting and Spark took 14: an hour can't take a second or two."""
    one = [timing("land", 24, 2_400_000, 20, before=10.0, starting=4.0)]
    assert 14 < rates(one)["land"].seconds(1, 100_000) < 31
    several = [
        *one,
        timing("land", 1, 100_000, 5, before=11.0, starting=4.2),
        timing("land", 48, 4_800_000, 36, before=9.0, starting=4.0),
    ]
    assert rates(several)["land"].seconds(1, 100_000) == pytest.approx(15, abs=1)
    assert rates(several)["land"].seconds(48, 4_800_000) == pytest.approx(46, abs=2)
    assert rates(several)["land"].seconds(0, 0) == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1000.5", 9.5), ("", 0.0), ("soon", 0.0), ("1011", 0.0), ("-9e9", 0.0), ("nan", 0.0)],
)
def test_how_long_an_application_took_to_begin(text: str, seconds: float):
    assert seconds_since_submit({SUBMITTED: text}, 1010.0) == seconds
    assert seconds_since_submit({}, 1010.0) == 0.0


def commands(lake: FolderLake) -> list[tuple[str, str, str]]:
    return [(one.user, one.state, one.error) for one in newest(lake, pendulum.now("UTC"))]


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (None, "success", ""),
        (TargetRefused("adx.clicks", "does not exist", "create it"), "failed", "adx.clicks"),
        (KeyboardInterrupt(), "interrupted", ""),
        (Exit(3), "failed", "a step has failed: the command's output says why"),
        (ZeroDivisionError("what a row says"), "failed", "ZeroDivisionError"),
    ],
)
def test_a_command_is_noted_at_its_begin_and_at_its_end(lake, error, state: str, said: str):
    lake.put(f"{layout.BOUNDARIES}any", b"")
    with suppress(type(error) if error else ValueError), noted_command(lake, HOURS, "ann", run="r"):
        assert commands(lake) == [("ann", "running", "")]
        if error:
            raise error
    (user, ended, why) = commands(lake)[-1]
    assert (user, ended) == ("ann", state)
    assert said in why and bool(said) == bool(why)


def test_a_command_leaves_nothing_in_a_lake_that_is_not_its_own(lake):
    with noted_command(lake, HOURS, "ann"):
        pass
    assert list(lake.list("")) == []


def test_who_loaded_the_hours_of_a_range_last():
    at = "2026-11-20T1{}:00:00.000+00:00"
    edges = {"start": DAY.isoformat(), "until": DAY.add(hours=1).isoformat()}
    later = {"start": DAY.add(hours=3).isoformat(), "until": DAY.add(hours=4).isoformat()}

    def one(step: str, hour: int, **more: str) -> Timing:
        return replace(timing(step, 1, 1, 1.0, started=at.format(hour)), **{**edges, **more})

    hourly, command = one("load", 1, run="scheduled__1"), one("load", 2, run="t")
    noted, outside = one(COMMAND, 2, run="t", user="ann"), one("load", 5, run="x", **later)
    assert last_load([hourly, outside], HOURS) == "the last load was by run scheduled__1, 2026-11-20T11:00Z"
    assert last_load([command, hourly, noted], HOURS) == (
        "the last load was by a command of ann, 2026-11-20T12:00Z"
    )
    assert last_load([outside, one("land", 3, run="y")], HOURS) == ""


def whole(name: str, minute: int, seconds: float, **more: float) -> WholeRun:
    began = pendulum.datetime(2026, 11, 20, 10, minute)
    return WholeRun(name, began, began.add(seconds=seconds), **more)


def test_a_run_takes_what_it_took_before_beside_its_steps():
    """Of 30, 25 and 300 seconds, of which 200 were a wait, steps took 12, 9 and 92: beside them 18, 16, 8."""
    at = "2026-11-20T10:{}.000+00:00"
    timings = [
        timing("land", 1, 1, 8.0, started=at.format("00:10"), run="a", before=2.0),
        timing("load", 1, 1, 2.0, started=at.format("00:20"), run="a"),
        timing("load", 1, 1, 8.0, started=at.format("10:05"), run="b"),
        timing("verify", 1, 1, 1.0, started=at.format("10:15")),
        timing("load", 1, 1, 92.0, started=at.format("20:10"), run="c"),
    ]
    runs = [whole("c", 20, 300, waited=200.0), whole("b", 10, 25), whole("a", 0, 30), whole("idle", 40, 9)]
    assert startup_of(runs, timings) == 16.0
    assert startup_of(runs[3:], timings) is None
    slow = estimate_time(WORK, {"land": Rate(2.0, 0, 0)}).with_startup(16.0)
    assert slow.seconds.get("start-up") == 16.0


def test_only_commands_that_ended_well_say_what_starting_takes():
    note = {"step": COMMAND, "units": 1, "rows": 0, "seconds": 30.0}
    notes = [
        timing(**note, run=str(n), state=state) for n, state in enumerate(("running", "failed", "success"))
    ]
    assert [run.run for run in whole_commands(notes)] == ["2"]
