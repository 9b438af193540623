"""Turns what Airflow says about a run into whole slices. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import pendulum

from sluice.errors import EndInFuture
from sluice.slices import SliceRange, floor, parse_instant, utc


def scheduled_slices(
    start: datetime | None, end: datetime | None, run_after: datetime, length: timedelta
) -> SliceRange:
    """The complete slices of a scheduled DAG's run, at least one.

    Airflow 3.3 gives the data interval in several shapes: `[L, L + 1h)` from the scheduler and `backfill
    create`, `[L - 1h, L)` from `dags test L`, the last full hour before now from `dags trigger -l L`,
    an empty or crooked one from somebody's own API call, and none at all when the REST call's logical
    date is null; then `run_after`, the moment from which the run may start, stands in for its end.
    """
    last = floor(end or run_after, length)
    first = floor(start or last, length)
    return SliceRange(min(first, last - length), last, length)


def requested_slices(start: str, end: str, now: datetime, length: timedelta) -> SliceRange:
    """The whole slices that hold a backfill's `[start, end)`. Raises WrongUse for what is no range."""
    return SliceRange.widen(parse_instant(start, now, length), parse_instant(end, now, length), length)


def refuse_future(slices: SliceRange, now: datetime) -> SliceRange:
    """Raises EndInFuture, so that no run waits for an hour that is far from over."""
    if slices.end > utc(now):
        raise EndInFuture(str(slices.end), str(utc(now)))
    return slices


def to_xcom(slices: SliceRange) -> dict[str, str]:
    return {"from": slices.start.to_iso8601_string(), "to": slices.end.to_iso8601_string()}


def from_xcom(value: dict[str, str], length: timedelta) -> SliceRange:
    return SliceRange(utc(pendulum.parse(value["from"])), utc(pendulum.parse(value["to"])), length)
