"""When the scheduler makes the hourly DAG's runs: at the end of each slice, and `offset` after it. Pure."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import CronDataIntervalTimetable, DeltaDataIntervalTimetable

_MINUTE = timedelta(minutes=1)
_HOUR, _DAY = 60, 1440


def cron(length: timedelta, offset: timedelta = timedelta(0)) -> str | None:
    """Returns the cron expression of a slice length, or None for 45 and 90 minutes, which have none.

    15m: `*/15 * * * *`. 1h and 5m after it: `5 * * * *`. 6h and 70m: `10 1-23/6 * * *`.
    """
    minutes, (hours, late) = length // _MINUTE, divmod(offset // _MINUTE, _HOUR)
    if _HOUR % minutes == 0:
        return f"{late if minutes == _HOUR else _every(minutes, late, _HOUR)} * * * *"
    if minutes % _HOUR == 0:
        return f"{late} {hours if minutes == _DAY else _every(minutes // _HOUR, hours, 24)} * * *"
    return None


def _every(step: int, first: int, most: int) -> str:
    return f"{first}-{most - 1}/{step}" if first else f"*/{step}"


def timetable(
    length: timedelta, offset: timedelta = timedelta(0)
) -> CronDataIntervalTimetable | DeltaDataIntervalTimetable:
    """Returns the timetable: a cron string alone would give data intervals of zero width. Intervals with an
    offset are later than the slice by it, and `scheduled_slices` rounds them down.

    Without catch-up the delta timetable rounds to multiples of its delta since the epoch, as slices do.
    """
    expression = cron(length, offset)
    if expression is None:
        return DeltaDataIntervalTimetable(length)
    return CronDataIntervalTimetable(expression, timezone="UTC")
