"""An hour against the same hour a day and a week before, against what was expected, and how fast it was."""

from __future__ import annotations

from sluice.page.traffic import MOST_HOURS, landed_amounts, sizes_of
from sluice.slices import SliceRange
from sluice.state import months
from sluice.state.notes import Timing
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, complete, missing, unit

DAY, WEEK = 24, 168
HOURS = SliceRange(START.subtract(hours=WEEK), START.add(hours=3))


def landed(rows: dict[int, int]) -> dict:
    """Summaries as steps note them, of hours after START; `rows` of 10 bytes each."""
    lake = MemoryLake()
    months.note(lake, [complete(unit(hour), rows=count) for hour, count in rows.items()])
    months.note(lake, [missing(unit(2))])
    return landed_amounts(HOURS, months.read_summaries(lake, HOURS))


def batch(step: str, first: int, until: int, rows: int, seconds: float, **more: str) -> Timing:
    edges = START.add(hours=first).isoformat(), START.add(hours=until).isoformat()
    return Timing(step, *edges, START.isoformat(), seconds, until - first, rows, **more)


def test_records_of_the_day_and_the_week_before_and_what_is_expected():
    known = landed({0: 50, 1: 70, 1 - DAY: 60, 1 - 2 * DAY: 80, 1 - WEEK: 100})
    two, one, zero = sizes_of(SliceRange(START, START.add(hours=3)), known, [])
    assert (one.slice, one.records, one.bytes) == ("2026-11-20T11Z", 70, 700)
    # The mean of 60, 80 and 100: of three weekdays one is known, so the last seven days count.
    assert (one.yesterday, one.week_ago, one.expected, one.low, one.high) == (60, 100, 80, None, None)
    assert (zero.slice, zero.records, zero.yesterday, zero.expected) == ("2026-11-20T10Z", 50, None, None)
    assert (two.slice, two.records, two.bytes) == ("2026-11-20T12Z", None, None)


def test_rates_are_those_of_the_newest_batch_with_the_hour():
    timings = [
        batch("land", 1 - WEEK, 2 - WEEK, 90, 3.0, run="a"),
        batch("land", -DAY, 2 - DAY, 100, 10.0, run="b"),
        batch("land", 0, 2, 600, 10.0, run="c"),
        batch("load", 0, 2, 300, 2.0, run="c", table="e.a"),
        batch("load", 0, 2, 100, 2.0, run="c", table="e.b"),
        batch("land", 1, 2, 80, 2.0, run="d"),
        batch("verify", 1, 2, 9999, 1.0),
    ]
    one, zero = sizes_of(SliceRange(START, START.add(hours=2)), {}, timings)
    assert (one.land_rates, one.load_rates) == ((40.0, 10.0, 30.0), (100.0, None, None))
    assert (zero.land_rates, zero.load_rates) == ((60.0, 10.0, None), (100.0, None, None))


def test_as_many_as_a_page_shows():
    found = sizes_of(SliceRange(START.subtract(hours=90), START), {}, [])
    assert (len(found), found[0].slice) == (MOST_HOURS, "2026-11-20T09Z")


def test_a_rate_is_rounded_once_where_it_is_shown():
    [hour] = sizes_of(SliceRange(START, START.add(hours=1)), {}, [batch("land", 0, 1, 181_746, 100.0)])
    assert hour.land_rates[0] == 1817.46
