from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest
from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable

from sluice.airflow.dags import cron, timetable
from sluice.airflow.run_params import scheduled_slices

CRONS = {
    15: "*/15 * * * *",
    30: "*/30 * * * *",
    45: None,
    60: "0 * * * *",
    90: None,
    120: "0 */2 * * *",
    180: "0 */3 * * *",
    240: "0 */4 * * *",
    360: "0 */6 * * *",
    480: "0 */8 * * *",
    720: "0 */12 * * *",
    1440: "0 0 * * *",
}


@pytest.mark.parametrize(("minutes", "expected"), CRONS.items())
def test_cron(minutes: int, expected: str | None):
    assert cron(timedelta(minutes=minutes)) == expected


@pytest.mark.parametrize("minutes", CRONS)
def test_the_scheduler_makes_a_run_for_the_last_complete_slice(minutes: int):
    """Airflow's own timetable, asked as its scheduler asks without catch-up."""
    length = timedelta(minutes=minutes)
    expression = cron(length)
    scheduler = (
        DeltaDataIntervalTimetable(length)
        if expression is None
        else CronDataIntervalTimetable(expression, pendulum.UTC)
    )
    assert type(timetable(length)).__name__ == type(scheduler).__name__
    before = pendulum.now("UTC")
    run = scheduler.next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(earliest=pendulum.datetime(2020, 1, 1), latest=None, catchup=False),
    )
    start, end = run.data_interval
    assert end - start == length
    assert start.timestamp() % length.total_seconds() == 0
    assert timedelta(0) <= pendulum.now("UTC") - end
    assert before - end < length


# (slice, offset): the first minutes of a day at which the scheduler makes runs
LATER = {
    (15, 5): ["00:05", "00:20", "00:35"],
    (30, 1): ["00:01", "00:31", "01:01"],
    (60, 7): ["00:07", "01:07", "02:07"],
    (120, 7): ["00:07", "02:07", "04:07"],
    (360, 70): ["01:10", "07:10", "13:10"],
    (480, 479): ["07:59", "15:59", "23:59"],
    (1440, 90): ["01:30"],
}


@pytest.mark.parametrize(("given", "expected"), LATER.items())
def test_a_run_with_an_offset_is_later_and_has_the_slice_that_is_over(given, expected: list[str]):
    """Airflow's own timetable over a day; the slice is what a run's data interval is turned into."""
    length, offset = (timedelta(minutes=minutes) for minutes in given)
    assert type(timetable(length, offset)).__name__ == "CronDataIntervalTimetable"
    scheduler = CronDataIntervalTimetable(cron(length, offset), pendulum.UTC)
    day, runs, last = pendulum.datetime(2026, 11, 20), [], None
    while len(runs) < len(expected):
        earliest = TimeRestriction(earliest=day.subtract(days=2), latest=None, catchup=True)
        run = scheduler.next_dagrun_info(last_automated_data_interval=last, restriction=earliest)
        last = run.data_interval
        slices = scheduled_slices(last.start, last.end, run.run_after, length)
        assert len(slices) == 1
        assert run.run_after - slices.end == offset
        if run.run_after >= day:
            runs.append(f"{run.run_after:%H:%M}")
    assert runs == expected
