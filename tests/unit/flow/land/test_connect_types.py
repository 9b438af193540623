"""Values of Kafka Connect's and Debezium's types. Numbers and bytes are those that Debezium 3.6 writes for
PostgreSQL's values beside them, or were counted by hand."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from sluice.flow.land.formats import avro
from sluice.flow.land.formats.connect_types import converter

DEBEZIUM, CONNECT = "io.debezium.", "org.apache.kafka.connect.data."


def block(name: str, kind: str = "int64", **parameters: str) -> dict:
    return {"type": kind, "optional": True, "name": name, "parameters": parameters}


DECIMAL_4 = block(f"{CONNECT}Decimal", "bytes", scale="4")
DATE, VARIABLE = block(f"{DEBEZIUM}time.Date"), block(f"{DEBEZIUM}data.VariableScaleDecimal", "struct")
TIMESTAMP = block(f"{DEBEZIUM}time.MicroTimestamp")

SHOWN = [
    (DATE, "20777", '"2026-11-20"'),
    (DATE, "-719162", '"0001-01-01"'),
    (DATE, "-622191234", '"-1701532-04-05"'),  # 'infinity'
    (DATE, "3000000", '"+10183-09-21"'),
    (block(f"{CONNECT}Date"), "0", '"1970-01-01"'),
    (TIMESTAMP, "1795168800123456", '"2026-11-20T10:00:00.123456"'),
    (TIMESTAMP, "-1", '"1969-12-31T23:59:59.999999"'),
    (TIMESTAMP, "9223372036825200000", '"+294247-01-10T04:00:25.2"'),  # 'infinity'
    (block(f"{DEBEZIUM}time.Timestamp"), "1795168800120", '"2026-11-20T10:00:00.12"'),
    (block(f"{DEBEZIUM}time.NanoTimestamp"), "1795168800000000001", '"2026-11-20T10:00:00.000000001"'),
    (block(f"{CONNECT}Timestamp"), "1795168800000", '"2026-11-20T10:00:00Z"'),
    (block(f"{DEBEZIUM}time.ZonedTimestamp", "string"), '"infinity"', '"infinity"'),
    (block(f"{DEBEZIUM}time.Time"), "36672123", '"10:11:12.123"'),
    (block(f"{DEBEZIUM}time.MicroTime"), "86400000000", '"24:00:00"'),
    (block(f"{DEBEZIUM}time.MicroTime"), "-3020399000000", '"-838:59:59"'),  # MySQL's least
    (block(f"{DEBEZIUM}time.NanoTime"), "1", '"00:00:00.000000001"'),
    (block(f"{CONNECT}Time"), "0", '"00:00:00"'),
    (DECIMAL_4, '"B1vMvA=="', '"12345.6700"'),
    (DECIMAL_4, '"AA=="', '"0.0000"'),
    (DECIMAL_4, '"/w=="', '"-0.0001"'),
    (DECIMAL_4, '""', '"0.0000"'),
    (DECIMAL_4, '"no base64!"', '"no base64!"'),
    (DECIMAL_4, "12.5", "12.5"),  # decimal.handling.mode=double
    (block(f"{CONNECT}Decimal", "bytes", scale="-2"), '"Aw=="', '"300"'),
    (block(f"{CONNECT}Decimal", "bytes", scale="100000"), '"Aw=="', '"Aw=="'),
    (block(f"{CONNECT}Decimal", "bytes"), '"Aw=="', '"Aw=="'),
    (VARIABLE, '{"scale":12,"value":"+KQy6w=="}', '"-0.000123456789"'),
    (VARIABLE, '{"value":"BWvHXi1jEAAA","scale":0}', '"100000000000000000000"'),
    (VARIABLE, '{"scale":1}', '{"scale":1}'),
    (
        block(f"{DEBEZIUM}data.Json", "string"),
        '"{\\"k\\": 12345678901234567890}"',
        '{"k": 12345678901234567890}',
    ),
    (block(f"{DEBEZIUM}data.Json", "string"), '"[1.50,null]"', "[1.50,null]"),
    (block(f"{DEBEZIUM}data.Json", "string"), '"{"', '"{"'),
    (
        block(f"{DEBEZIUM}data.Json", "string"),
        '"__debezium_unavailable_value"',
        '"__debezium_unavailable_value"',
    ),
    (block(f"{DEBEZIUM}data.Bits", "bytes", length="12"), '"qgo="', '"101010101010"'),
    (block(f"{DEBEZIUM}data.Bits", "bytes", length="20"), '"BQ=="', '"BQ=="'),  # of a varying length
    ({"type": "array", "items": DATE}, "[20777,null]", '["2026-11-20",null]'),
    ({"type": "map", "values": DATE}, '{"a":20777,"b":null}', '{"a":"2026-11-20","b":null}'),
    ({"type": "map", "values": DATE}, "[[1,20777]]", "[[1,20777]]"),
    (
        {"type": "struct", "fields": [{**DATE, "field": "d"}]},
        '{"x":1.50,"d":0}',
        '{"x":1.50,"d":"1970-01-01"}',
    ),
]


@pytest.mark.parametrize(("schema", "value", "shown"), SHOWN)
def test_a_value_is_shown_as_its_type(schema, value, shown):
    convert = converter(schema)
    assert (value.encode() if convert is None else convert(value.encode())).decode() == shown


@pytest.mark.parametrize(
    "schema", [None, 1, {}, {"type": "struct", "fields": {}}, {"type": "struct", "fields": [1, {"field": 2}]}]
)
def test_a_schema_that_says_nothing_changes_nothing(schema):
    assert converter(schema) is None


def test_a_schema_without_end_is_looked_into_for_some_levels():
    schema: dict = DATE
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    assert converter(schema) is None


def connect(kind: str | dict, name: str, **more) -> dict:
    inner = kind if isinstance(kind, dict) else {"type": kind}
    return {**inner, "connect.version": 1, "connect.name": name, **more}


BY_AVRO = [
    (connect("int", f"{DEBEZIUM}time.Date"), 20777, '"2026-11-20"'),
    (connect("long", f"{DEBEZIUM}time.MicroTimestamp"), 1795168800123456, '"2026-11-20T10:00:00.123456"'),
    (connect("string", f"{DEBEZIUM}time.MicroTimestamp"), "x", '"x"'),
    (connect("string", f"{DEBEZIUM}data.Json"), '{"a": 1.50}', '{"a": 1.50}'),
    (connect("string", f"{DEBEZIUM}data.Json"), "{", '"{"'),
    (
        connect("bytes", f"{DEBEZIUM}data.Bits", **{"connect.parameters": {"length": "12"}}),
        b"\xaa\x0a",
        '"101010101010"',
    ),
    (
        connect(
            {
                "type": "record",
                "name": "VariableScaleDecimal",
                "namespace": "io.debezium.data",
                "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
            },
            f"{DEBEZIUM}data.VariableScaleDecimal",
        ),
        {"scale": 12, "value": b"\xf8\xa42\xeb"},
        '"-0.000123456789"',
    ),
    # Connect's converter leaves `logicalType` out, or writes a precision that is none.
    *(
        (connect("bytes", f"{CONNECT}Decimal", **{"connect.parameters": {"scale": scale}}, **more), b, shown)
        for scale, b, shown, more in (
            ("2", b"\x04\xd2", '"12.34"', {}),
            ("-2", b"\x04\xd2", '"123400"', {}),
            ("70", b"\x01", f'"0.{"0" * 69}1"', {"logicalType": "decimal", "precision": 64, "scale": 70}),
            ("2", b"\xff", '"-0.01"', {"logicalType": "decimal", "precision": 0}),
            ("101", b"\x01", '"AQ=="', {}),
            ("two", b"\x01", '"AQ=="', {}),
        )
    ),
    (connect("bytes", f"{CONNECT}Decimal"), b"\x01", '"AQ=="'),
    (
        connect("bytes", f"{CONNECT}Decimal", logicalType="decimal", precision=12, scale=4),
        b"\x07\x5b\xcc\xbc",
        '"12345.6700"',
    ),
]


@pytest.mark.parametrize(("schema", "value", "shown"), BY_AVRO)
def test_avro_of_kafka_connect_says_its_types_by_name(schema, value, shown):
    record = {"type": "record", "name": "Value", "fields": [{"name": "v", "type": ["null", schema]}]}
    plain = json.loads(json.dumps(record).replace("logicalType", "left_out"))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), {"v": value})
    parsed = avro.schema_of(json.dumps(record))
    assert avro.decoded(out.getvalue(), parsed).decode() == f'{{"v":{shown}}}'
