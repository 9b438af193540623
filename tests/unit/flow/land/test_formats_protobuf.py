"""Protobuf by Google's library: every kind of value as JSON that says the same, and no message that stops the
hour. Messages are written by hand, byte by byte (https://protobuf.dev/programming-guides/encoding/)."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Kind
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.expansion import BOUND
from sluice.flow.land.formats import proto_source, protobuf
from sluice.flow.land.formats.decoders import ProtobufByNumber
from sluice.flow.land.formats.protobuf import SchemaSizes
from sluice.flow.land.formats.registry import StoredSchema
from sluice.flow.land.reject_reasons import UNREADABLE_SCHEMA, BadSchema, Rejected
from sluice.flow.land.task.reports import SchemasAsked
from sluice.runtime import deeper

BID = """syntax = "proto3";
package adx;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "kinds.proto";
message Bid {
  string name = 1; int64 big = 2; uint64 huge = 3; bytes raw = 4; Kind kind = 5; double price = 6;
  float ratio = 7; bool on = 8; sint32 down = 9; repeated int32 many = 10; map<bool, int64> flags = 11;
  optional int32 maybe = 12; Inner inner = 13; oneof choice { string text = 14; int32 number = 15; }
  google.protobuf.Timestamp at = 16; google.protobuf.Int64Value wrapped = 17;
  google.protobuf.Struct free = 18; google.protobuf.Any any = 19; repeated Inner inners = 20;
  fixed64 sixty = 21;
  message Inner { int32 k = 1; Bid bid = 2; message Deep { int32 d = 1; } }
}
"""
KINDS = 'syntax = "proto3";\npackage adx;\nenum Kind { NONE = 0; CLICK = 1; }\n'
# What a message says whose fields are all as they are without a word.
ZERO = {
    "name": "",
    "big": 0,
    "huge": 0,
    "raw": "",
    "kind": "NONE",
    "price": 0.0,
    "ratio": 0.0,
    "on": False,
    "down": 0,
    "many": [],
    "flags": {},
    "inners": [],
    "sixty": 0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proto")
    (folder / "bid.proto").write_text(BID)
    (folder / "kinds.proto").write_text(KINDS)
    return folder


@pytest.fixture(scope="module")
def bid(folder: Path):
    return protobuf.message_type(proto_source.compiled(folder / "bid.proto"), "adx.Bid")


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def whole(number: int, value: int) -> bytes:
    return tag(number, 0) + varint(value)


def text(number: int, content: bytes) -> bytes:
    return tag(number, 2) + varint(len(content)) + content


NAN, MINUS = struct.pack("<d", float("nan")), struct.pack("<f", float("-inf"))
MESSAGES = [
    (b"", {}),
    (text(1, "é".encode()), {"name": "é"}),
    (whole(2, 2**63 - 1), {"big": 9223372036854775807}),
    (whole(2, 2**64 - 1), {"big": -1}),
    (whole(3, 2**64 - 1), {"huge": 18446744073709551615}),
    (text(4, b"\xff\x00"), {"raw": "/wA="}),
    (whole(5, 1), {"kind": "CLICK"}),
    (whole(5, 7), {"kind": 7}),
    (tag(6, 1) + struct.pack("<d", 0.1), {"price": 0.1}),
    (tag(6, 1) + NAN, {"price": "NaN"}),
    (tag(7, 5) + struct.pack("<f", 0.1), {"ratio": 0.10000000149011612}),
    (tag(7, 5) + MINUS, {"ratio": "-Infinity"}),
    (whole(8, 1), {"on": True}),
    (whole(9, 3), {"down": -2}),
    (text(10, b"\x01\x02"), {"many": [1, 2]}),
    (text(11, whole(1, 1) + whole(2, 5)), {"flags": {"true": 5}}),
    (whole(12, 0), {"maybe": 0}),
    (text(13, b""), {"inner": {"k": 0}}),
    (whole(15, 0), {"number": 0}),
    (text(16, whole(1, 1767225600) + whole(2, 123456789)), {"at": "2026-01-01T00:00:00.123456789Z"}),
    (text(16, whole(1, 10**15)), {"at": {"seconds": 10**15, "nanos": 0}}),
    (text(16, whole(2, 2 * 10**9)), {"at": {"seconds": 0, "nanos": 2 * 10**9}}),
    (text(17, whole(1, 2**60)), {"wrapped": 2**60}),
    (text(18, text(1, text(1, b"a") + text(2, whole(1, 0)))), {"free": {"a": None}}),
    (text(19, text(1, b"x/y") + text(2, b"zz")), {"any": {"type_url": "x/y", "value": "eno="}}),
    (text(20, whole(1, 4)) * 2, {"inners": [{"k": 4}, {"k": 4}]}),
    (tag(21, 1) + b"\xff" * 8, {"sixty": 2**64 - 1}),
    (whole(99, 5), {}),  # a field that this schema does not know
]


@pytest.mark.parametrize(("message", "said"), MESSAGES)
def test_every_kind_of_value_is_json_that_says_the_same(bid, message, said):
    assert json.loads(protobuf.MessageDecoder(bid)(message)) == {**ZERO, **said}


def test_a_message_of_googles_that_only_ends_like_a_wrapper_is_an_object(tmp_path):
    source = 'import "google/protobuf/type.proto"; message A { google.protobuf.EnumValue kind = 1; }'
    (tmp_path / "a.proto").write_text(f'syntax = "proto3"; {source}')
    kind = protobuf.message_type(proto_source.compiled(tmp_path / "a.proto"), "A")
    message = text(1, text(1, b"CLICK") + whole(2, 7))
    assert json.loads(protobuf.MessageDecoder(kind)(message)) == {
        "kind": {"name": "CLICK", "number": 7, "options": []}
    }


def test_whole_numbers_have_all_their_digits(bid):
    assert b'"big":9007199254740993,' in protobuf.MessageDecoder(bid)(whole(2, 2**53 + 1))


DAMAGED = [
    b"\x08",
    b"\x0a\x05ab",
    b"\x0a\x01\xff",
    b"\xff" * 11,
    tag(6, 1) + b"\x00",
]


@pytest.mark.parametrize("message", DAMAGED)
def test_what_is_no_message_is_rejected_records(bid, message):
    with pytest.raises(Rejected) as caught:
        protobuf.MessageDecoder(bid)(message)
    assert caught.value.reason == "not Protobuf of its message"


def test_a_message_of_any_depth_is_rejected_records(bid):
    deep = b""
    for _ in range(2000):
        deep = text(13, text(2, deep))
    with pytest.raises(Rejected):
        protobuf.MessageDecoder(bid)(deep)


WHOLE = b"".join(message for message, _ in MESSAGES)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1))
def test_damage_gives_an_event_or_a_reason_and_nothing_else(bid, changes):
    damaged = bytearray(WHOLE)
    for place, byte in changes:
        damaged[place] = byte
    found = "an event"
    try:
        json.loads(protobuf.MessageDecoder(bid)(bytes(damaged)))
    except Rejected as verdict:
        found = verdict.reason
    assert found in ("an event", "not Protobuf of its message")


def test_a_required_field_of_proto2_has_to_be_there(tmp_path):
    (tmp_path / "old.proto").write_text(
        'syntax = "proto2"; message Old { required int32 a = 1; optional int32 b = 2; }'
    )
    old = protobuf.message_type(proto_source.compiled(tmp_path / "old.proto"), "Old")
    assert protobuf.MessageDecoder(old)(whole(1, 0)) == b'{"a":0}'
    with pytest.raises(Rejected):
        protobuf.MessageDecoder(old)(whole(2, 1))


CLOSED = """syntax = "proto2"; package p;
enum Zero { ZERO = 0; ONE = 1; }
enum Status { NEW = 1; PAID = 2; }
message Order {
  required int64 id = 1; optional Status status = 2 [default = PAID]; repeated Status history = 3;
  map<string, Zero> by_item = 4; optional string note = 5; repeated Status packed = 6 [packed = true];
  optional group More = 7 { optional Status s = 1; } extensions 100 to 199;
  message Part { extend Order { repeated Status parts = 102; } }
}
extend Order { optional string coupon = 100; optional Order other = 101; }
"""


@pytest.mark.parametrize("syntax", ["proto2", "2023"])
@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("0801", {}),
        ("08011009", {"status": 9}),
        ("08011000", {"status": 0}),
        ("080110011009", {"status": 9}),
        ("0801180118091802", {"history": ["NEW", 9, "PAID"]}),
        ("080122050a0161100922050a01621001", {"by_item": {"a": 9, "b": "ONE"}}),
        ("08012a02c3a9", {"note": "é"}),
        ("08012a05636166e921", None),  # Latin-1
        ("08013203010900", {"packed": ["NEW", 9, 0]}),
        ("0801a20603414243", {"[p.coupon]": "ABC"}),
        ("0801aa060408021009", {"[p.other]": {"id": 2, "status": 9}}),
        ("0801b00602b00607", {"[p.Order.Part.parts]": ["PAID", 7]}),
        ("08013b08093c", {"more": {"s": 9}}),
        ("1001", None),  # without its id
    ],
)
def test_no_value_of_an_older_syntax_is_lost_or_changed(tmp_path, syntax, message, said):
    text = CLOSED
    if syntax == "2023":
        closed = "option features.enum_type = CLOSED; option features.utf8_validation = NONE;"
        text = text.replace('syntax = "proto2";', f'edition = "2023"; {closed}')
        text = re.sub(
            r"optional group (\w+) = 7 (\{.*?\})", r"message More \2 More more = 7 [DELIMITED];", text
        )
        text = text.replace("[DELIMITED]", "[features.message_encoding = DELIMITED]")
        text = text.replace(
            "required int64 id = 1", "int64 id = 1 [features.field_presence = LEGACY_REQUIRED]"
        )
        text = text.replace("optional ", "").replace(" [packed = true]", "")
    (tmp_path / "old.proto").write_text(text)
    decode = protobuf.MessageDecoder(
        protobuf.message_type(proto_source.compiled(tmp_path / "old.proto"), "p.Order")
    )
    if said is None:
        with pytest.raises(Rejected, match="not Protobuf of its message"):
            decode(bytes.fromhex(message))
    else:
        empty = {"history": [], "by_item": {}, "packed": []}
        found = json.loads(decode(bytes.fromhex(message)))
        inner = said.get("[p.other]", {})
        assert found == {"id": 1, **empty, **said} | ({"[p.other]": {**empty, **inner}} if inner else {})


def test_a_proto_file_that_cannot_be_used_is_told(folder, tmp_path):
    with pytest.raises(BadSchema, match="it has no message Bid, named with its package"):
        protobuf.message_type(proto_source.compiled(folder / "bid.proto"), "Bid")
    (tmp_path / "bad.proto").write_text('syntax = "proto3";\nmessage X { int32 a = ; }')
    with pytest.raises(BadSchema, match=r"bad\.proto:2:\d+: Expected field number"):
        proto_source.compiled(tmp_path / "bad.proto")
    (tmp_path / "alone.proto").write_text('syntax = "proto3";\nimport "gone.proto";')
    with pytest.raises(BadSchema, match=r"gone\.proto: File not found"):
        proto_source.compiled(tmp_path / "alone.proto")


def described(name: str, *fields: tuple[str, int], **more: object) -> FileDescriptorProto:
    """Returns a file as a registry gives it, which no compiler has checked: a message of whole numbers."""
    file = FileDescriptorProto(name=f"{name}.proto", package="p", syntax="proto2", **more)
    message = file.message_type.add(name=name)
    for field, number in fields:
        message.field.add(name=field, number=number, type=Kind.TYPE_INT32, label=Kind.LABEL_OPTIONAL)
    return file


def decoder(*files: FileDescriptorProto) -> protobuf.MessageDecoder:
    return protobuf.MessageDecoder(protobuf.MessageFile(files).message_at((0,)))


METHODS = ["IsInitialized", "DESCRIPTOR", "HasField", "FromString", "ListFields", "__class__"]


@pytest.mark.parametrize("name", METHODS)
def test_a_field_may_be_named_as_what_a_message_does(name: str):
    decode = decoder(described("M", (name, 1), ("other", 2)))
    assert json.loads(decode(whole(1, 7) + whole(2, 8))) == {name: 7, "other": 8}
    assert json.loads(decode(b"")) == {}


def test_well_known_types_are_protobufs_own():
    def file(*fields: tuple[str, int]) -> FileDescriptorProto:
        own = described("Timestamp", *fields, dependency=[])
        own.name, own.package = "google/protobuf/timestamp.proto", "google.protobuf"
        return own

    event = described("M", dependency=["google/protobuf/timestamp.proto"])
    event.message_type[0].field.add(
        name="at", number=1, type=Kind.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1
    )
    at = text(1, whole(1, 60))
    assert decoder(event)(at) == b'{"at":"1970-01-01T00:01:00Z"}'
    assert decoder(FileDescriptorProto.FromString(TIMESTAMP.serialized_pb), event)(at) == decoder(event)(at)
    for wrong in (file(("seconds", 1)), file(("moments", 1)), file(("nanos", 2), ("more", 3))):
        with pytest.raises(BadSchema, match="another than Protobuf's"):
            decoder(wrong, event)


def test_types_that_nest_too_deeply_are_told():
    file = described("M0")
    for level in range(1, 6_000):
        file.message_type.add(name=f"M{level}")
        inner = file.message_type[level - 1].field.add(name="m", number=1, type=Kind.TYPE_MESSAGE, label=1)
        inner.type_name = f".p.M{level}"
    with deeper(), pytest.raises(BadSchema, match="nested too deeply"):
        decoder(file)


def test_types_are_looked_at_once_whatever_messages_come():
    """A hub that knows every message, each of which knows the hub: their sizes are the hub's, too."""
    file, count = described("Hub"), 300
    for number in range(1, count):
        file.message_type.add(name=f"M{number}")
        for one, inner in ((0, f"M{number}"), (number, "Hub")):
            fields = file.message_type[one].field
            part = fields.add(name=f"f{len(fields)}", number=len(fields) + 1, type=Kind.TYPE_MESSAGE, label=1)
            part.type_name = f".p.{inner}"
    messages, sizes = protobuf.MessageFile([file]), SchemaSizes()
    seen: list[str] = []
    sizes._empty_size = lambda one, look=sizes._empty_size: (seen.append(one.full_name), look(one))[1]  # type: ignore[method-assign,misc]
    for number in range(count):
        protobuf.MessageDecoder(messages.message_at((number,)), sizes=sizes)
    assert len(seen) == len({*seen}) == count


@pytest.mark.parametrize("damage", [KeyError, TypeError, AttributeError, RuntimeError, DecodeError])
def test_whatever_the_library_raises_is_one_records_verdict(bid, damage, monkeypatch):
    def damaged(_message: object) -> None:
        raise damage("x")

    monkeypatch.setattr(protobuf, "_event", damaged)
    with pytest.raises(Rejected, match="^not Protobuf of its message$"):
        protobuf.MessageDecoder(bid)(b"")


def test_a_schema_that_nobody_can_read_is_its_messages_verdict():
    """A map's entry without a value, in a schema of the registry: whoever asks for it, and whenever."""
    file = described("M", ("n", 1))
    entry = file.message_type.add(name="E")
    entry.options.map_entry = True
    for number, name in enumerate("ab", start=1):
        entry.field.add(name=name, number=number, label=Kind.LABEL_OPTIONAL, type=Kind.TYPE_STRING)
    stored = StoredSchema("PROTOBUF", base64.b64encode(file.SerializeToString()).decode())
    decode = ProtobufByNumber(SimpleNamespace(schema=lambda _: stored), BOUND, None, None, SchemasAsked())
    first, second = b"\0\0\0\0\1\0" + whole(1, 5), b"\0\0\0\0\1\2\2" + text(1, b"x")
    assert json.loads(decode(first).text) == {"n": 5}
    for message in (second, second, first):
        with pytest.raises(Rejected) as told:
            decode(message)
        assert told.value.reason == UNREADABLE_SCHEMA


def test_a_schema_whose_text_is_no_base64_is_its_messages_verdict():
    stored = StoredSchema("PROTOBUF", 'syntax = "proto3"; message Café { string n = 1; }')
    decode = ProtobufByNumber(SimpleNamespace(schema=lambda _: stored), BOUND, None, None, SchemasAsked())
    with pytest.raises(Rejected) as told:
        decode(b"\0\0\0\0\1\0")
    assert told.value.reason == UNREADABLE_SCHEMA
