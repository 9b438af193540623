"""Whole columns of times and single ones mean the same instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.task import times
from sluice.slices import Slice

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1), timezones=ZONES)
ODD = "20260101T000000Z"  # ISO 8601's basic format, which sends a column to the slow way


def written(moment: datetime, digits: int) -> str:
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f"{moment.microsecond:06d}000"[:digits]
    zone = moment.strftime("%z")
    return f"{text}{'.' + fraction if digits else ''}{zone[:3]}:{zone[3:]}"


@given(st.lists(MOMENTS, min_size=1), st.sampled_from([3, 6, 9]), st.booleans())
def test_iso8601_with_a_zone(moments: list[datetime], digits: int, slow: bool):
    texts = [written(moment, digits) for moment in moments] + [ODD] * slow
    found, refused = times.iso8601(texts)
    expected = [int(moment.timestamp() * 1_000_000 // 1000) for moment in moments]
    exact = [
        (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        for moment in moments
    ]
    assert found.tolist()[: len(moments)] == exact
    assert all(abs(a - b) <= 1 for a, b in zip(exact, expected, strict=True))
    assert refused == {}


@given(st.integers(times.FIRST_MS, times.LAST_MS), st.booleans())
def test_a_time_without_a_zone_is_utc(ms: int, slow: bool):
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=ms)
    found, refused = times.iso8601([moment.isoformat(timespec="milliseconds")] + [ODD] * slow)
    assert found[0] == ms
    assert refused == {}


def test_odd_ones_do_not_spoil_the_others():
    found, refused = times.iso8601(["2026-01-01T00:00:00Z", "soon", "2026-01-01T00:00:00", "2026-W01-4"])
    start = 1_767_225_600_000
    assert [found[i] for i in (0, 2, 3)] == [start, start, start]
    assert refused == {1: "time not understood"}


@pytest.mark.parametrize(
    "text",
    ["2026-01-01t00:00:00z", "2026-01-01T00:00:00z", "2026-01-01t00:00:00Z", "2026-01-01t00:00:00.000z",
     "2026-01-01t01:00:00+01:00", "2026-01-01 00:00z", "2026-01-01_00:00:00z", "20260101t000000z"],
)  # fmt: skip
def test_small_letters_are_those_of_rfc_3339(text: str):
    """Section 5.6: "T" and "Z" may alternatively be lower case."""
    for beside in ([], ["2026-01-01T00:00:00Z"], [ODD]):
        found, refused = times.iso8601([*beside, text])
        assert (found.tolist(), refused) == ([1_767_225_600_000] * (len(beside) + 1), {})


@pytest.mark.parametrize(
    "text",
    ["2026-01-01500:00", "2026-01-01x00:00", "2026-01-01Z00:00", "z", "", "Z", "2026-01-01z", "2026-01-01t"],
)
def test_what_only_looks_like_a_time_is_none(text: str):
    for beside in ([], ["2026-01-01T00:00:00Z"], [ODD]):
        _, refused = times.iso8601([*beside, text])
        assert refused == {len(beside): "time not understood"}


@given(st.integers(-(10**8), 10**8), st.integers(0, 999))
def test_seconds_with_a_fraction_lose_no_millisecond(seconds: int, ms: int):
    text = f"{seconds + 2 * 10**9}.{ms:03d}"
    found, _ = times.epoch_s([float(text)])
    assert found[0] == (seconds + 2 * 10**9) * 1000 + ms


def exactly(number: float, per_unit: int) -> int:
    """By Python's own fractions: to the nearest microsecond, and down to the millisecond."""
    ms = round(Fraction(number) * per_unit * 1000) // 1000
    return min(max(ms, times.FIRST_MS - 1), times.LAST_MS + 1)


@pytest.mark.parametrize(("form", "per_unit"), [("epoch_ms", 1), ("epoch_s", 1000)])
@given(data=st.data())
def test_numbers_of_all_years_are_exact(data: st.DataObject, form: str, per_unit: int):
    first, last = times.FIRST_MS // per_unit, times.LAST_MS // per_unit
    # Smaller fractions have more bits than their microseconds: half of one may be rounded either way.
    fractions = st.floats(first, last).filter(lambda number: abs(number) >= 1 << 14)
    whole = st.integers(first - 9, last + 9) | st.integers(last // 2, last)
    numbers = data.draw(st.lists(whole | fractions, min_size=1))
    column, refused = times.READERS[form](numbers)
    assert (column.tolist(), refused) == ([exactly(number, per_unit) for number in numbers], {})


def test_whole_milliseconds_of_late_years_stay_themselves():
    """An hour's first ones among them: a millisecond less would be the hour before."""
    hour = 73_000_000_000_000 // times.HOUR_MS * times.HOUR_MS
    numbers = [*range(73_000_000_000_000, 73_000_000_001_000), *range(hour - 2, hour + 3), times.LAST_MS]
    assert times.epoch_ms(numbers)[0].tolist() == numbers


@pytest.mark.parametrize("number", [1e300, -1e300, 1.7e308, -1.7e308, 10**400, -(10**400)])
@pytest.mark.parametrize("form", ["epoch_ms", "epoch_s"])
def test_numbers_of_no_year_are_outside(form: str, number: float):
    outside = times.LAST_MS + 1 if number > 0 else times.FIRST_MS - 1
    assert times.READERS[form]([number, 0])[0].tolist() == [outside, 0]


@pytest.mark.parametrize(
    ("hour", "name"), [(0, "1970-01-01T00"), (-1, "1969-12-31T23"), (491_010, "2026-01-05T18")]
)
def test_hour_names(hour: int, name: str):
    assert times.hour_name(hour) == name


def test_the_first_hours_of_all():
    assert times.hour_name(times.FIRST_MS // times.HOUR_MS) == "0001-01-01T00"
    assert times.hour_name(times.LAST_MS // times.HOUR_MS) == "9999-12-31T23"


def test_bounds_of_event_times():
    piece = Slice(pendulum.datetime(2026, 1, 1))
    earliest, latest = times.event_bounds([piece], timedelta(hours=1), timedelta(hours=2))
    assert (earliest[0], latest[0]) == (1_767_225_600_000 - 7_200_000, 1_767_225_600_000 + 7_200_000)
    earliest, latest = times.event_bounds([piece], None, None)
    assert (earliest[0], latest[0]) == (times.FIRST_MS, times.LAST_MS)
