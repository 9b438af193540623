"""Every nasty record gets its reason, and every good one its type and time, alone and in company."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.event import Event
from sluice.flow.land.task import times
from sluice.flow.land.task.parse import Parser
from sluice.flow.land.task.records import REASON, TIME, TYPE
from sluice.flow.land.task.times import TimeBounds
from sluice.slices import Slice
from sluice.time_grammar import Spelled
from tests.support.landing_world import record_table

START = 1_767_225_600_000  # 2026-01-01T00:00Z
HOUR = 3_600_000
GOOD = b'{"type":"click","at":"2026-01-01T00:30:00Z"}'

ISO = {"type": {"field": "type"}, "time": {"field": "at", "format": "iso8601"}}
NESTED = {"type": {"field": "meta.kind.name"}, "time": {"field": "meta.at", "format": "epoch_s"}}
MS = {"type": {"field": "type"}, "time": {"field": "at", "format": "epoch_ms"}}
LINES = "several lines of JSON, and `event` does not say `rows: lines`"
HEADER = {"type": {"header": "table"}, "time": {"record": True}}
TOPIC = {"type": {"topic": True}, "time": {"record": True}}


SLICE = Slice(pendulum.from_timestamp(START // 1000))
NEAR = timedelta(hours=1)


def parse(event: dict, values: list[bytes | None], headers: list | None = None):
    """The verdict on each value: its (type, ms since START), or its reason. Its time may be an hour off."""
    records = record_table(values, headers, [START + 5] * len(values))
    parser = Parser(Event.model_validate(event), bounds=TimeBounds([SLICE], NEAR, NEAR))
    bounded, unread = parser.split(records)
    found: list = [None] * len(values)
    if unread is not None:
        for offset, reason in zip(*(unread[name].to_pylist() for name in ("_offset", REASON)), strict=True):
            assert found[offset] is None
            found[offset] = reason
    columns = (bounded[name].to_pylist() for name in ("_offset", TYPE, TIME))
    for offset, code, ms in zip(*columns, strict=True):
        assert found[offset] is None, "both parsed and refused"
        found[offset] = (parser.types.names[code], ms - START)
    return found


BAD = [
    (None, "no value"),
    (b"", "not JSON"),
    (b"   ", "not JSON"),
    (b"hello", "not JSON"),
    (b'{"type":"click","at":"2026-01-01T00:30:00Z"', "not JSON"),
    (b'{"type":"click","at":"2026-01-01T00:30:00Z"}}', "not JSON"),
    (GOOD + b"\n" + GOOD, LINES),
    (
        b"\n" + GOOD + b"\r\n\n" + GOOD + b"\nx",
        LINES,
    ),
    (b'{"a":"\\ud800"}\n{"a":1}', LINES),
    (GOOD + b"\n[1]", "not JSON"),
    (GOOD + b" " + GOOD, "not JSON"),
    (b'{\n"a": 1,\n}', "not JSON"),
    (b'{"type":"click","at":"2026-01-01T00:30:00Z","x":[1,]}', "not JSON"),
    (b'{"type":"click","at":"2026-01-01T00:30:00Z","x":nan}', "not JSON"),
    (b"\xef\xbb\xbf" + GOOD, "not JSON"),
    (b"\xff\xfe", "not UTF-8"),
    (b'{"type":"click","at":"2026-01-01T00:30:00Z","skipped":"\xc3\x28"}', "not UTF-8"),
    (b'{"type":"click","at":"2026-01-01T00:30:00Z","skipped":"\xed\xa0\x80"}', "not UTF-8"),
    (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
    (
        b'{"type":"click","at":"2026-01-01T00:30:00Z","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "nested too deep",
    ),
    (b"[]", "not an object"),
    (b'[{"type":"click","at":"2026-01-01T00:30:00Z"}]', "not an object"),
    (b"12", "not an object"),
    (b"null", "not an object"),
    (b'"text"', "not an object"),
    (b"{}", "no type"),
    (b'{"at":"2026-01-01T00:30:00Z"}', "no type"),
    (b'{"type":null,"at":"2026-01-01T00:30:00Z"}', "no type"),
    (b'{"type":"","at":"2026-01-01T00:30:00Z"}', "no type"),
    (b'{"Type":"click","at":"2026-01-01T00:30:00Z"}', "no type"),
    (b'{"type":7.5,"at":"2026-01-01T00:30:00Z"}', "type is neither text nor a whole number"),
    (b'{"type":7.0,"at":"2026-01-01T00:30:00Z"}', "type is neither text nor a whole number"),
    (b'{"type":true,"at":"2026-01-01T00:30:00Z"}', "type is neither text nor a whole number"),
    (b'{"type":{"a":1},"at":"2026-01-01T00:30:00Z"}', "type is neither text nor a whole number"),
    (b'{"type":"\\ud800","at":"2026-01-01T00:30:00Z"}', "half a surrogate pair"),
    (b'{"type":"a","at":"2026-01-01T00:00:00Z","skipped":"\\ud800"}', "half a surrogate pair"),
    (b'{"type":"a","at":"2026-01-01T00:00:00Z","skipped":"\\ud800",}', "not JSON"),
    (b'{"type":"a","type":"b","at":"2026-01-01T00:00:00Z"}', "a field is there twice"),
    (b'{"type":"a","type":"a","at":"2026-01-01T00:00:00Z"}', "a field is there twice"),
    (b'{"type":null,"\\u0074yp\\u0065":"b","at":"2026-01-01T00:00:00Z"}', "a field is there twice"),
    (b'{"at":"2026-01-01T00:00:00Z","type":"a","x":1,"at":"2026-01-01T01:00:00Z"}', "a field is there twice"),
    (b'{"type":"a","type":7.5,"at":"2026-01-01T00:00:00Z"}', "type is neither text nor a whole number"),
    (b'{"type":"a","type":7,"at":"2026-01-01T00:00:00Z"}', "a field is there twice"),
    (b'{"type":' + b"1" * 201 + b',"at":"2026-01-01T00:30:00Z"}', "type too long"),
    (b'{"type":"' + b"x" * 201 + b'","at":"2026-01-01T00:30:00Z"}', "type too long"),
    (b'{"type":"' + b"/" * 67 + b'","at":"2026-01-01T00:30:00Z"}', "type too long"),
    (b'{"type":"click"}', "no time"),
    (b'{"type":"click","at":null}', "no time"),
    (b'{"type":"click","at":1767225600}', "time not understood"),
    (b'{"type":"click","at":"yesterday"}', "time not understood"),
    (b'{"type":"click","at":""}', "time not understood"),
    (b'{"type":"click","at":"2026-02-30T00:00:00Z"}', "time not understood"),
    (b'{"type":"click","at":"2026-01-01T24:30:00Z"}', "time not understood"),
    (b'{"type":"click","at":"9999-12-31T23:59:59Z"}', "time out of range"),
    (b'{"type":"click","at":"0001-01-01T00:00:00Z"}', "time out of range"),
    (b'{"type":"click","at":"0001-01-01T00:00:00+14:00"}', "time out of range"),
    (b'{"type":"click","at":"9999-12-31T23:59:59-14:00"}', "time out of range"),
    (b'{"type":"click","at":"2026-01-01T02:00:00.001Z"}', "time out of range"),
    (b'{"type":"click","at":"2025-12-31T22:59:59.999Z"}', "time out of range"),
]

FINE = [
    (GOOD, ("click", 30 * 60_000)),
    (b' \n{"at":"2026-01-01T00:30:00Z" , "type":"click"}\t', ("click", 30 * 60_000)),
    (b'{"type":7,"at":"2026-01-01T00:30:00Z"}', ("7", 30 * 60_000)),
    (b'{"type":-12,"at":"2026-01-01T00:30:00Z"}', ("-12", 30 * 60_000)),
    (b'{"type":36893488147419103232,"at":"2026-01-01T00:30:00Z"}', ("36893488147419103232", 30 * 60_000)),
    (b'{"type":"../../x","at":"2026-01-01T00:00:00Z"}', ("../../x", 0)),
    (b'{"type":"a\\u0000b","at":"2026-01-01T00:00:00Z"}', ("a\0b", 0)),
    ('{"type":"größe","at":"2026-01-01T00:00:00Z"}'.encode(), ("größe", 0)),
    (b'{"type":"' + b"x" * 200 + b'","at":"2026-01-01T00:00:00Z"}', ("x" * 200, 0)),
    (b'{"type":"a","at":"2026-01-01T00:00:00Z","x":{"type":"b","type":"c"},"y":1,"y":2}', ("a", 0)),
    (b'{"type":"a","at":"2026-01-01T00:00:00Z","x":"\\"type\\": \\u0074ype","y":["type","at"]}', ("a", 0)),
    (b'{"type":"a","at":"2026-01-01T00:00:00Z","x":1e999}', ("a", 0)),
    (b'{"type":"a","at":"2026-01-01T00:00:00Z","x":"\\ud83d\\ude00"}', ("a", 0)),
    (b'{"type":"a","at":"2026-01-01T02:00:00Z"}', ("a", 2 * HOUR)),
    (b'{"type":"a","at":"2025-12-31T23:00:00Z"}', ("a", -HOUR)),
    (b'{"type":"a","at":"2026-01-01T05:30:00+05:30"}', ("a", 0)),
    (b'{"type":"a","at":"2025-12-31T19:00:00.250-05:00"}', ("a", 250)),
    (b'{"type":"a","at":"2026-01-01T00:00:00.123456Z"}', ("a", 123)),
    (b'{"type":"a","at":"2026-01-01T00:00:00.123456789Z"}', ("a", 123)),
    (b'{"type":"a","at":"2026-01-01T00:00:01"}', ("a", 1000)),
    (b'{"type":"a","at":"2026-01-01 00:01"}', ("a", 60_000)),
    (b'{"type":"a","at":"2026-01-01"}', ("a", 0)),
]


@pytest.mark.parametrize(("value", "verdict"), BAD + FINE)
def test_alone(value: bytes | None, verdict: object):
    assert parse(ISO, [value]) == [verdict]


@given(st.lists(st.integers(0, len(BAD + FINE) - 1), min_size=1))
def test_in_any_company_the_verdict_is_the_same(numbers: list[int]):
    cases = [(BAD + FINE)[number] for number in numbers]
    assert parse(ISO, [value for value, _ in cases]) == [verdict for _, verdict in cases]


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (b'{"meta":{"kind":{"name":"a"},"at":1767225600}}', ("a", 0)),
        (b'{"meta":{"at":1767225600.25,"kind":{"name":"a"}}}', ("a", 250)),
        (b'{"meta":{"at":1767225600.123,"kind":{"name":"a"}}}', ("a", 123)),
        (b'{"meta":{"at":1.7672256e9,"kind":{"name":"a"}}}', ("a", 0)),
        (b'{"meta.kind.name":"a","meta.at":1767225600}', ("a", 0)),
        (b'{"meta.kind":"a","meta.at":1767225600}', "no type"),
        (b'{"meta":{"kind":"a","at":1767225600}}', "no type"),
        (b'{"meta":[],"at":1767225600}', "no type"),
        (b'{"meta":{"kind":{"name":"a"},"at":"1767225600"}}', ("a", 0)),
        (b'{"meta":{"kind":{"name":"a"},"at":"1767225600.5"}}', ("a", 500)),
        (b'{"meta":{"kind":{"name":"a"},"at":"1.7e9"}}', "time not understood"),
        (b'{"meta":{"kind":{"name":"a"},"at":true}}', "time not understood"),
        (b'{"meta":{"kind":{"name":"a"},"at":1e999}}', "time not understood"),
        (b'{"meta":{"kind":{"name":"a"},"at":1e300}}', "time out of range"),
        (b'{"meta":{"kind":{"name":"a"},"at":-1e300}}', "time out of range"),
        (b'{"meta":{"kind":{"name":"a"},"at":' + b"9" * 400 + b"}}", "time out of range"),
        (b'{"meta":{"kind":{"name":"a"},"at":1767225600000}}', "time out of range"),
        (b'{"meta":{"kind":{"name":"a"}}}', "no time"),
    ],
)
def test_nested_fields_and_seconds(value: bytes, verdict: object):
    assert parse(NESTED, [value]) == [verdict]
    assert parse(NESTED, [b"", value])[1] == verdict


def test_milliseconds():
    values = [
        b'{"type":"a","at":1767225600007}',
        b'{"type":"a","at":1767225600007.9}',
        b'{"type":"a","at":1767225600}',
    ]
    assert parse(MS, values) == [("a", 7), ("a", 7), "time out of range"]


def test_type_of_a_header_is_the_last_one_of_that_name():
    headers = [
        [{"key": "table", "value": b"a"}, {"key": "x", "value": b"y"}, {"key": "table", "value": b"b"}],
        [{"key": "x", "value": b"y"}],
        None,
        [{"key": "table", "value": None}],
        [{"key": "table", "value": b"\xff"}],
        [{"key": "table", "value": b""}],
        [{"key": "table", "value": b"a"}],
    ]
    values = [b"{}"] * 6 + [b"[]"]
    found = parse(HEADER, values, headers)
    assert found == [
        ("b", 5),
        "no type",
        "no type",
        "no type",
        "type is neither text nor a whole number",
        "no type",
        "not an object",
    ]


def test_type_of_the_topic_and_time_of_the_record_still_need_an_object():
    assert parse(TOPIC, [b"{}", b'{"a":[1]}', b"7", b"{", None]) == [
        ("orders", 5),
        ("orders", 5),
        "not an object",
        "not JSON",
        "no value",
    ]


def test_one_path_may_begin_like_the_other():
    event = {"type": {"field": "a"}, "time": {"field": "a.b"}}
    values = [b'{"a":"x","a.b":"2026-01-01T00:00:00Z"}', b'{"a":{"b":"2026-01-01T00:00:00Z"}}']
    assert parse(event, values) == [("x", 0), "type is neither text nor a whole number"]


def test_one_field_may_be_both():
    event = {"type": {"field": "at"}, "time": {"field": "at"}}
    assert parse(event, [b'{"at":"2026-01-01T00:00:00Z"}']) == [("2026-01-01T00:00:00Z", 0)]
    counted = {"type": {"field": "at"}, "time": {"field": "at", "format": "epoch_s"}}
    assert parse(counted, [b'{"at":1767225600}']) == [("1767225600", 0)]


def test_codes_stay_the_same_over_batches():
    parser = Parser(Event.model_validate(ISO))
    for names in (["b", "a"], ["c", "b"], ["a"]):
        values = [b'{"type":"%s","at":"2026-01-01T00:00:00Z"}' % name.encode() for name in names]
        parsed, _ = parser.split(record_table(values))
        assert [parser.types.names[code] for code in parsed[TYPE].to_pylist()] == names


# ---- Whole columns of times and single ones mean the same instant.

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
    found, refused = times.read_times(texts, Spelled("iso8601"))
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
    found, refused = times.read_times(
        [moment.isoformat(timespec="milliseconds")] + [ODD] * slow, Spelled("iso8601")
    )
    assert found[0] == ms
    assert refused == {}


def test_odd_ones_do_not_spoil_the_others():
    found, refused = times.read_times(
        ["2026-01-01T00:00:00Z", "soon", "2026-01-01T00:00:00", "20260101T0000"], Spelled("iso8601")
    )
    start = 1_767_225_600_000
    assert [found[i] for i in (0, 2, 3)] == [start, start, start]
    assert refused == {1: "time not understood"}


@pytest.mark.parametrize(
    "text",
    ["2026-01-01t00:00:00z", "2026-01-01T00:00:00z", "2026-01-01t00:00:00Z", "2026-01-01t00:00:00.000z",
     "2026-01-01t01:00:00+01:00", "2026-01-01 00:00z", "20260101t000000z"],
)  # fmt: skip
def test_small_letters_are_those_of_rfc_3339(text: str):
    """Section 5.6: "T" and "Z" may alternatively be lower case."""
    for beside in ([], ["2026-01-01T00:00:00Z"], [ODD]):
        found, refused = times.read_times([*beside, text], Spelled("iso8601"))
        assert (found.tolist(), refused) == ([1_767_225_600_000] * (len(beside) + 1), {})


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01_00:00:00z",
        "2026-W01-4",
        "2026-01-01500:00",
        "2026-01-01x00:00",
        "2026-01-01Z00:00",
        "z",
        "",
        "Z",
        "2026-01-01z",
        "2026-01-01t",
    ],
)
def test_what_only_looks_like_a_time_is_none(text: str):
    for beside in ([], ["2026-01-01T00:00:00Z"], [ODD]):
        _, refused = times.read_times([*beside, text], Spelled("iso8601"))
        assert refused == {len(beside): "time not understood"}


@given(st.integers(-(10**8), 10**8), st.integers(0, 999))
def test_seconds_with_a_fraction_lose_no_millisecond(seconds: int, ms: int):
    text = f"{seconds + 2 * 10**9}.{ms:03d}"
    found, _ = times.read_times([float(text)], Spelled("epoch_s"))
    assert found[0] == (seconds + 2 * 10**9) * 1000 + ms


def exactly(number: float, per_unit: int) -> int:
    """By Python's own fractions: the last millisecond whose own double is not above the number."""
    ms = math.floor(Fraction(number) * per_unit)
    ms += (ms + 1) / per_unit <= number
    return min(max(ms, times.FIRST_MS - 1), times.LAST_MS + 1)


@pytest.mark.parametrize(("form", "per_unit"), [("epoch_ms", 1), ("epoch_s", 1000)])
@given(data=st.data())
def test_numbers_of_all_years_are_exact(data: st.DataObject, form: str, per_unit: int):
    first, last = times.FIRST_MS // per_unit, times.LAST_MS // per_unit
    fractions = st.floats(first, last)
    whole = st.integers(first - 9, last + 9) | st.integers(last // 2, last)
    numbers = data.draw(st.lists(whole | fractions, min_size=1))
    column, refused = times.read_times(numbers, Spelled(form))
    assert (column.tolist(), refused) == ([exactly(number, per_unit) for number in numbers], {})


def test_whole_milliseconds_of_late_years_stay_themselves():
    """An hour's first ones among them: a millisecond less would be the hour before."""
    hour = 73_000_000_000_000 // times.HOUR_MS * times.HOUR_MS
    numbers = [*range(73_000_000_000_000, 73_000_000_001_000), *range(hour - 2, hour + 3), times.LAST_MS]
    assert times.read_times(numbers, Spelled("epoch_ms"))[0].tolist() == numbers


@pytest.mark.parametrize("number", [1e300, -1e300, 1.7e308, -1.7e308, 10**400, -(10**400)])
@pytest.mark.parametrize("form", ["epoch_ms", "epoch_s"])
def test_numbers_of_no_year_are_outside(form: str, number: float):
    outside = times.LAST_MS + 1 if number > 0 else times.FIRST_MS - 1
    assert times.read_times([number, 0], Spelled(form))[0].tolist() == [outside, 0]


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
