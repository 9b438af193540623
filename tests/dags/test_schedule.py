from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest
from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable

from sluice.airflow.dags import cron, timetable

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
