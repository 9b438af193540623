from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.airflow.run_params import (
    from_xcom,
    over_elsewhere,
    refuse_future,
    requested_slices,
    scheduled_slices,
    to_xcom,
)
from sluice.errors import ClockBehind, EndInFuture, WrongUse
from sluice.slices import SliceRange

HOUR, QUARTER, DAY = timedelta(hours=1), timedelta(minutes=15), timedelta(days=1)
LENGTHS = [timedelta(minutes=m) for m in (15, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440)]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# What Airflow 3.3.2 was seen to give: data interval start and end, run_after; then the slices.
SCHEDULED = {
    "scheduler or backfill create: [L, L+1h)": (
        "20T10:00",
        "20T11:00",
        "20T11:00",
        HOUR,
        "20T10:00",
        "20T11:00",
    ),
    "dags test 12:00: [L-1h, L)": ("20T11:00", "20T12:00", "21T08:10", HOUR, "20T11:00", "20T12:00"),
    "dags trigger -l: last full hour": ("21T07:00", "21T08:00", "21T08:10", HOUR, "21T07:00", "21T08:00"),
    "REST, null logical date": (None, None, "21T08:10", HOUR, "21T07:00", "21T08:00"),
    "REST, null, on the hour's edge": (None, None, "21T08:00", HOUR, "21T07:00", "21T08:00"),
    "zero width": ("21T08:10", "21T08:10", "21T08:10", HOUR, "21T07:00", "21T08:00"),
    "crooked: only whole, complete slices": (
        "20T09:30",
        "20T11:30",
        "20T11:30",
        HOUR,
        "20T09:00",
        "20T11:00",
    ),
    "three hours": ("20T09:00", "20T12:00", "20T12:00", HOUR, "20T09:00", "20T12:00"),
    "quarters": ("20T10:15", "20T10:30", "20T10:30", QUARTER, "20T10:15", "20T10:30"),
    "an hour for a pipeline of quarters": (
        "20T10:00",
        "20T11:00",
        "20T11:00",
        QUARTER,
        "20T10:00",
        "20T11:00",
    ),
    "an hour for a pipeline of days": ("20T10:00", "20T11:00", "20T11:00", DAY, "19T00:00", "20T00:00"),
}


@pytest.mark.parametrize("case", SCHEDULED)
def test_scheduled_slices(case: str):
    start, end, run_after, length, first, last = SCHEDULED[case]
    instants = [None if text is None else at(f"2026-11-{text}") for text in (start, end, run_after)]
    found = scheduled_slices(*instants, length)
    assert (found.start, found.end, found.length) == (at(f"2026-11-{first}"), at(f"2026-11-{last}"), length)


@given(
    start=st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    width=st.timedeltas(timedelta(0), timedelta(days=3)),
    run_after=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    length=st.sampled_from(LENGTHS),
)
def test_scheduled_slices_are_whole_and_over_when_the_interval_is(start, width, run_after, length):
    end = None if start is None else start + width
    found = scheduled_slices(start, end, run_after, length)
    assert len(found) >= 1
    assert found.start.timestamp() % length.total_seconds() == 0
    assert found.end.timestamp() % length.total_seconds() == 0
    assert timedelta(0) <= (end or run_after) - found.end < length


def test_requested_slices_are_widened():
    found = requested_slices("2026-11-20T10:20", "2026-11-20 12:00:01+01:00", at("2026-11-21T08:10"), HOUR)
    assert (found.start, found.end) == (at("2026-11-20T10:00"), at("2026-11-20T12:00"))


def test_requested_now_is_the_end_of_the_last_complete_slice():
    found = requested_slices("2026-11-21", "now", at("2026-11-21T08:10"), HOUR)
    assert (found.start, found.end) == (at("2026-11-21T00:00"), at("2026-11-21T08:00"))


def test_a_range_that_runs_backwards_is_refused():
    with pytest.raises(WrongUse, match="empty"):
        requested_slices("2026-11-21T09:00", "2026-11-21T08:00", at("2026-11-21T10:00"), HOUR)


def test_an_end_in_the_future_is_refused():
    slices = requested_slices("2026-11-21T07:00", "2026-11-21T09:00", at("2026-11-21T08:10"), HOUR)
    with pytest.raises(EndInFuture, match="2026-11-21T09:00Z"):
        refuse_future(slices, at("2026-11-21T08:59"))
    assert refuse_future(slices, at("2026-11-21T09:00")) is slices


def test_a_range_that_was_over_when_the_scheduler_started_the_run_is_over():
    """The worker's clock is ten minutes behind the scheduler's."""
    slices = requested_slices("2026-11-21T07:00", "2026-11-21T09:00", at("2026-11-21T08:10"), HOUR)
    assert refuse_future(slices, at("2026-11-21T08:50"), at("2026-11-21T09:00")) is slices
    with pytest.raises(EndInFuture):
        refuse_future(slices, at("2026-11-21T08:50"), at("2026-11-21T08:59"))
    assert refuse_future(slices, at("2026-11-21T09:01"), None) is slices


def test_a_worker_whose_clock_is_behind_says_so_and_is_tried_again():
    with pytest.raises(ClockBehind) as raised, over_elsewhere():
        raise EndInFuture("2026-11-21T09:00Z", "2026-11-21T08:50:03Z")
    assert raised.value.retryable
    assert socket.gethostname() in str(raised.value)
    assert "says 2026-11-21T08:50:03Z, and the run's hours ended at 2026-11-21T09:00Z" in str(raised.value)


def test_xcom_is_plain_text_and_comes_back():
    slices = SliceRange.widen(at("2026-11-20T10:00"), at("2026-11-20T13:00"))
    assert to_xcom(slices) == {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T13:00:00Z"}
    assert from_xcom(to_xcom(slices), HOUR) == slices


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("1026-01-01T00:00", "2026-11-20T10:00", "1026-01-01.*expected an instant from 1970-01-01"),
        ("0001-01-01T00:00", "0001-01-01T00:00", "0001-01-01"),
        ("9999-12-31T23:30", "9999-12-31T23:30", "9999-12-31"),
        ("1990-01-01T00:00", "2026-11-20T10:00", "more than 100,000"),
    ],
)
def test_an_interval_of_somebodys_own_call_is_bounded(start: str, end: str, said: str):
    with pytest.raises(WrongUse, match=said):
        scheduled_slices(at(start), at(end), at("2026-11-20T10:00"), HOUR)


def test_a_backfill_is_bounded():
    now = at("2026-11-20T10:00")
    assert len(requested_slices("2016-11-20", "now", now, HOUR)) == 10 * 8760 + 2 * 24 + 10
    with pytest.raises(WrongUse, match="more than 100,000"):
        requested_slices("1990-01-01", "now", now, HOUR)
