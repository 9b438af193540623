"""Instants that come without a zone, from a machine in another one, or in another script's digits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pendulum
import pytest

from sluice.errors import WrongUse
from sluice.slices import HOUR, Slice, SliceRange, from_seconds, parse_instant, utc

START = pendulum.datetime(2026, 11, 20, 10)


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as if on a machine in Tokyo."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    with pendulum.test_local_timezone(pendulum.timezone("Asia/Tokyo")):
        yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_the_machines_own_zone_does_not_matter():
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert utc(datetime(2026, 7, 1, 12)) == noon
    assert parse_instant("2026-07-01T12:00", noon) == noon
    assert parse_instant("2026-07-01", noon) == datetime(2026, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (1_795_168_800, "2026-11-20T10:00:00Z"),
        (4_102_444_800, "2100-01-01T00:00:00Z"),
    ],
)
def test_seconds_since_the_epoch(seconds, text):
    assert from_seconds(seconds).to_iso8601_string() == text


def test_an_id_in_other_digits_is_no_instant():
    with pytest.raises(WrongUse, match="is not an instant"):
        parse_instant("٢٠٢٦-11-20T10Z", START)


def test_a_range_is_of_hours_unless_it_says_so():
    hours = SliceRange(START, START.add(hours=2))
    assert [(one.id, one.length) for one in hours] == [("2026-11-20T10Z", HOUR), ("2026-11-20T11Z", HOUR)]
    assert len(hours) == 2
    assert len(SliceRange(START, START.add(hours=2), timedelta(minutes=15))) == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0001-01-01", "1970-01-01 to 2106-01-01"),
        ("0001-01-01T00Z", "1970-01-01 to 2106-01-01"),
        ("0001-01-01T00:00+05:00", "1970-01-01 to 2106-01-01"),  # of the year 0
        ("1026-01-01T10Z", "1970-01-01 to 2106-01-01"),
        ("1969-12-31T23:59Z", "1970-01-01 to 2106-01-01"),
        ("2106-01-01T00:01Z", "1970-01-01 to 2106-01-01"),
        ("9999-12-31T23:30Z", "1970-01-01 to 2106-01-01"),
        ("9999-12-31T23:30-05:00", "1970-01-01 to 2106-01-01"),
        ("2026-11-20T10:00+24:00", "is not an instant"),
        ("²h", "is not an instant"),
        ("2026-11-20\0", "is not an instant"),
        ("T10:00", "is not an instant"),
        ("1" * 10_000, "is not an instant"),
    ],
)
def test_what_no_range_can_begin_or_end_with(text: str, said: str):
    with pytest.raises(WrongUse, match=said) as refused:
        parse_instant(text, START)
    assert len(str(refused.value)) < 200 and "\n" not in str(refused.value) and "\0" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01", 0), ("1970-01-01T00Z", 0), ("2105-12-31T23:59Z", 4_291_747_140)],
)
def test_the_first_and_the_last_instant(text: str, seconds: int):
    """A DateTime of ClickHouse ends at 4,294,967,295 seconds."""
    assert parse_instant(text, START).timestamp() == seconds


def test_what_is_no_id_is_told_in_one_line():
    with pytest.raises(WrongUse) as refused:
        Slice.from_id("x" * 10_000)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("length", [HOUR, timedelta(minutes=15)])
def test_a_range_has_at_most_so_many_slices(length: timedelta):
    longest = SliceRange(START, START + 100_000 * length, length)
    assert longest.at_most() is longest
    with pytest.raises(WrongUse, match=r"\) has 100,001 slices, more than 100,000: ask for it in parts"):
        SliceRange(START - length, longest.end, length).at_most()
