"""Avro by fastavro: every kind of value as JSON that says the same, and no message that stops the hour."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.expansion import Size
from sluice.flow.land.formats import avro, avro_sizes
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from sluice.runtime import deeper


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
    with pytest.raises(Rejected) as caught:
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
    with pytest.raises(Rejected) as caught:
        read(message, writer)
    return caught.value.reason


def test_what_is_no_datum_is_rejected_records():
    whole = written({"v": "text"}, schema("string"))
    for message in (b"", whole[:-1], whole + b"\x00", b"\x08\xff\xff\xff\xff", b"\xff" * 12):
        assert reason(message, schema("string")) == "not Avro of its schema"
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
    except Rejected as verdict:
        found = verdict.reason
    assert found in ("an event", "not Avro of its schema")


RAW = [
    (logical("bytes", "decimal", precision=9, scale=2), 1_234_567_890_123, '"12345678901.23"'),
    (logical("bytes", "decimal", precision=4, scale=2), -99_999, '"-999.99"'),
    (logical("bytes", "decimal", precision=18, scale=18), 0, '"0.000000000000000000"'),
    (logical("bytes", "decimal", precision=9, scale=7), -1, '"-0.0000001"'),
    (logical("bytes", "decimal", precision=76), 10**75, f'"{10**75}"'),
]


@pytest.mark.parametrize(("kind", "unscaled", "text"), RAW)
def test_a_decimal_keeps_all_its_digits(kind, unscaled, text):
    content = unscaled.to_bytes(40, "big", signed=True)
    assert read(written({"v": content}, schema("bytes")), schema(kind)) == f'{{"v":{text}}}'


def test_a_decimal_of_a_megabyte_is_rejected_and_not_computed():
    message = written({"v": b"\x7f" * 1_000_000}, schema("bytes"))
    writer = schema(logical("bytes", "decimal", precision=9, scale=2))
    assert reason(message, writer) == "too large when decoded"


@pytest.mark.parametrize(
    ("base", "kind", "number"),
    [
        ("int", "time-millis", -1),
        ("int", "time-millis", 86_400_000),
        ("long", "time-micros", -1),
    ],
)
def test_what_cannot_be_shown_as_its_type_stays_a_number(base, kind, number):
    message = written({"v": number}, schema(base))
    assert read(message, schema(logical(base, kind))) == f'{{"v":{number}}}'


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"precision": None},
        {"precision": 0},
        {"precision": "4"},
        {"precision": True},
        {"precision": 4, "scale": 5},
        {"precision": 4, "scale": -1},
        {"precision": 4, "scale": None},
        {"precision": 4, "scale": 1.5},
    ],
)
def test_a_decimal_that_is_none_is_bytes(more):
    """As the specification has it, and Java: the registry takes such a schema."""
    kinds = [logical("bytes", "decimal", **more), ["null", logical("bytes", "decimal", **more)]]
    plain = ["bytes", ["null", "bytes"]]
    for kind, bare in zip(kinds, plain, strict=True):
        assert read(written({"v": b"\x01"}, schema(bare)), schema(kind)) == '{"v":"AQ=="}'
    fixed = {"type": "fixed", "name": "F", "size": 1}
    said = {**fixed, "logicalType": "decimal", "precision": 3}
    assert read(written({"v": b"\x01"}, schema(fixed)), schema(said)) == '{"v":"AQ=="}'


@pytest.mark.parametrize(
    "kind",
    [
        *({"type": "fixed", "name": "F", "size": size} for size in (-1, 1.5, True, None, "3", 2**31, 1e3)),
        {"type": "fixed", "name": "F"},
        {"type": "enum", "name": "E", "symbols": [1, 2]},
        {"type": "enum", "name": "E", "symbols": "AB"},
        {"type": "record", "name": 5, "fields": []},
        {"type": "record", "name": "R"},
        {"type": "record", "name": "R", "fields": [{"name": 5, "type": "int"}]},
        {"type": "record", "name": "R", "fields": [{"name": "a"}]},
        {"type": "record", "name": "R", "fields": [5]},
        {"type": "record", "name": "n" * 513, "fields": []},
        {"type": "record", "name": "R", "namespace": "n" * 513, "fields": []},
        {"type": "record", "name": "R", "namespace": {}, "fields": []},
        {"type": "array"},
        {"type": {"type": "int"}},
        {"type": "bytes", "logicalType": "decimal", "precision": 2_000, "scale": 1_001},
        5,
        None,
    ],
)
def test_what_is_no_type_is_told_before_any_message(kind):
    with pytest.raises(BadSchema):
        avro.schema_of(json.dumps(schema(kind)))


def test_infinite_sizes_are_none():
    for size in ("1e400", "NaN"):
        with pytest.raises(BadSchema):
            avro.schema_of(json.dumps(schema({"type": "fixed", "name": "F", "size": 0})).replace("0", size))


INT = {"name": "q", "type": "int"}


@pytest.mark.parametrize("other", [{"type": "record", "name": "X", "fields": []}, {"type": "X", "name": "X"}])
def test_a_schema_says_nothing_to_the_library_but_what_it_is(other):
    """fastavro takes these properties for its own: arrays of nothing, or of an X that is an X without end."""
    fields = [
        {"name": "d", "type": {"type": "record", "name": "X", "fields": [INT]}},
        {"name": "a", "type": {"type": "array", "items": "X"}},
    ]
    known = {"r": {"type": "record", "name": "r", "fields": []}, "X": other}
    outer = {"type": "record", "name": "r", "fields": fields}
    said = {**outer, "__fastavro_parsed": True, "__named_schemas": known}
    assert read(b"\x02\x04\x06\x08\x00", said) == '{"d":{"q":1},"a":[{"q":3},{"q":4}]}'
    # 20 million of them in six bytes
    assert reason(b"\x02\x80\xb4\x89\x13\x00", said) == "not Avro of its schema"


@pytest.mark.parametrize("kind", [["null", "int"], "int", {"type": "array", "items": "int"}])
def test_a_message_need_not_be_a_record(kind):
    value = [3] if isinstance(kind, dict) else 3
    assert json.loads(read(written(value, kind), kind)) == value


def chain(levels: int) -> tuple[bytes, dict]:
    """Returns a message and its schema: its last field nests in twice so many levels, and the text in few."""
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": [INT]}}]
    for level in range(1, levels):
        inner = {"name": "r", "type": {"type": "array", "items": f"R{level - 1}"}}
        kind = {"type": "record", "name": f"R{level}", "fields": [inner]}
        fields.append({"name": f"f{level}", "type": {"type": "array", "items": kind}})
    one, none = b"\x02", b"\x00"
    message = one + none * (levels - 2) + one * (levels + 1) + none * levels
    return message, {"type": "record", "name": "Event", "fields": fields}


@pytest.mark.parametrize("levels", [1_000, 30_000])
def test_types_that_nest_in_many_levels_do_not_end_the_process(levels):
    message, deep = chain(levels)
    with deeper():
        assert reason(message, deep) == "nested too deep"
        message, flatter = chain(avro_sizes.MOST_LEVELS // 2 - 10)
        assert '{"q":1}]}' in read(message, flatter)


def test_of_a_large_schema_a_message_costs_what_it_is_itself():
    """A walk that was made again for each message would call as many functions as the schema has types."""
    fields = [{"name": f"f{number}", "type": ["null", "int"]} for number in range(2_000)]
    item = {"type": "record", "name": "Item", "fields": fields}
    for kind in (schema({"type": "array", "items": item}), [{"type": "array", "items": item}, "string"]):
        parsed = avro.schema_of(json.dumps(kind), bound=Size(3, 45))
        message = b"\x00" if isinstance(kind, dict) else b"\x00\x00"
        avro.decoded(message, parsed)
        calls = 0

        def count(_frame: object, _event: str, _arg: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            avro.decoded(message, parsed)
        finally:
            sys.setprofile(None)
        assert len(message) > parsed.short
        assert 10 < calls < 200


def test_values_are_looked_at_only_where_one_may_be_a_float(monkeypatch):
    """An optional field is null more often than not."""

    def look(value):
        raise AssertionError(value)

    monkeypatch.setattr("sluice.flow.land.expansion._finite", look)
    event = {"a": None, "b": 1}
    fields = [{"name": "a", "type": ["null", "string"]}, {"name": "b", "type": "long"}]
    kind = {"type": "record", "name": "r", "fields": fields}
    assert json.loads(read(written(event, kind), kind)) == event


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_default_that_json_lacks_is_text(kind):
    writer = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    added = {"name": "b", "type": kind, "default": float("nan")}
    reader = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, added]}
    assert json.loads(read(written({"a": 1}, writer), writer, reader)) == {"a": 1, "b": "NaN"}
