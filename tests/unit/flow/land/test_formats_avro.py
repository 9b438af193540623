"""Avro by fastavro: every kind of value as JSON that says the same, and no message that stops the hour."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.formats import avro, avro_sizes
from sluice.flow.land.reject_reasons import BadSchema, Unparsed


def logical(base: str, kind: str, **more: object) -> dict:
    return {"type": base, "logicalType": kind, **more}


def schema(kind: object, name: str = "v", **more: object) -> dict:
    return {"type": "record", "name": "Event", "fields": [{"name": name, "type": kind, **more}]}


def written(event: object, writer: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), event)
    return out.getvalue()


def read(message: bytes, writer: object, reader: object = None) -> str:
    parsed = None if reader is None else avro.schema_of(json.dumps(reader))
    return avro.decoded(message, avro.schema_of(json.dumps(writer), reader=parsed)).decode()


INNER = {"type": "record", "name": "In", "fields": [{"name": "k", "type": "int"}]}
# A type, a value, and how it has to stand in the JSON.
VALUES = [
    ("null", None, "null"),
    ("boolean", True, "true"),
    ("int", -(2**31), "-2147483648"),
    ("long", 2**63 - 1, "9223372036854775807"),
    ("long", 2**53 + 1, "9007199254740993"),
    ("float", 0.1, "0.10000000149011612"),
    ("double", 0.1, "0.1"),
    ("double", 1e300, "1e300"),
    ("double", float("nan"), '"NaN"'),
    ("double", float("inf"), '"Infinity"'),
    ("float", float("-inf"), '"-Infinity"'),
    ("string", 'é"\n\u2028', '"é\\"\\n\u2028"'),
    ("bytes", b"\xff\x00", '"/wA="'),
    ({"type": "fixed", "name": "F", "size": 4}, b"abcd", '"YWJjZA=="'),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", '"B"'),
    ({"type": "map", "values": "long"}, {"q": 1}, '{"q":1}'),
    ({"type": "array", "items": ["null", "double"]}, [None, float("nan")], '[null,"NaN"]'),
    (["null", INNER], {"k": 1}, '{"k":1}'),
    (logical("bytes", "decimal", precision=20, scale=4), Decimal("12.5"), '"12.5000"'),
    (logical("bytes", "decimal", precision=38, scale=0), Decimal(10**37 + 1), f'"{10**37 + 1}"'),
    (logical("int", "date"), date(2026, 2, 3), '"2026-02-03"'),
    (logical("int", "time-millis"), time(1, 2, 3, 4000), '"01:02:03.004000"'),
    (logical("long", "time-micros"), time(1, 2, 3, 4), '"01:02:03.000004"'),
    (logical("long", "timestamp-millis"), datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00Z"'),
    (
        logical("long", "timestamp-micros"),
        datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC),
        '"2026-01-01T00:00:00.123456Z"',
    ),
    (logical("long", "local-timestamp-millis"), datetime(2026, 1, 1, 5), '"2026-01-01T05:00:00"'),
    (logical("string", "uuid"), UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
]


@pytest.mark.parametrize(("kind", "value", "text"), VALUES)
def test_every_kind_of_value_is_json_that_says_the_same(kind, value, text):
    assert read(written({"v": value}, schema(kind)), schema(kind)) == f'{{"v":{text}}}'


def test_the_readers_schema_gives_its_fields_and_defaults():
    old = schema("int", "old")
    new = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "now", "aliases": ["old"], "type": "long"},
            {"name": "more", "type": "string", "default": "none"},
        ],
    }
    assert read(written({"old": 7}, old), old, new) == '{"now":7,"more":"none"}'
    with pytest.raises(Unparsed) as caught:
        read(written({"old": 7}, old), old, schema("string", "other"))
    assert caught.value.reason == "does not fit the reader's schema"


def test_a_schema_may_name_others():
    outer = {"type": "record", "name": "Out", "fields": [{"name": "i", "type": "In"}]}
    parsed = avro.schema_of(json.dumps(outer), [json.dumps(INNER)])
    assert avro.decoded(b"\x06", parsed) == b'{"i":{"k":3}}'
    with pytest.raises(BadSchema):
        avro.schema_of(json.dumps(outer))


@pytest.mark.parametrize("text", ["", "{", "7", '"thing"', '{"type":"record"}', '{"type":"nothing"}', "{}"])
def test_what_is_no_schema_is_told(text):
    with pytest.raises(BadSchema):
        avro.schema_of(text)


EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize("items", ["null", {"type": "fixed", "name": "Z", "size": 0}, EMPTY])
def test_an_array_of_nothing_could_be_of_any_length(items):
    with pytest.raises(BadSchema, match="take no bytes"):
        avro.schema_of(json.dumps(schema({"type": "array", "items": items})))
    avro.schema_of(json.dumps(schema({"type": "array", "items": ["null", "int"]})))
    avro.schema_of(json.dumps(schema({"type": "map", "values": items})))


def shared(levels: int, times: int = 2) -> str:
    """Types that each have the next one so many times; the innermost is null, which takes no byte."""
    kind: object = "null"
    for number in reversed(range(levels)):
        inner = [kind, *[f"L{number + 1}" if number + 1 < levels else "null"] * (times - 1)]
        fields = [{"name": f"f{place}", "type": part} for place, part in enumerate(inner)]
        kind = {"type": "record", "name": f"L{number}", "fields": fields}
    return json.dumps(kind)


def test_a_named_type_is_looked_at_once():
    """With as many looks as the types have paths, sixty levels would take longer than the universe has."""
    with pytest.raises(BadSchema, match=r"2,305,843,009,213,693,951 values"):
        avro.schema_of(shared(60))
    with pytest.raises(BadSchema, match="take no bytes"):
        avro.schema_of(json.dumps(schema({"type": "array", "items": json.loads(shared(60))})))


def test_the_values_of_an_empty_message_have_a_bound():
    """Fifteen levels have 65,535 values, sixteen have more than allowed."""
    event = json.loads(avro.decoded(b"", avro.schema_of(shared(15))))
    count = 0
    pending = [event]
    while pending:
        value = pending.pop()
        count += 1
        pending += value.values() if isinstance(value, dict) else ()
    assert count == 65_535 <= avro_sizes.MOST_VALUES
    with pytest.raises(BadSchema, match="131,071 values: expected at most 100,000"):
        avro.schema_of(shared(16))


@pytest.mark.parametrize("levels", [10, 200, 10_000])
def test_a_schema_of_any_depth(levels: int):
    """Deep ones are refused; none ends the worker."""
    text = '{"type":"array","items":' * levels + '"int"' + "}" * levels
    if levels <= 200:
        assert avro.decoded(b"\x00", avro.schema_of(text)) == b"[]"
    else:
        with pytest.raises(BadSchema, match="nested too deeply"):
            avro.schema_of(text)


def reason(message: bytes, writer: object) -> str:
    with pytest.raises(Unparsed) as caught:
        read(message, writer)
    return caught.value.reason


def test_what_is_no_datum_is_unparsed():
    whole = written({"v": "text"}, schema("string"))
    for message in (b"", whole[:-1], whole + b"\x00", b"\x08\xff\xff\xff\xff", b"\xff" * 12):
        assert reason(message, schema("string")) == "not Avro of its schema"
    beyond = written({"v": 10**17}, schema("long"))
    assert reason(beyond, schema(logical("long", "timestamp-millis"))) == "not Avro of its schema"
    assert reason(b"\x04", schema(["null", "int"])) == "not Avro of its schema"


@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_a_message_of_any_depth_does_not_kill_the_worker(depth):
    linked = {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}
    assert reason(b"\x02" * depth + b"\x00", linked) == "nested too deep"
    assert read(b"\x02\x02\x00", linked) == '{"n":{"n":{"n":null}}}'


EVERYTHING = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": f"f{n}", "type": kind} for n, (kind, _, _) in enumerate(VALUES) if kind != ["null", INNER]
    ],
}
ALL = avro.schema_of(json.dumps(EVERYTHING))
WHOLE = written({f"f{n}": value for n, (_, value, _) in enumerate(VALUES)}, EVERYTHING)


@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1), st.integers(0, 400)
)
def test_damage_gives_an_event_or_a_reason_and_nothing_else(changes, length):
    damaged = bytearray(WHOLE)
    for place, byte in changes:
        damaged[place] = byte
    found = "an event"
    try:
        json.loads(avro.decoded(bytes(damaged[:length]), ALL))
    except Unparsed as verdict:
        found = verdict.reason
    assert found in ("an event", "not Avro of its schema")
