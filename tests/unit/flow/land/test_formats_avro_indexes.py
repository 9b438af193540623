"""A damaged message of Avro does not become a row: fastavro counts a negative index from the end."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.formats import avro
from sluice.flow.land.reject_reasons import Rejected

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
UNION = ["null", "long", "string"]
LIST = {
    "type": "record",
    "name": "L",
    "fields": [{"name": "n", "type": "long"}, {"name": "next", "type": ["null", "L"]}],
}


def record(*kinds: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": "Event", "fields": fields}


def read(message: bytes, schema: Any, reader: Any = None) -> Any:
    parsed = None if reader is None else avro.schema_of(json.dumps(reader))
    return json.loads(avro.decoded(message, avro.schema_of(json.dumps(schema), reader=parsed)))


def as_fastavro(message: bytes, schema: Any) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(message), fastavro.parse_schema(schema), None)


# Bytes by the specification: a number is zigzag, 0, -1, 1, -2 … as 00, 01, 02, 03 …
WRONG = [
    (record(ENUM), b"\x01"),
    (record(ENUM), b"\x05"),
    (record(ENUM, "E"), b"\x02\x03"),
    (record(UNION), b"\x05"),
    (record("long", UNION), b"\x06\x03\x0a"),
    (record({"type": "array", "items": UNION}), b"\x04\x02\x0a\x03\x08\x00"),
    (record({"type": "map", "values": ENUM}), b"\x02\x02k\x03\x00"),
    (record(["null", ENUM]), b"\x02\x01"),
    (record(LIST), b"\x02\x01\x04\x00"),
    (record("double", "boolean", {"type": "fixed", "name": "F", "size": 3}, ENUM), b"\0" * 9 + b"abc\x01"),
    (record(ENUM), b"\x81\x00"),  # -1 in two bytes
]


@pytest.mark.parametrize(("schema", "message"), WRONG)
@pytest.mark.parametrize("reader", [False, True])
def test_a_negative_index_is_refused(schema: Any, message: bytes, reader: bool):
    other = {**schema, "fields": [*schema["fields"], {"name": "more", "type": "int", "default": 1}]}
    with pytest.raises(Rejected, match="^not Avro of its schema$"):
        read(message, schema, other if reader else None)


def test_fastavro_reads_them():
    """Else nothing of this is needed any more."""
    assert as_fastavro(*reversed(WRONG[0])) == {"f0": "C"}
    assert as_fastavro(*reversed(WRONG[4])) == {"f0": 3, "f1": 5}


@pytest.mark.parametrize(
    ("schema", "message", "event"),
    [
        (record(ENUM), b"\x84\x00", {"f0": "C"}),
        (record(UNION), b"\x82\x80\x00\x0a", {"f0": 5}),
        # Blocks of one and of two items, the second with its size of five bytes.
        (
            record({"type": "array", "items": UNION}),
            b"\x02\x00\x03\x0a\x02\x0a\x04\x02x\x00",
            {"f0": [None, 5, "x"]},
        ),
        (record({"type": "map", "values": UNION}), b"\x01\x06\x02k\x00\x00", {"f0": {"k": None}}),
        (record(LIST), b"\x02\x02\x04\x00", {"f0": {"n": 1, "next": {"n": 2, "next": None}}}),
        (record(["null", {"type": "array", "items": "null"}][:1]), b"\x00", {"f0": None}),
    ],
)
def test_what_is_written_in_another_way_is_read(schema: Any, message: bytes, event: Any):
    assert read(message, schema) == event


SIMPLE = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string", "bytes"])


def kinds() -> st.SearchStrategy[Any]:
    """Types, each with a value of it."""
    values = {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.just(0.5),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "string": st.text(),
        "bytes": st.binary(),
    }
    simple = SIMPLE.flatmap(lambda kind: st.tuples(st.just(kind), values[kind]))
    enums = st.sampled_from("ABC").map(lambda symbol: (ENUM, symbol))
    weighty = st.one_of(simple, enums).filter(lambda pair: pair[0] != "null")
    unions = weighty.flatmap(
        lambda pair: st.sampled_from([(["null", pair[0]], pair[1]), (["null", pair[0]], None)])
    )

    def lists(pairs: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        counts = st.integers(0, 3)
        return st.tuples(pairs, counts).map(lambda p: ({"type": "array", "items": p[0][0]}, [p[0][1]] * p[1]))

    def maps(pairs: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        keys = st.sets(st.text(), max_size=3)
        return st.tuples(pairs, keys).map(
            lambda p: ({"type": "map", "values": p[0][0]}, dict.fromkeys(p[1], p[0][1]))
        )

    inner = st.one_of(weighty, unions)
    return st.one_of(simple, enums, unions, lists(inner), maps(inner), lists(maps(unions)))


@given(kinds(), st.binary(max_size=3))
def test_each_message_is_walked_to_its_end(pair: tuple[Any, Any], more: bytes):
    schema, value = record(pair[0], "int", UNION), pair[1]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"f0": value, "f1": 7, "f2": "x"})
    walk = avro.schema_of(json.dumps(schema)).walk
    assert walk is not None
    assert walk(out.getvalue() + more, 0) == len(out.getvalue())


@given(st.binary(max_size=40))
def test_any_bytes_end_in_a_row_or_a_verdict(message: bytes):
    schema = record(ENUM, UNION, {"type": "array", "items": ["null", "string"]}, LIST)
    try:
        read(message, schema)
    except Rejected:
        return
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), as_fastavro(message, schema))
    assert read(out.getvalue(), schema) == read(message, schema)


@pytest.mark.parametrize(
    "kind", ["long", {"type": "array", "items": "string"}, {"type": "map", "values": "int"}]
)
def test_other_schemas_are_not_walked(kind: Any):
    assert avro.schema_of(json.dumps(record(kind))).walk is None
