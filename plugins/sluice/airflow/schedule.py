"""When the hourly DAG runs: at the end of every slice, with the slice as the run's data interval."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import CronDataIntervalTimetable, DeltaDataIntervalTimetable

_MINUTE = timedelta(minutes=1)


def cron(length: timedelta) -> str | None:
    """The cron expression of a slice length, or None for 45 and 90 minutes, which no expression has."""
    minutes = length // _MINUTE
    if 60 % minutes == 0:
        return "0 * * * *" if minutes == 60 else f"*/{minutes} * * * *"
    if minutes % 60 == 0:
        return "0 0 * * *" if minutes == 1440 else f"0 */{minutes // 60} * * *"
    return None


def timetable(length: timedelta) -> CronDataIntervalTimetable | DeltaDataIntervalTimetable:
    """A cron string alone would give data intervals of zero width.

    Without catch-up the delta timetable rounds to multiples of its delta since the epoch, as slices do.
    """
    expression = cron(length)
    if expression is None:
        return DeltaDataIntervalTimetable(length)
    return CronDataIntervalTimetable(expression, timezone="UTC")
