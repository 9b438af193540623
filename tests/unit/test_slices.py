from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import WrongUse
from sluice.slices import (
    HOUR,
    Slice,
    SliceRange,
    Unit,
    bounded,
    ceil,
    floor,
    from_ms,
    from_seconds,
    iso,
    last_late,
    ms_text,
    parse_instant,
    parse_iso8601,
    to_ms,
    utc,
    words_of,
)

# Every length that a pipeline file allows: multiples of 15 minutes that divide the day.
LENGTHS = [timedelta(minutes=m) for m in (15, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440)]
NOW = pendulum.datetime(2026, 11, 20, 10, 37)
lengths = st.sampled_from(LENGTHS)
instants = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


class TestIds:
    @pytest.mark.parametrize(
        ("start", "minutes", "slice_id"),
        [
            ("2026-11-20T10:00Z", 60, "2026-11-20T10Z"),
            ("2026-11-20T00:00Z", 1440, "2026-11-20T00Z"),
            ("2026-11-20T10:15Z", 15, "2026-11-20T1015Z"),
            ("2026-11-20T10:00Z", 15, "2026-11-20T1000Z"),
            ("2026-11-20T01:30Z", 90, "2026-11-20T0130Z"),
            ("2026-11-20T03:00Z", 90, "2026-11-20T0300Z"),
        ],
    )
    def test_both_ways(self, start: str, minutes: int, slice_id: str) -> None:
        one = Slice(utc(at(start)), timedelta(minutes=minutes))
        assert one.id == slice_id
        assert Slice.from_id(slice_id, timedelta(minutes=minutes)) == one

    @given(instants, lengths)
    def test_round_trip(self, instant: datetime, length: timedelta) -> None:
        one = Slice(floor(instant, length), length)
        assert Slice.from_id(one.id, length) == one

    @given(instants, lengths)
    def test_ids_sort_as_slices_do(self, instant: datetime, length: timedelta) -> None:
        one = Slice(floor(instant, length), length)
        assert one.id < Slice(one.end, length).id

    @pytest.mark.parametrize(
        ("text", "minutes"),
        [
            ("", 60),
            ("2026-11-20", 60),
            ("2026-11-20T10:00Z", 60),
            ("2026-11-20T10Z\n", 60),
            ("2026-13-45T10Z", 60),
            ("2026-02-30T10Z", 60),
            ("2026-11-20T24Z", 60),
            ("2026-11-20T1060Z", 15),
            ("0000-11-20T10Z", 60),
            ("٢٠٢٦-11-20T10Z", 60),
            ("2026-11-20T1015Z", 60),
            ("2026-11-20T10Z", 15),
            ("2026-11-20T1010Z", 15),
            ("2026-11-20T10Z", 1440),
            ("2026-11-20T0100Z", 90),
        ],
    )
    def test_texts_that_are_no_id_of_that_length(self, text: str, minutes: int) -> None:
        with pytest.raises(WrongUse, match="id"):
            Slice.from_id(text, timedelta(minutes=minutes))

    def test_end_and_unit(self) -> None:
        one = Slice.from_id("2026-11-20T23Z")
        assert one.end == datetime(2026, 11, 21, tzinfo=UTC)
        assert str(Unit(one, "dc1")) == "2026-11-20T23Z/dc1"


class TestInstants:
    def test_utc(self) -> None:
        noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
        assert utc(datetime(2026, 7, 1, 12)) == noon
        assert utc(datetime(2026, 7, 1, 14, tzinfo=ZoneInfo("Europe/Berlin"))) == noon
        assert utc(datetime(2026, 7, 1, 17, 45, tzinfo=timezone(timedelta(hours=5, minutes=45)))) == noon
        assert utc(noon).timezone_name == "UTC"

    @pytest.mark.parametrize(
        ("ms", "text"),
        [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_763_632_800_123, "2025-11-20T10:00:00.123Z"),
        ],
    )
    def test_milliseconds(self, ms: int, text: str) -> None:
        assert from_ms(ms) == at(text)
        assert to_ms(at(text)) == ms

    @given(st.integers(-62_000_000_000_000, 250_000_000_000_000))
    def test_milliseconds_round_trip(self, ms: int) -> None:
        assert to_ms(from_ms(ms)) == ms
        assert from_ms(ms) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)

    @pytest.mark.parametrize(
        ("instant", "minutes", "below", "above"),
        [
            ("2026-11-20T10:00:00Z", 60, "2026-11-20T10:00Z", "2026-11-20T10:00Z"),
            ("2026-11-20T10:00:00.000001Z", 60, "2026-11-20T10:00Z", "2026-11-20T11:00Z"),
            ("2026-11-20T10:59:59.999999Z", 60, "2026-11-20T10:00Z", "2026-11-20T11:00Z"),
            ("2026-11-20T10:44Z", 15, "2026-11-20T10:30Z", "2026-11-20T10:45Z"),
            ("2026-11-20T10:44Z", 90, "2026-11-20T10:30Z", "2026-11-20T12:00Z"),
            ("2026-12-31T23:30Z", 1440, "2026-12-31T00:00Z", "2027-01-01T00:00Z"),
            ("2026-11-20T10:30+05:30", 60, "2026-11-20T05:00Z", "2026-11-20T05:00Z"),
            ("1969-12-31T23:59Z", 60, "1969-12-31T23:00Z", "1970-01-01T00:00Z"),
        ],
    )
    def test_edges(self, instant: str, minutes: int, below: str, above: str) -> None:
        assert floor(at(instant), timedelta(minutes=minutes)) == at(below)
        assert ceil(at(instant), timedelta(minutes=minutes)) == at(above)

    @given(instants, lengths)
    def test_edges_enclose(self, instant: datetime, length: timedelta) -> None:
        below, above = floor(instant, length), ceil(instant, length)
        midnight = datetime(instant.year, instant.month, instant.day, tzinfo=UTC)
        assert below <= instant <= above
        assert above - below in (timedelta(0), length)
        assert (below - midnight).total_seconds() % length.total_seconds() == 0

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("2026-11-20T10:00Z", "2026-11-20T10:00Z"),
            ("2026-11-20T10:00", "2026-11-20T10:00Z"),
            ("2026-11-20 10:00:30", "2026-11-20T10:00:30Z"),
            ("2026-11-20T10:00+02:00", "2026-11-20T08:00Z"),
            ("2026-11-20", "2026-11-20T00:00Z"),
            ("2026-11", "2026-11-01T00:00Z"),
            ("2026", "2026-01-01T00:00Z"),
            ("2026-W47-5", "2026-11-20T00:00Z"),
            ("2026-324T10", "2026-11-20T10:00Z"),
            ("20261120T103000,5+0530", "2026-11-20T05:00:00.5Z"),
            ("2026-11-20 10:00:30.123456-01", "2026-11-20T11:00:30.123456Z"),
            ("2026-11-20T10Z", "2026-11-20T10:00Z"),
            ("2026-11-20T1015Z", "2026-11-20T10:15Z"),
            ("now", "2026-11-20T10:00Z"),
        ],
    )
    def test_command_line(self, text: str, expected: str) -> None:
        assert parse_instant(text, NOW) == at(expected)
        assert parse_instant(text, NOW).timezone_name == "UTC"

    @pytest.mark.parametrize(
        "text",
        [
            *("", "20", "-1h", "NOW", "yesterday", "10:00", "P1D", "1763632800", "2026-11-20/2026-11-21"),
            *("2026-13-01", "2026-02-30", "2026-11-20T25:00Z", "2026-11-20T10:00Z or so"),
            *("24:", "P1D/T21", "20261120/T1000Z", "T11/01:00", "PT1H/P1D", "P1D2026112000W"),
            *("2026:11:20", "202611:30", "٢٠٢٦1120", "2026-11-20T10:00 Z", "2026-11-20T10:00Z\n"),
        ],
    )
    def test_command_line_mistakes(self, text: str) -> None:
        with pytest.raises(WrongUse, match="is not an instant"):
            parse_instant(text, NOW)

    def test_what_is_no_instant_is_quoted(self) -> None:
        for text in ("24:", "P1D", "2026-11-20/2026-11-21", "x" * 61):
            with pytest.raises(ValueError, match=rf"^'{text[:60]}'…? is no instant$"):
                parse_iso8601(text)

    def test_now_is_the_end_of_the_last_complete_slice(self) -> None:
        assert parse_instant("now", NOW, timedelta(minutes=15)) == at("2026-11-20T10:30Z")
        assert parse_instant("now", at("2026-11-20T10:00Z")) == at("2026-11-20T10:00Z")


BEYOND = "expected an instant from 1970-01-01 to 2106-01-01"


@pytest.mark.parametrize("text", ["1970-01-01", "1970-01-01T00Z", "2106-01-01", "2105-12-31T23Z"])
def test_the_first_and_the_last_instant(text: str) -> None:
    assert str(parse_instant(text, NOW))[:4] in ("1970", "2106", "2105")


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01", "0001-01-01T00Z", "0001-01-01T00:00+14:00", "1969-12-31T23:59:59Z", "1969-12-31T23Z",
        "2106-01-01T00:00:01Z", "2106-01-01T01Z", "9999-12-31", "9999-12-31T23:59:59-14:00", "9999-12-31T23Z",
    ],
)  # fmt: skip
def test_instants_that_no_slice_can_be_of(text: str) -> None:
    with pytest.raises(WrongUse, match=BEYOND):
        parse_instant(text, NOW)


@pytest.mark.parametrize("text", ["0001-01-01T00Z", "1969-12-31T23Z", "2106-01-01T00Z", "9999-12-31T23Z"])
def test_ids_that_no_slice_can_have(text: str) -> None:
    with pytest.raises(WrongUse, match=BEYOND):
        Slice.from_id(text)


@pytest.mark.parametrize(("start", "end"), [("0001-01-01", "1970-01-02"), ("2105-01-01", "9999-12-31")])
def test_ranges_that_hold_no_slices(start: str, end: str) -> None:
    with pytest.raises(WrongUse, match=BEYOND):
        SliceRange.widen(at(start + "T00:00Z"), at(end + "T00:00Z"))


class TestRanges:
    def test_widened_to_whole_slices(self) -> None:
        wide = SliceRange.widen(at("2026-11-20T10:37Z"), at("2026-11-20T12:01Z"))
        assert [one.id for one in wide] == ["2026-11-20T10Z", "2026-11-20T11Z", "2026-11-20T12Z"]
        assert str(wide) == "[2026-11-20T10:00Z, 2026-11-20T13:00Z)"
        assert len(wide) == 3

    def test_exact_ends_stay(self) -> None:
        exact = SliceRange.widen(at("2026-11-20T10:00Z"), at("2026-11-20T11:00Z"))
        assert [one.id for one in exact] == ["2026-11-20T10Z"]

    def test_summer_time_does_not_matter(self) -> None:
        berlin = ZoneInfo("Europe/Berlin")
        day = SliceRange.widen(datetime(2026, 10, 25, tzinfo=berlin), datetime(2026, 10, 26, tzinfo=berlin))
        assert len(day) == 25
        assert next(iter(day)).id == "2026-10-24T22Z"

    def test_a_year(self) -> None:
        year = SliceRange.widen(at("2026-01-01T00:00Z"), at("2027-01-01T00:00Z"))
        assert len(year) == 8760

    @pytest.mark.parametrize("end", ["2026-11-20T10:37Z", "2026-11-20T10:36Z", "2025-01-01T00:00Z"])
    def test_empty_and_backward(self, end: str) -> None:
        with pytest.raises(WrongUse, match="the range is empty"):
            SliceRange.widen(at("2026-11-20T10:37Z"), at(end))

    @given(instants, st.timedeltas(timedelta(microseconds=1), timedelta(days=3)), lengths)
    def test_slices_tile_the_range(self, start: datetime, extent: timedelta, length: timedelta) -> None:
        wide = SliceRange.widen(start, start + extent, length)
        slices = list(wide)
        assert len(slices) == len(wide) > 0
        assert slices[0].start == wide.start <= start < slices[0].end
        assert slices[-1].start < start + extent <= slices[-1].end == wide.end
        assert all(a.end == b.start for a, b in pairwise(slices))
        assert all(one.length == length for one in slices)


def test_hour_is_the_default() -> None:
    assert Slice(pendulum.datetime(2026, 1, 1)).length == HOUR == timedelta(hours=1)


@pytest.mark.parametrize(
    ("ms", "instant", "text"),
    [
        (1_795_132_800_000_000, "9999-12-31T23:59:59.999+00:00", "1795132800000000 ms since the epoch"),
        ((1 << 63) - 1, "9999-12-31T23:59:59.999+00:00", "9223372036854775807 ms since the epoch"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999+00:00", "9999-12-31 23:59:59.999000+00:00"),
        (-1, "1969-12-31T23:59:59.999+00:00", "1969-12-31 23:59:59.999000+00:00"),
        (-62_135_596_800_000, "0001-01-01T00:00:00+00:00", "0001-01-01 00:00:00+00:00"),
        (-62_135_596_800_001, "0001-01-01T00:00:00+00:00", "-62135596800001 ms since the epoch"),
        (-(1 << 63), "0001-01-01T00:00:00+00:00", "-9223372036854775808 ms since the epoch"),
    ],
)
def test_a_stamp_may_be_any_number(ms: int, instant: str, text: str) -> None:
    assert from_ms(ms) == at(instant)
    assert ms_text(ms) == text


# ---- Instants that come without a zone, from a machine in another one, or in another script's digits.

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


# ---- What is shown and said of them.

QUARTER = timedelta(minutes=15)


@pytest.mark.parametrize(
    ("slice_id", "length", "start", "end"),
    [
        ("2026-11-20T23Z", HOUR, "2026-11-20T23:00Z", "2026-11-21T00:00Z"),
        ("2026-11-20T1045Z", QUARTER, "2026-11-20T10:45Z", "2026-11-20T11:00Z"),
        ("2026-11-20T00Z", timedelta(days=1), "2026-11-20T00:00Z", "2026-11-21T00:00Z"),
    ],
)
def test_a_slice_as_a_command_takes_it(slice_id: str, length: timedelta, start: str, end: str):
    assert Slice.from_id(slice_id, length).words == ("--from", start, "--to", end)


def test_a_slice_of_unknown_length_as_a_command_takes_it():
    """Commands widen a range to whole slices: it has to hold a part of this one, and of no other."""
    assert words_of("2026-11-20T23Z") == ("--from", "2026-11-20T23:00Z", "--to", "2026-11-21T00:00Z")
    assert words_of("2026-11-20T1045Z") == ("--from", "2026-11-20T10:45Z", "--to", "2026-11-20T10:46Z")
    with pytest.raises(WrongUse, match=r"^'2026-11-20' is not a slice id such as 2026-11-20T10Z$"):
        words_of("2026-11-20")


def test_the_slice_of_a_folder():
    assert Slice.of_folder("2026-11-20T10Z", HOUR) == Slice(START)
    assert Slice.of_folder("2026-11-20T1045Z", QUARTER) == Slice(START.add(minutes=45), QUARTER)
    assert Slice.of_folder("_temporary", HOUR) is None
    with pytest.raises(WrongUse, match="'2026-11-20T1045Z' is not the id of a slice of 1:00:00"):
        Slice.of_folder("2026-11-20T1045Z", HOUR)


def test_the_first_hour_has_an_id():
    assert Slice.from_id("1970-01-01T00Z").start == datetime(1970, 1, 1, tzinfo=UTC)


def test_an_instant_to_the_second():
    assert iso(None) == ""
    assert (
        iso(datetime(2026, 11, 20, 11, 0, 1, 999, ZoneInfo("Europe/Berlin"))) == "2026-11-20T10:00:01+00:00"
    )


def test_what_no_slice_can_be_of_is_quoted_as_it_was_given():
    bounds = "expected an instant from 1970-01-01 to 2106-01-01, which Kafka and a table's `_slice` can hold"
    with pytest.raises(WrongUse) as refused:
        parse_instant("1969", NOW)
    assert str(refused.value) == f"'1969': {bounds}"
    with pytest.raises(WrongUse) as refused:
        bounded(datetime(1969, 12, 31, tzinfo=UTC))
    assert str(refused.value) == f"'1969-12-31 00:00:00+00:00': {bounds}"


@pytest.mark.parametrize(("length", "shown"), [(60, "'" + "x" * 60 + "'"), (61, "'" + "x" * 60 + "'…")])
def test_a_long_text_is_cut(length: int, shown: str):
    with pytest.raises(WrongUse) as refused:
        Slice.from_id("x" * length)
    assert str(refused.value) == f"{shown} is not a slice id such as 2026-11-20T10Z"


@pytest.mark.parametrize(
    ("grace", "hour"),
    [(0, "2026-11-20T09"), (30, "2026-11-20T08"), (60, "2026-11-20T08"), (61, "2026-11-20T07")],
)
def test_the_last_hour_that_did_not_wait(grace: int, hour: str):
    """An hour waits for the slices that begin before its end and the grace: this one begins at 10."""
    assert last_late(Slice(START), timedelta(minutes=grace)) == hour
