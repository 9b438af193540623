"""What a message becomes is bounded in every format: at the bound it lands, beyond it has a named reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.expansion import BOUND, Room, Size, bound_of, too_many_elements, too_many_values
from sluice.flow.land.formats import avro, proto_source, protobuf
from sluice.flow.land.formats.decoders import DecodedEvent
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from sluice.flow.land.task.decode import elements_of
from sluice.flow.land.task.opened import decoded
from tests.unit.flow.land.test_opening import opened, reasons_of

TOO_MANY, TOO_LARGE = "too many values", "too large when decoded"


def values_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_of, inner))


def verdict(decode: Callable[[bytes], bytes], message: bytes) -> str | None:
    try:
        decode(message)
    except Rejected as refused:
        return refused.reason
    return None


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def of_avro(
    schema: object, bound: Size = BOUND, reader: object = None, references: tuple[str, ...] = ()
) -> Callable[[bytes], bytes]:
    wanted = None if reader is None else avro.schema_of(json.dumps(reader))
    parsed = avro.schema_of(json.dumps(schema), references, wanted, bound)
    return lambda message: avro.decoded(message, parsed)


def record(name: str, **fields: object) -> dict:
    return {"type": "record", "name": name, "fields": [{"name": k, "type": v} for k, v in fields.items()]}


def array_of(items: object, **more: object) -> dict:
    return record("Event", a={"type": "array", "items": items}, **more)


def block(item: bytes, count: int) -> bytes:
    return varint(2 * count) + item * count + b"\0"


NULLS = record("Row", k="int", **dict.fromkeys((f"f{n}" for n in range(2**15)), "null"))


def test_an_item_of_one_byte_and_many_nulls():
    decode = of_avro(array_of(NULLS))
    event = json.loads(decode(block(b"\0", 30)))
    assert values_of(event) == 2 + 30 * (2**15 + 2)
    assert verdict(decode, block(b"\0", 31)) == TOO_MANY
    assert verdict(decode, block(b"\0", 200)) == TOO_MANY


WIDE = {f"f{n}": "null" for n in range(1000)}
SYMBOL = {"type": "enum", "name": "E", "symbols": ["s" * 9_000]}
# A schema, the bytes of an item, how many land, how many do not, and why.
AVRO = [
    (array_of("int"), b"\0", 999_998, 999_999, TOO_MANY),
    (array_of(record("R", k="int")), b"\0", 499_999, 500_000, TOO_MANY),
    (array_of(["null", record("R", **WIDE)]), b"\2", 998, 999, TOO_MANY),
    (record("Event", a={"type": "map", "values": record("R", **WIDE)}), b"\0", 998, 999, TOO_MANY),
    (array_of(record("R", **{"n" * 9_000: "int"})), b"\0", 3_700, 3_730, TOO_LARGE),
    (array_of(SYMBOL), b"\0", 3_720, 3_730, TOO_LARGE),
    (array_of(record("R", n=SYMBOL)), b"\0", 3_715, 3_730, TOO_LARGE),
]


@pytest.mark.parametrize(("schema", "item", "most", "beyond", "reason"), AVRO, ids=lambda v: str(v)[:20])
def test_of_avro_as_much_as_the_bound_lands(schema: dict, item: bytes, most: int, beyond: int, reason: str):
    decode = of_avro(schema)
    text = decode(block(item, most))
    assert len(text) <= BOUND.text and values_of(json.loads(text)) <= BOUND.values
    assert verdict(decode, block(item, beyond)) == reason
    assert verdict(decode, block(item, 50_000_000)) in (TOO_MANY, TOO_LARGE)


def test_a_text_of_escapes():
    decode = of_avro(record("Event", a="string"))
    most = (BOUND.text - 100) // 6
    assert len(decode(varint(2 * most) + b"\x01" * most)) > BOUND.text - 200
    assert verdict(decode, varint(2 * most + 40) + b"\x01" * (most + 20)) == TOO_LARGE
    plain = BOUND.text - 200
    assert len(decode(varint(2 * plain) + b"a" * plain)) > plain


def test_what_a_reader_adds_counts():
    reader = array_of(record("R", k="int"))
    reader["fields"][0]["type"]["items"]["fields"] += [
        {"name": "d", "type": "string", "default": "x" * 10_000}
    ]
    decode = of_avro(array_of(record("R", k="int")), reader=reader)
    assert json.loads(decode(block(b"\2", 3_000)))["a"][-1] == {"k": 1, "d": "x" * 10_000}
    assert verdict(decode, block(b"\2", 3_500)) == TOO_LARGE


def test_a_type_that_holds_itself_counts_each_time():
    wide = {f"f{n}": "null" for n in range(10_000)}
    decode = of_avro(record("Node", **wide, next=["null", "Node"]))
    assert values_of(json.loads(decode(b"\2" * 98 + b"\0"))) == 99 * 10_001 + 1
    assert verdict(decode, b"\2" * 99 + b"\0") == TOO_MANY
    with pytest.raises(BadSchema, match="holds another"):
        avro.schema_of(json.dumps(record("Node", **WIDE, next="Node")))


def of_proto(
    folder: Path, text: str, bound: Size = BOUND, version: str = "proto3"
) -> protobuf.MessageDecoder:
    (folder / "e.proto").write_text(f'syntax = "{version}"; {text}')
    return protobuf.MessageDecoder(
        protobuf.message_type(proto_source.compiled(folder / "e.proto"), "E"), bound
    )


FIELDS = "".join(f"int64 field_{n} = {n + 1};" for n in range(8_000))
SUB = f"message S {{ {FIELDS} }}"
GROUPS = "".join(f"optional int64 field_{n} = {n + 1};" for n in range(8_000))
KIND = f"enum K {{ {'K' * 9_000} = 0; }}"
EXTENDED = "message E { extensions 5 to 9; } extend E { repeated S s = 5; }"
# A file, its version, the bytes of a part, how many land, how many do not, and why.
PROTO = [
    (f"{SUB} message E {{ repeated S s = 1; }}", "proto3", b"\x0a\0", 124, 125, TOO_MANY),
    (f"{SUB} message E {{ map<int32, S> s = 1; }}", "proto3", b"\x0a\0", 124, 125, TOO_MANY),
    (f"message E {{ repeated group S = 1 {{ {GROUPS} }} }}", "proto2", b"\x0b\x0c", 990, 1_000, TOO_MANY),
    (f"message S {{ {GROUPS} }} {EXTENDED}", "proto2", b"\x2a\0", 990, 1_000, TOO_MANY),
    ("message E { repeated bool b = 1; }", "proto3", b"\x0a\x0a" + b"\1" * 10, 99_999, 100_000, TOO_MANY),
    ("message E { repeated float b = 1; }", "proto3", b"\x0a\x28" + bytes(40), 99_999, 100_000, TOO_MANY),
    ("message E { repeated string b = 1; }", "proto3", b"\x0a\0", 999_998, 999_999, TOO_MANY),
    (f"{KIND} message E {{ repeated K k = 1; }}", "proto3", b"\x0a\1\0", 3_720, 3_730, TOO_LARGE),
    (f"{KIND} message E {{ map<int32, K> k = 1; }}", "proto3", b"\x0a\0", 3_700, 3_730, TOO_LARGE),
]


@pytest.mark.parametrize(
    ("text", "version", "part", "most", "beyond", "reason"), PROTO, ids=lambda v: str(v)[-20:]
)
def test_of_protobuf_as_much_as_the_bound_lands(
    tmp_path: Path, text: str, version: str, part: bytes, most: int, beyond: int, reason: str
):
    decode = of_proto(tmp_path, text, version=version)
    event = decode(part * most)
    assert len(event) <= BOUND.text and values_of(json.loads(event)) <= BOUND.values
    assert verdict(decode, part * beyond) == verdict(decode, part * (beyond * 9)) == reason


def test_a_group_does_not_end_a_message_early(tmp_path: Path):
    decode = of_proto(tmp_path, f"{SUB} message E {{ repeated S s = 1; }}")
    for hidden in (b"\x04", b"\x0c", b"\x13\x14" * 2, b"\x13\x0c"):
        assert verdict(decode, hidden + b"\x0a\0" * 999) in (TOO_MANY, "not Protobuf of its message")
    assert verdict(decode, b"\x13\x0a\0\x14" + b"\x0a\0" * 100) is None


SHAPES = st.recursive(
    st.sampled_from(["null", "int", "double", "string", "bytes", "E", "F", "D"]),
    lambda inner: st.one_of(
        st.tuples(st.just("array"), inner),
        st.tuples(st.just("map"), inner),
        st.tuples(st.just("union"), inner),
        st.tuples(st.just("record"), st.lists(inner, max_size=4)),
    ),
    max_leaves=8,
)
NAMED = {
    "E": {"type": "enum", "name": "E", "symbols": ["A", "B" * 50]},
    "F": {"type": "fixed", "name": "F", "size": 3},
    "D": {"type": "long", "logicalType": "timestamp-micros"},
}


def schema_of_shape(shape: Any, names: list[str]) -> Any:
    if isinstance(shape, str):
        seen = shape in names
        names.append(shape)
        return shape if shape not in NAMED or (seen and shape != "D") else NAMED[shape]
    kind, inner = shape
    if kind == "record":
        names.append(kind)
        own = f"R{len(names)}"
        fields = {f"f{'_' * (n * 7)}{n}": schema_of_shape(part, names) for n, part in enumerate(inner)}
        return record(own, **fields)
    part = schema_of_shape(inner, names)
    if kind == "union":
        return part if part == "null" or isinstance(part, list) else ["null", part]
    if kind == "array":
        return {"type": "array", "items": record(f"I{len(names)}x{id(part)}", k="int", v=part)}
    return {"type": "map", "values": part}


@given(SHAPES, st.binary(max_size=200), st.integers(0, 200), st.integers(0, 2_000))
def test_what_avro_gives_is_never_above_the_bound(shape: Any, message: bytes, values: int, text: int):
    """Any schema, any bytes, and any bound: also where nothing is counted since the message is short."""
    schema = record("Event", a=schema_of_shape(shape, []))
    bound = Size(values, text)
    free, bounded = of_avro(schema), of_avro(schema, bound)
    try:
        event = free(message)
    except Rejected:
        assert verdict(bounded, message) is not None
        return
    found = Size(values_of(json.loads(event)), len(event))
    if verdict(bounded, message) is None:
        assert found.values <= values and found.text <= text
    else:
        assert found.values * 3 + 3 > values or found.text * 45 > text


@given(st.binary(max_size=300))
def test_what_a_string_becomes_is_counted_exactly(content: bytes):
    text = content.decode("latin-1").encode()
    exact = len(json.dumps(text.decode(), ensure_ascii=False).encode()) - 2
    Room(Size(0, exact)).take_string(text)
    if exact:
        with pytest.raises(Rejected):
            Room(Size(0, exact - 1)).take_string(text)


@given(
    st.recursive(
        st.none() | st.text('[]{},"\\:aé', max_size=9), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_values_of_json_are_counted_outside_of_strings(value: Any):
    text = json.dumps(value).encode()
    count = values_of(value) + _empties(value)
    assert not too_many_values(text, count)
    assert len(text) <= 2 * (count - 1) or too_many_values(text, count - 1)


def _empties(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else (not inner) + sum(map(_empties, inner))


@pytest.mark.parametrize("near", ["", '"', "\\", '\\"', "\\\\", "é,[{"])
def test_values_across_blocks(near: str):
    """What stands at the edge of a block, of 1 MiB, is counted as elsewhere."""
    for shift in range(8):
        strings = [json.dumps("x" * shift + near * 90, ensure_ascii=False)] * 9_000
        text = f"[{','.join(strings)}]".encode()
        assert not too_many_elements(text, 9_000) and too_many_elements(text, 8_999)
        assert not too_many_values(text, 9_001) and too_many_values(text, 9_000)


def test_elements_of_an_array_have_a_bound():
    assert len(elements_of(b"[" + b"0," * 999_999 + b"0]")) == 1_000_000
    with pytest.raises(Rejected):
        elements_of(b"[" + b"0," * 1_000_000 + b"0]")
    [piece] = opened([b"[" + b"0," * 1_000_000 + b"0]", b"[{}]"])
    assert reasons_of(piece) == {0: TOO_MANY} and piece.events["_payload"].to_pylist() == [b"{}"]


def test_rows_of_an_array_repeat_its_key_within_the_bound():
    """A mebibyte of key and headers beside each of 32 elements is as much as there may be."""
    text = b"[" + b",".join([b"{}"] * 32) + b"]"
    for carried, refused in ((1 << 20, {}), ((1 << 20) + 1, {0: TOO_LARGE})):
        assert reasons_of(opened([text], carried=carried)[-1]) == refused


def test_a_record_without_memory_is_rejected_alone():
    def decode(message: bytes, _: bytes | None) -> DecodedEvent:
        if message == b"large":
            raise MemoryError
        return DecodedEvent(message, "Event")

    [piece] = opened([b"a", b"large", b"b"], partial(decoded, decode=decode))
    assert piece.events["_payload"].to_pylist() == [b"a", b"b"] and reasons_of(piece) == {1: TOO_LARGE}


def test_a_larger_record_may_become_more():
    assert bound_of(1 << 20) == bound_of(64 << 20) == BOUND
    assert bound_of(1 << 30) == Size(BOUND.values, 1 << 29)
