"""Timings: kept line by line, by the day; rates and estimates out of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pendulum
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.submit import SUBMITTED, seconds_since_submit
from sluice.plan.estimate import duration_text, estimate_time, rates
from sluice.plan.plan import PlannedWork
from sluice.plan.progress import Pace
from sluice.slices import SliceRange
from sluice.state.notes import Timing, key_of, newest, of_day, record, timed

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
