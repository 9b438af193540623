"""Rows that are expected of each hour, against means that are computed here from the same weeks."""

from __future__ import annotations

from datetime import timedelta

import pendulum

from sluice.page.rows import expected_rows, with_history
from sluice.slices import HOUR, SliceRange
from sluice.state.months import SUMMARIES, StoredMonth, Summaries, UnitSummary

END = pendulum.datetime(2026, 11, 24)
WEEK = timedelta(days=7)


def summaries(rows: dict[pendulum.DateTime, list[UnitSummary]]) -> Summaries:
    months: dict[str, dict[str, dict[str, UnitSummary]]] = {}
    for at, units in rows.items():
        own = {f"dc{n}": unit for n, unit in enumerate(units)}
        months.setdefault(f"{at:%Y-%m}", {})[f"{at:%Y-%m-%dT%HZ}"] = own
    return Summaries(StoredMonth(name, "1", SUMMARIES.encode(month), name) for name, month in months.items())


def complete(rows: int) -> UnitSummary:
    return UnitSummary("complete", "s", "s", rows=rows)


def test_the_mean_of_four_weeks_and_of_all_clusters():
    at = END - HOUR
    noted = summaries({at - n * WEEK: [complete(100 * n), complete(10)] for n in range(1, 5)})
    found = expected_rows(SliceRange(at, END), noted)
    assert found == [(110 + 210 + 310 + 410) // 4]


def test_with_less_than_three_weeks_the_last_days():
    """Those of the last week: the one of three weeks ago is left out."""
    at = END - HOUR
    days = {at - timedelta(days=n): [complete(n)] for n in (1, 2, 6)}
    noted = summaries({**days, at - 3 * WEEK: [complete(10_000)]})
    assert expected_rows(SliceRange(at, END), noted) == [3]


def test_what_is_not_complete_says_nothing():
    at = END - HOUR
    partly = [complete(50), UnitSummary("landed", "s", rows=1)]
    noted = summaries({at - timedelta(days=1): partly, at - timedelta(days=2): [complete(8)]})
    assert expected_rows(SliceRange(at - HOUR, END), noted) == [None, 8]


def test_hours_whose_files_the_lake_has_forgotten_are_still_known():
    at = END - HOUR
    day = [UnitSummary("forgotten", "s", "s", rows=40), complete(2)]
    assert expected_rows(SliceRange(at, END), summaries({at - timedelta(days=1): day})) == [42]


def test_the_history_has_four_weeks():
    whole = with_history(SliceRange(END - HOUR, END))
    assert (whole.start, whole.end) == (END - HOUR - timedelta(days=28), END)
