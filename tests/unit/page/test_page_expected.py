"""Rows that are expected of each hour, against means that are computed here from the same weeks."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pendulum

from sluice.page.rows import usual_rows, with_history
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


def expected_rows(slices: SliceRange, noted: Summaries) -> list[float | None]:
    usual = usual_rows(slices, noted)
    found = [usual.get(int(piece.start.timestamp())) for piece in slices]
    return [None if one is None else one.count for one in found]


def days_before(at: pendulum.DateTime, *units: list[UnitSummary]) -> dict:
    return {at - timedelta(days=n): own for n, own in enumerate(units, 1)}


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
    noted = summaries(days_before(at, partly, [complete(8)], [complete(9)], [complete(10)]))
    assert expected_rows(SliceRange(at - HOUR, END), noted) == [None, 9]


def test_one_empty_day_is_no_history_yet():
    at = END - HOUR
    assert expected_rows(SliceRange(at, END), summaries(days_before(at, [complete(0)]))) == [None]
    three = summaries(days_before(at, [complete(0)], [complete(30)], [complete(60)]))
    assert expected_rows(SliceRange(at, END), three) == [30]


def test_hours_whose_files_the_lake_has_forgotten_are_still_known():
    at = END - HOUR
    day = [UnitSummary("forgotten", "s", "s", rows=40), complete(2)]
    assert expected_rows(SliceRange(at, END), summaries(days_before(at, day, day, day))) == [42]


def test_the_history_has_the_weeks_from_which_the_watch_learns():
    whole = with_history(SliceRange(END - HOUR, END))
    assert (whole.start, whole.end) == (END - HOUR - timedelta(days=42), END)


def test_what_is_worked_out_once_is_so_until_a_summary_changes():
    """The cache is asked with the same range, and with a month of another version."""
    at = END - HOUR
    cache = SimpleNamespace(usual=(None, {}))
    noted = summaries(days_before(at, *[[complete(10)]] * 3))
    first = usual_rows(SliceRange(at, END), noted, cache)
    assert usual_rows(SliceRange(at, END), noted, cache) is first
    changed = Summaries(StoredMonth(m.name, "2", m.data, m.place) for m in noted.months)
    assert usual_rows(SliceRange(at, END), changed, cache) is not first
