"""The ranges that the page answers: what is refused, and what long ones cost."""

from __future__ import annotations

import tracemalloc
from datetime import timedelta

import pendulum
import pytest

from sluice.errors import WrongUse
from sluice.page import history
from sluice.page.rows import RequestedRange, bounded
from sluice.slices import SliceRange
from tests.support.long_form import per_commit

NOW = pendulum.datetime(2026, 11, 20, 10, 30)


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("²h", "now", "is not an instant"),
        ("1026-01-01", "now", "1970-01-01 to 2106-01-01"),
        ("1990-01-01", "now", "more than five years"),
        ("48h", "1026-01-01", "1970-01-01 to 2106-01-01"),
        ("48h", "9999-12-31T23:30Z", "1970-01-01 to 2106-01-01"),
        ("48h", "1970-01-01", "empty"),
        ("0h", "now", "empty"),
    ],
)
def test_ranges_that_are_refused(start: str, end: str, said: str):
    with pytest.raises(WrongUse, match=said):
        RequestedRange.of(start, end, NOW)


@pytest.mark.parametrize(
    ("start", "hours"), [("48h", 48), ("٣h", 3), ("99999h", 1830 * 24), ("9" * 37 + "h", 1830 * 24)]
)
def test_an_age_is_cut_to_five_years(start: str, hours: int):
    asked = RequestedRange.of(start, "now", NOW)
    assert asked.end == pendulum.datetime(2026, 11, 20, 11) and asked.end - asked.start == timedelta(
        hours=hours
    )


def test_five_years_are_taken_and_an_hour_more_is_not():
    five = SliceRange(NOW.start_of("hour") - timedelta(days=1830), NOW.start_of("hour"))
    assert bounded(five) is five
    with pytest.raises(WrongUse, match="more than five years"):
        bounded(SliceRange(five.start - timedelta(hours=1), five.end))


@pytest.mark.parametrize("minutes", per_commit([15, 60, 1440]))
def test_ids_of_many_ranges_keep_little(minutes: int):
    """Each viewer may ask for another range: what is remembered of them does not grow with their number."""
    length = timedelta(minutes=minutes)
    edge = pendulum.datetime(2026, 11, 20)
    history._month_ids.cache_clear()
    tracemalloc.start()
    for more in range(20):
        days = SliceRange(edge - timedelta(days=1830 - more), edge + timedelta(days=more), length)
        ids = history.ids_of(days)
        assert next(ids) == next(iter(days)).id
        assert sum(1 for _ in ids) == len(days) - 1
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 40_000_000
