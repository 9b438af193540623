"""What a payload says, read twice: by Python's own json and datetime, and by the landing's parser."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest

from sluice.config.event import Event
from sluice.field_path import Number, UnreadablePayload, field, read_event
from sluice.flow.contents.recompute import hour_name, hour_named, hours_of, moments
from sluice.flow.land.task.parse import Parser
from sluice.flow.land.task.records import TIME, TYPE
from sluice.runtime import deeper
from tests.support.landing_world import record_table

HOUR_MS = 3_600_000


def hours(value: object, form: str) -> tuple[int, ...]:
    return hours_of(moments(value, form))


def landed(payloads: list[bytes], form: str) -> dict[int, tuple[str, int]]:
    """(type, event time in ms) by position, as the landing says; the refused are left out."""
    event = Event.model_validate({"type": {"field": "k.type"}, "time": {"field": "at", "format": form}})
    parser = Parser(event)
    parsed, _ = parser.split(record_table(payloads))
    names = [parser.types.names[code] for code in parsed[TYPE].to_pylist()]
    verdicts = zip(names, parsed[TIME].to_pylist(), strict=True)
    return dict(zip(parsed["_offset"].to_pylist(), verdicts, strict=True))


def text_time(chance: random.Random) -> str:
    year = chance.choice((1, 1969, 1970, 2026, 2200, 9999))
    day = f"{year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    clock = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}"
    if chance.random() < 0.7:
        fraction = f".{chance.randint(0, 10**9 - 1):09}"
        clock += f":{chance.randint(0, 59):02}" + fraction[: chance.choice((0, 2, 4, 7, 10))]
    zone = chance.choice(("", "Z", "+00:00", "-05:30", "+14:00", "+0230", "-07"))
    return chance.choice((day, f"{day}{chance.choice('T ')}{clock}{zone}", f"{day}T{clock}{zone}"))


def number_time(chance: random.Random, per_hour: int) -> str:
    whole = chance.randint(-(10**6), 10**6) * per_hour + chance.choice((-1, 0, 1, per_hour // 2))
    return chance.choice(
        (str(whole), f"{whole}.{chance.randint(0, 999999):06}", f"{whole}e0", f"{whole * 10}e-1")
    )


@pytest.mark.parametrize("form", ["iso8601", "epoch_s", "epoch_ms"])
def test_both_readers_say_the_same_of_random_events(form: str):
    chance = random.Random(20_261_123)
    payloads = []
    for _ in range(3000):
        if form == "iso8601":
            at = json.dumps(text_time(chance))
        else:
            at = number_time(chance, 3600 if form == "epoch_s" else HOUR_MS)
        kind = json.dumps(chance.choice(("click", 'ü "x"', "a\nb", "5")))
        payloads.append(f'{{"k": {{"type": {kind}}}, "x": [1, {{"at": 0}}], "at": {at}}}'.encode())
    found = landed(payloads, form)
    assert len(found) > 2500
    for position, (name, ms) in found.items():
        event = read_event(payloads[position])
        assert field(event, ("k", "type")) == name
        first, *last = moments(field(event, ("at",)), form)
        assert ms // HOUR_MS in hours(field(event, ("at",)), form), payloads[position]
        assert first <= ms <= (last or [first])[0], payloads[position]
        assert (form == "iso8601") is (not last)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-11-20T10:59:59.999999999Z", "2026-11-20T10"),
        ("2026-11-20T10:00:00+05:30", "2026-11-20T04"),
        ("2026-11-20", "2026-11-20T00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00"),
        ("1969-12-31T23:30:00Z", "1969-12-31T23"),
        ("2026-11-20t10:00:00z", "2026-11-20T10"),
    ],
)
def test_times_as_text(text: str, hour: str):
    assert [hour_name(found) for found in hours(text, "iso8601")] == [hour]
    assert hour_name(hour_named(hour)) == hour


def test_numbers_beside_an_hours_edge_may_be_of_either():
    edge = hour_named("2026-11-20T10")
    assert hours(Number(edge * 3600), "epoch_s") == (edge - 1, edge)
    assert hours(Number(Decimal(edge * 3600) - Decimal("0.0000001")), "epoch_s") == (edge - 1, edge)
    assert hours(Number(edge * 3600 + 1), "epoch_s") == (edge,)
    assert hours(Number(edge * HOUR_MS + 1), "epoch_ms") == (edge,)


@pytest.mark.parametrize("value", ["1.7e9", "yesterday", "", None, True, {}, []])
def test_what_is_no_time(value: object):
    assert hours(value, "epoch_s") == ()
    assert hours(value, "iso8601") == ()
    assert hours(Number("1e999999999"), "epoch_s") == ()


def test_numbers_of_more_than_forty_digits_are_no_time():
    assert hours(Number("3600e37"), "epoch_s") == (10**37,)
    assert hours(Number("3600e38"), "epoch_s") == ()


def test_a_number_is_no_text():
    assert hours("20261120", "iso8601") == (hour_named("2026-11-20T00"),)
    assert hours(Number("20261120"), "iso8601") == ()


@pytest.mark.parametrize(
    ("ms", "hour"), [(0, 0), (HOUR_MS - 1, 0), (500_000 * HOUR_MS, 500_000), (-1, -1), (-HOUR_MS, -1)]
)
def test_the_hour_of_a_records_own_time(ms: int, hour: int):
    assert hours_of([ms]) == (hour,)


def test_the_hour_of_a_folder():
    found = hour_named("1970-01-02T03")
    assert (found, type(found)) == (27, int)
    with pytest.raises(ValueError, match="'1970-01-02T3' is no hour"):
        hour_named("1970-01-02T3")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "Expecting value"),
        (b"[1]", "it is no object"),
        (b'"x"', "it is no object"),
        (b"{", "Expecting property name"),
        (b'{"a": NaN}', "NaN is no JSON"),
        (b'{"a": [-Infinity]}', "-Infinity is no JSON"),
        (b'{"a": 1} x', "Extra data"),
        (b'{"a": "\xff"}', "can't decode byte 0xff"),
        (b"\xef\xbb\xbf{}", "Expecting value"),
        (b'{"a":01}', "Expecting ',' delimiter"),
    ],
)
def test_what_is_no_event(payload: bytes, why: str):
    with pytest.raises(UnreadablePayload, match=why):
        read_event(payload)


def test_numbers_are_read_as_they_are_written():
    event = read_event(b'{"a": 1.10, "b": ' + b"9" * 5000 + b', "a": "2"}')
    assert event["a"] == "2" and not isinstance(event["a"], Number)
    assert event["b"] == "9" * 5000 and isinstance(event["b"], Number)


@pytest.mark.parametrize("path", [["a"], ["b", "c"], ["b", "c", "d"]])
def test_what_says_two_things(path: list[str]):
    event = read_event(b'{"a": 1, "\\u0061": 1, "b": {"c": {"d": 1}, "c": 2}, "x": {"y": 1, "y": 2}, "z": 3}')
    with pytest.raises(UnreadablePayload, match=f"^{'[.]'.join(path)} is there twice"):
        field(event, path)
    assert field(event, ["z"]) == "3"


def test_an_event_is_read_as_deep_as_it_may_land():
    with deeper():
        assert read_event(b'{"a":' + b"[" * 899 + b"]" * 899 + b"}").keys() == {"a"}
    with pytest.raises(UnreadablePayload, match="nested deeper than what is landed"):
        read_event(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
