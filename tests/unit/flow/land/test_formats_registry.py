"""Confluent's wire format, and the schemas that messages name, from a registry over HTTP."""

from __future__ import annotations

import base64
import gzip
import io
import json
import pickle
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from sluice.clients.connections import Connection
from sluice.config.event import Event
from sluice.errors import RegistryRefused, RegistryUnavailable, SchemaRefused, WrongUse
from sluice.flow.land.expansion import BOUND
from sluice.flow.land.formats import decoders
from sluice.flow.land.formats.decoders import ProtobufByNumber
from sluice.flow.land.formats.framing import bare, framed, indexed
from sluice.flow.land.formats.proto_source import compiled_texts
from sluice.flow.land.formats.registry import SchemaRegistry, StoredSchema, address_of
from sluice.flow.land.read import bad_schemas
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from sluice.flow.land.task.decode import Decoding, _decode, decoding_of
from sluice.flow.land.task.reports import SchemasAsked, SeenSchemas, TaskReport
from tests.support.long_form import per_commit
from tests.support.registry_server import RegistryServer, serve

FIRST = {"type": "record", "name": "Click", "fields": [{"name": "url", "type": "string"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "ms", "type": "long"}]}
READER = {**FIRST, "fields": [*FIRST["fields"], {"name": "ms", "type": "long", "default": -1}]}
OUTER = {"type": "record", "name": "Out", "fields": [{"name": "click", "type": "Click"}]}
PROTO = """syntax = "proto3"; package adx; import "kinds.proto"; import "google/protobuf/timestamp.proto";
message First { int32 a = 1; google.protobuf.Timestamp at = 2; message Inner { int32 b = 1; } }
message Second { Kind kind = 1; }"""
KINDS = 'syntax = "proto3"; package adx; enum Kind { NONE = 0; CLICK = 1; }'


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr("sluice.flow.land.formats.registry.WAITS", (0.0, 0.0))


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with serve() as server:
        yield server


@pytest.fixture
def decoder(registry, monkeypatch) -> Callable[..., Callable[[bytes], bytes]]:
    """The decoder of a pipeline's `event`, as a worker gets it."""

    def make(form: object, login: str = "") -> Callable[[bytes], bytes]:
        host, _, port = registry.url.rpartition(":")
        name, _, password = login.partition(":")
        conn = {"conn_type": "http", "host": host, "port": int(port), "login": name, "password": password}
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps(conn))
        event = {"type": {"topic": True}, "time": {"record": True}, "format": form}
        found = decoding_of(Event.model_validate({**event, "registry": {"connection": "schemas"}}))
        assert found is not None and (not password or password not in repr(found))
        decode = _decode(pickle.loads(pickle.dumps(found)))
        return lambda content, header=None: decode(content, header).text

    return make


def message(number: int, content: bytes) -> bytes:
    return b"\0" + struct.pack(">I", number) + content


def avro(number: int, schema: dict, event: dict) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return message(number, out.getvalue())


def reason(decode: Callable[[bytes], bytes], content: bytes) -> str:
    with pytest.raises(Rejected) as caught:
        decode(content)
    return caught.value.reason


@pytest.mark.parametrize(
    ("content", "path", "rest"),
    [
        (b"\x00abc", (0,), b"abc"),
        (b"\x02\x02abc", (1,), b"abc"),
        (b"\x04\x00\x02x", (0, 1), b"x"),
        (b"\x02\x90\x03", (200,), b""),
    ],
)
def test_a_protobuf_message_names_its_type_by_a_path(content, path, rest):
    assert indexed(content) == (path, rest)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80",
        b"\x04\x00",
        b"\x01",
        b"\xff" * 11,
        b"\xfe\xff\xff\xff\x0f\x00",
        b"\x02\x01",  # as a Python index, the last message of the file
        b"\x04\x00\x01\x08",
        b"\x02\x80\x80\x80\x80\x10",  # 2^31
        b"\x02" + b"\xfe" + b"\xff" * 8 + b"\x7f",
    ],
)
def test_a_path_that_is_none_is_rejected_records(content):
    assert reason(indexed, content) == "broken message index behind the schema id"


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b'{"a":1}', b"\x01\0\0\0\x05x"])
def test_a_message_without_an_id_is_rejected_records(content):
    assert reason(framed, content) == "no schema id in front"
    assert framed(b"\0\0\x01\0\x02x") == (65538, b"x")


def test_each_message_is_read_by_the_schema_that_it_names(registry, decoder):
    registry.avro(1, FIRST)
    registry.avro(70_000, SECOND)
    decode = decoder("avro")
    assert decode(avro(1, FIRST, {"url": "/a"})) == b'{"url":"/a"}'
    assert decode(avro(70_000, SECOND, {"url": "/b", "ms": 7})) == b'{"url":"/b","ms":7}'
    assert decode(avro(1, FIRST, {"url": "/c"})) == b'{"url":"/c"}'
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/70000"]
    assert reason(decode, message(1, b"\xff")) == "not Avro of its schema"


def test_the_readers_schema_is_the_file_and_the_writers_the_registrys(registry, decoder, tmp_path):
    (tmp_path / "click.avsc").write_text(json.dumps(READER))
    registry.avro(1, FIRST)
    registry.avro(2, SECOND)
    registry.avro(3, {"type": "record", "name": "Other", "fields": []})
    decode = decoder({"avro": str(tmp_path / "click.avsc")})
    assert decode(avro(1, FIRST, {"url": "/a"})) == b'{"url":"/a","ms":-1}'
    assert decode(avro(2, SECOND, {"url": "/b", "ms": 7})) == b'{"url":"/b","ms":7}'
    assert reason(decode, message(3, b"")) == "does not fit the reader's schema"


def test_schemas_may_refer_to_others(registry, decoder):
    registry.avro(1, FIRST)
    registry.avro(2, OUTER, [{"name": "Click", "subject": "s/1", "version": 1}])
    decode = decoder("avro")
    assert decode(
        avro(2, {**OUTER, "fields": [{"name": "click", "type": FIRST}]}, {"click": {"url": "/"}})
    ) == (b'{"click":{"url":"/"}}')
    assert registry.asked == ["/schemas/ids/2", "/subjects/s%2F1/versions/1"]


def test_an_id_that_nobody_knows_is_rejected_records_and_asked_for_once(registry, decoder):
    registry.add(5, {"schemaType": "JSON", "schema": "{}"})
    registry.add(6, {"schema": "nonsense"})
    decode = decoder("avro")
    for _ in range(3):
        assert reason(decode, message(4, b"x")) == "unknown schema id"
    assert reason(decode, message(5, b"x")) == "schema of another kind or message"
    assert reason(decode, message(6, b"x")) == "schema that cannot be used"
    assert len(registry.asked) == 3


@pytest.mark.parametrize("bound", [1, 3])
def test_ids_without_a_schema_have_a_bound(registry, decoder, monkeypatch, bound):
    """Schemas that are there count nothing, and messages of those that the task knows go on landing."""
    monkeypatch.setattr(decoders, "MOST_WITHOUT_SCHEMA", bound)
    for number in range(1, 8):
        registry.avro(number, FIRST)
    decode, good = decoder("avro"), b'{"url":"/a"}'
    for number in range(1, 7):
        assert decode(avro(number, FIRST, {"url": "/a"})) == good
    for number in range(100, 100 + bound):
        assert reason(decode, message(number, b"x")) == "unknown schema id"
    asked = len(registry.asked)
    for number in (7, 200, 201):
        assert reason(decode, avro(number, FIRST, {"url": "/a"})) == "too many unknown schema ids"
    assert reason(decode, message(100, b"x")) == "unknown schema id"
    assert decode(avro(6, FIRST, {"url": "/a"})) == good
    assert len(registry.asked) == asked == 6 + bound


def test_a_protobuf_message_is_found_by_id_and_path(registry, decoder):
    registry.protobuf(1, {"kinds.proto": KINDS})
    references = [{"name": "kinds.proto", "subject": "s/1", "version": 1}]
    registry.protobuf(2, {"adx.proto": PROTO, "kinds.proto": KINDS}, references)
    decode = decoder("protobuf")
    assert decode(message(2, b"\x00\x08\x05")) == b'{"a":5}'
    assert decode(message(2, b"\x02\x02\x08\x01")) == b'{"kind":"CLICK"}'
    assert decode(message(2, b"\x04\x00\x00\x08\x09")) == b'{"b":9}'
    assert decode(message(2, b"\x00\x12\x02\x08\x01")) == b'{"a":0,"at":"1970-01-01T00:00:01Z"}'
    assert reason(decode, message(2, b"\x02\x08\x08\x01")) == "schema of another kind or message"
    largest = b"\x02\xfe\xff\xff\xff\x0f"
    assert reason(decode, message(2, largest)) == "schema of another kind or message"
    assert reason(decode, message(2, b"\x02\x01\x08\x01")) == "broken message index behind the schema id"
    assert registry.asked[0] == "/schemas/ids/2?format=serialized"


@pytest.mark.parametrize("answer", ["text", 501, 422])
def test_a_registry_without_descriptors_has_texts_that_are_compiled(registry, decoder, answer):
    registry.descriptors = answer
    registry.protobuf(5, {"kinds.proto": KINDS})
    refer = [{"name": "kinds.proto", "subject": "s/5", "version": 5}]
    registry.protobuf(6, {"all.proto": PROTO, "kinds.proto": KINDS}, refer)
    decode = decoder("protobuf")
    assert json.loads(decode(message(6, b"\x02\x02\x08\x01"))) == {"kind": "CLICK"}
    assert json.loads(decode(message(6, b"\x00\x08\x05\x12\x02\x08\x01"))) == {
        "a": 5,
        "at": "1970-01-01T00:00:01Z",
    }
    asked = "/schemas/ids/6?format=serialized"
    others = [] if answer == "text" else ["/schemas/ids/6"]
    serialized = "?format=serialized" if answer == "text" else ""
    assert registry.asked == [asked, *others, f"/subjects/s%2F5/versions/5{serialized}"]


BUILT_IN = """syntax = "proto3"; package p;
import "google/type/date.proto"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
import "google/type/timeofday.proto";
message Order {
  option (confluent.message_meta).doc = "an order";
  google.type.Date day = 1; confluent.type.Decimal price = 2 [(confluent.field_meta).params = {key: "scale"}];
  google.type.TimeOfDay at = 3;
}"""


@pytest.mark.parametrize("answer", ["text", "serialized"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("0a07 08ea0f100b1814", {"day": "2026-11-20"}),
        ("0a05 08ea0f100b", {"day": {"year": 2026, "month": 11, "day": 0}}),
        ("1208 0a0204d21001 1802", {"price": "12.34"}),
        ("1203 0a01ff", {"price": "-1"}),
        ("1206 0a010118c801", {"price": {"value": "AQ==", "precision": 0, "scale": 200}}),
        ("1a06 080a103b2000", {"at": "10:59:00"}),
        ("1a07 080a2080c2d72f", {"at": "10:00:00.100"}),
        ("1a02 0818", {"at": {"hours": 24, "minutes": 0, "seconds": 0, "nanos": 0}}),
    ],
)
def test_a_schema_may_import_what_registries_have_built_in(registry, decoder, answer, content, said):
    registry.descriptors = answer
    registry.protobuf(7, {"order.proto": BUILT_IN})
    assert json.loads(decoder("protobuf")(message(7, b"\0" + bytes.fromhex(content)))) == said


def test_imports_of_options_alone_may_be_nowhere(registry, decoder):
    """The registry has the descriptors of a schema, and not those of the rules that its options name."""
    rules = 'syntax="proto3"; import "google/protobuf/descriptor.proto"; message Rule { bool on = 1; } '
    rules += "extend google.protobuf.FieldOptions { Rule rule = 1159; }"
    order = 'syntax="proto3"; import "rules.proto"; message O { int32 n = 1 [(rule).on = true]; %s }'
    registry.protobuf(8, {"o.proto": order % "", "rules.proto": rules})
    registry.protobuf(9, {"o.proto": order % "Rule all = 2;", "rules.proto": rules})
    decode = decoder("protobuf")
    assert decode(message(8, bytes.fromhex("000805"))) == b'{"n":5}'
    assert reason(decode, message(9, bytes.fromhex("000805"))) == "schema that cannot be used"


def test_a_run_says_why_a_schema_cannot_be_used(registry):
    asked = SchemasAsked()
    lost = FileDescriptorProto(name="o.proto", dependency=["lost.proto"], syntax="proto3")
    lost.message_type.add(name="O").field.add(name="a", number=1, label=1, type=11, type_name=".Lost")
    stored = StoredSchema("PROTOBUF", base64.b64encode(lost.SerializeToString()).decode())
    decode = ProtobufByNumber(SimpleNamespace(schema=lambda _: stored), BOUND, None, None, asked)
    for number in range(1, 9):
        assert reason(decode, message(number, b"\0\x08\x05")) == "schema that cannot be used"
    seen = [SeenSchemas("dc1", name, asked.sizes, asked.without) for name in ("10", "11")]
    first, *_, last = bad_schemas(TaskReport(schemas=tuple(seen)))
    assert first.startswith("schema 1 cannot be used: ") and ".Lost" in first
    assert first.endswith("; nobody gives its imports lost.proto")
    assert last == "3 more schemas cannot be used"


def test_a_registry_that_has_neither_descriptors_nor_texts_says_so(registry, decoder):
    registry.status = 501
    with pytest.raises(
        RegistryRefused, match=r"status 501 of .*: this registry has no descriptors"
    ) as caught:
        decoder("protobuf")(message(6, b"\x00"))
    assert (caught.value.retryable, len(str(caught.value).splitlines())) == (False, 1)
    assert len(registry.asked) == 2


A = 'syntax = "proto3"; message A { int32 a = 1; }'


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('import "/etc/passwd"; message A {}', []),
        ('import "../secret.proto"; message A {}', []),
        ('import "other.proto"; message A {}', []),
        (A, ["../escaped.proto"]),
        (A, ["/tmp/escaped.proto"]),
        (A, ["a/./escaped.proto"]),
        (A, [".."]),
        (A, [""]),
        (A, ["a//b"]),
        (A, ["x" * 600]),
        (A, ["a\0b"]),
        (A, ["a", "a/b"]),
        ("message A {" * 100_000, []),
        ('syntax = "proto3"; message A { ' + "repeated " * 100_000 + "}", []),
        ("nonsense", []),
        ("message A { optional \ud800 a = 1; }", []),
    ],
)
def test_a_text_of_the_registry_reaches_no_other_file_and_no_bound(text, names, tmp_path, monkeypatch):
    """Its verdict is its messages'; nothing is written beside the folder of the compilation."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "secret.proto").write_text(A)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with pytest.raises(BadSchema) as caught:
        compiled_texts(text, dict.fromkeys(names, A))
    assert len(str(caught.value)) < 400
    assert {path.name for path in tmp_path.rglob("*")} == {"tmp", "secret.proto"}


def test_a_text_that_takes_too_long_is_its_messages_verdict(monkeypatch):
    monkeypatch.setattr("sluice.flow.land.formats.proto_source.SECONDS", 0.01)
    with pytest.raises(BadSchema, match="does not compile within"):
        compiled_texts(A, {})


def test_a_machine_without_a_compiler_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    with pytest.raises(WrongUse, match="grpcio-tools"):
        compiled_texts(A, {})


def test_with_a_proto_file_only_its_message_is_taken(registry, decoder, tmp_path):
    (tmp_path / "kinds.proto").write_text(KINDS)
    own = PROTO.replace("Kind kind = 1;", "Kind kind = 1; int32 later = 2;")
    (tmp_path / "adx.proto").write_text(own)
    registry.protobuf(1, {"kinds.proto": KINDS})
    references = [{"name": "kinds.proto", "subject": "s/1", "version": 1}]
    registry.protobuf(2, {"adx.proto": PROTO, "kinds.proto": KINDS}, references)
    decode = decoder({"protobuf": {"file": str(tmp_path / "adx.proto"), "message": "adx.Second"}})
    assert decode(message(2, b"\x02\x02\x08\x01")) == b'{"kind":"CLICK","later":0}'
    assert reason(decode, message(2, b"\x00\x08\x05")) == "schema of another kind or message"


HTML = {"Content-Type": "text/html"}
JETTY = b'{"error_code":404,"message":"HTTP 404 Not Found"}'
SCHEMA_7 = "/schemas/ids/7"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((404, HTML, b"<html>Not Found</html>"), "status 404 of http://.*/schemas/ids/7.*base path"),
        ((404, {}, JETTY), "status 404 of http://.*/schemas/ids/7, error code 404.*base path"),
        ((404, {}, b""), "status 404 .*base path"),
        ((404, {}, b"[40403]"), "status 404 .*base path"),
        ((404, {}, b'{"error_code":"40403"}'), "status 404 .*base path"),
        ((404, {}, b"[" * 100_000), "status 404 .*base path"),
        ((404, {}, b'{"error_code":40401}'), "error code 40401"),
        ((200, HTML, b"<html>Log in</html>"), "/schemas/ids/7 is no schema.*base path"),
        ((200, {}, b"{}"), "is no schema"),
        ((200, {}, b'["AVRO"]'), "is no schema"),
        ((200, {}, b'{"schema":{"type":"record"}}'), "is no schema"),
        ((200, {}, b'{"schema":"\xff"}'), "is no schema"),
        ((200, {}, b'{"schema":"1","references":[{"name":"x"}]}'), "is no schema"),
        ((200, {}, b""), "is no schema"),
        ((204, {}, b""), "is no schema"),
        ((301, {"Location": "http://elsewhere/api"}, b""), "now at http://elsewhere/api"),
        ((400, {}, b"{}"), "status 400"),
        ((401, {}, b'{"error_code":40101}'), "status 401.*check the login"),
        ((403, {}, b""), "status 403.*check the login"),
        ((422, {}, b'{"error_code":42202}'), "status 422 .*error code 42202"),
    ],
)
def test_only_the_registrys_own_word_says_that_a_schema_is_unknown(registry, decoder, answer, told):
    decode = decoder("avro")
    registry.bodies = [answer]
    with pytest.raises(RegistryRefused, match=told) as caught:
        decode(message(7, b"x"))
    assert (caught.value.retryable, caught.value.exit_code) == (False, 3)
    assert len(str(caught.value).splitlines()) == 1
    assert reason(decode, message(7, b"x")) == "unknown schema id"  # the registry itself says so: 40403
    assert registry.asked == [SCHEMA_7, SCHEMA_7]


def test_a_wrong_base_path_is_told_and_the_right_one_kept(registry):
    registry.base = "/api/registry"
    registry.avro(7, FIRST)
    host, _, port = registry.url.rpartition(":")
    wrong, right = (Connection("c", host=host + path, port=int(port)) for path in ("/api", "/api/registry"))
    assert SchemaRegistry(address_of(right), serialized=False).schema(7) == StoredSchema(
        "AVRO", json.dumps(FIRST)
    )
    assert SchemaRegistry(address_of(right), serialized=False).schema(8) is None
    SchemaRegistry(address_of(right), serialized=False).check()
    for call in (lambda found: found.schema(7), lambda found: found.check()):
        with pytest.raises(RegistryRefused, match=rf"404 of {registry.url}/api/schemas/ids/.*base path"):
            call(SchemaRegistry(address_of(wrong), serialized=False))


def test_an_id_that_no_registry_can_have_is_unknown_without_asking(registry, decoder):
    """Asked for it, Confluent's own answers a plain 404: such a message would stop its hour for good."""
    decode = decoder("avro")
    for number in (1 << 31, (1 << 32) - 1):
        assert reason(decode, message(number, b"x")) == "unknown schema id"
    assert registry.asked == []
    assert reason(decode, message((1 << 31) - 1, b"x")) == "unknown schema id"
    assert registry.asked == [f"/schemas/ids/{(1 << 31) - 1}"]


@pytest.mark.parametrize("code", [40401, 40402])
def test_what_a_schema_refers_to_and_nobody_has_stops_the_step(registry, decoder, code):
    registry.avro(2, OUTER, [{"name": "Click", "subject": "s/1", "version": 1}])
    decode = decoder("avro")
    gone = json.dumps({"error_code": code, "message": "not found"}).encode()
    registry.bodies = [(200, {}, json.dumps(registry.schemas[2]).encode()), (404, {}, gone)]
    with pytest.raises(RegistryRefused, match=rf"s%2F1/versions/1.*error code {code}.*register again"):
        decode(message(2, b"x"))


def of_size(size: int) -> bytes:
    """A registry's answer of so many bytes, with a good schema in it."""
    answer = {"schema": json.dumps(FIRST), "pad": ""}
    return json.dumps({**answer, "pad": "x" * (size - len(json.dumps(answer)))}).encode()


@pytest.mark.parametrize("status", [200, 404])
def test_an_answer_has_a_bound(registry, status):
    """4 MiB are read; of a longer one no more than that is ever held."""
    address = address_of(Connection("c", host=registry.url))
    registry.bodies = [(200, {}, of_size(4 << 20)), (status, {}, of_size((4 << 20) + 1))]
    registry.bodies += [(status, {}, b"x" * (64 << 20))]
    assert SchemaRegistry(address, serialized=False).schema(1) == StoredSchema("AVRO", json.dumps(FIRST))
    tracemalloc.start()
    try:
        for _ in range(2):
            with pytest.raises(RegistryRefused, match=r"ids/1 is larger than 4 MiB.*address") as caught:
                SchemaRegistry(address, serialized=False).schema(1)
            assert len(str(caught.value).splitlines()) == 1
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_compressed_answer_is_not_unpacked(registry):
    """It was asked for as it is, and of 64 KiB on the wire nobody knows how much they become."""
    registry.bodies = [(200, {"Content-Encoding": "gzip"}, gzip.compress(of_size(1000)))] * 3
    with pytest.raises(RegistryUnavailable, match="compressed"):
        SchemaRegistry(address_of(Connection("c", host=registry.url)), serialized=False).schema(1)
    assert registry.bodies == []


@pytest.mark.parametrize("others", [500, 501])
@pytest.mark.parametrize("chain", per_commit([True, False]))
def test_references_of_a_schema_have_a_bound(registry, others, chain):
    """Whether each refers to the next one, or one to all."""
    refer = [{"name": f"n{n}", "subject": f"s/{n}", "version": n} for n in range(2, others + 2)]
    for n in range(1, others + 2):
        own = refer[n - 1 : n] if chain else refer if n == 1 else []
        registry.avro(n, {**FIRST, "name": f"R{n}"}, own)
    known = SchemaRegistry(address_of(Connection("c", host=registry.url)), serialized=False)
    if others == 500:
        assert len(known.schema(1).references) == 500
    else:
        with pytest.raises(BadSchema, match=r"refers to more than 500 others"):
            known.schema(1)


def test_schemas_in_a_circle_and_large_references_reject_their_messages_alone(registry, decoder, monkeypatch):
    """Whoever may register a schema does not stop everybody's hour by it."""
    registry.avro(1, FIRST, [{"name": "Out", "subject": "s/2", "version": 2}])
    registry.avro(2, OUTER, [{"name": "Click", "subject": "s/1", "version": 1}])
    registry.avro(3, FIRST)
    registry.avro(4, OUTER, [{"name": "Click", "subject": "s/3", "version": 3}])
    decode = decoder("avro")
    assert reason(decode, message(2, b"x")) == "schema that cannot be used"
    assert decode(avro(3, FIRST, {"url": "u"})) == b'{"url":"u"}'
    monkeypatch.setattr("sluice.flow.land.formats.registry.MOST_REFERRED", len(json.dumps(FIRST)) - 1)
    assert reason(decode, message(4, b"x")) == "schema that cannot be used"


def test_schemas_that_are_kept_have_a_bound(registry, decoder, monkeypatch):
    """Of three, two are kept: the third takes the first one's place, which is asked for once more."""
    for number in (1, 2, 3):
        registry.avro(number, FIRST)
    monkeypatch.setattr(decoders, "MOST_KEPT", 2 * len(json.dumps(FIRST)))
    decode = decoder("avro")
    for number in (1, 2, 1, 2, 3, 2, 1):
        assert decode(avro(number, FIRST, {"url": "u"})) == b'{"url":"u"}'
    assert [path for path in registry.asked if "/ids/" in path] == [
        f"/schemas/ids/{number}" for number in (1, 2, 3, 1)
    ]


def test_large_schemas_in_turn_cost_what_there_are_messages_for(registry, decoder, monkeypatch):
    """Of two that take turns one is kept: each message would fetch and parse another."""
    size = len(json.dumps(FIRST))
    for number in (1, 2):
        registry.avro(number, FIRST)
    monkeypatch.setattr(decoders, "MOST_KEPT", size)
    monkeypatch.setattr(decoders, "AGAIN_AT_ONCE", 3 * size)
    monkeypatch.setattr(decoders, "AGAIN_BY_MESSAGE", size // 10)
    decode = decoder("avro")
    landed, reasons = [], set()
    for turn in range(100):
        number = 1 + turn % 2
        try:
            landed.append(decode(avro(number, FIRST, {"url": "u"})))
        except Rejected as verdict:
            reasons.add(verdict.reason)
    assert reasons == {"too many large schemas in turn"}
    asked = [path for path in registry.asked if "/ids/" in path]
    assert 10 < len(asked) <= 2 + 3 + 100 // 10
    assert 50 < len(landed) < 100 and {*landed} == {b'{"url":"u"}'}


def test_each_further_try_waits_longer_and_their_number_is_bounded(registry, monkeypatch):
    monkeypatch.undo()
    address = address_of(Connection("c", host=registry.url))
    registry.avro(1, FIRST)
    for answers, waits in [(0, []), (1, [0.5]), (3, [0.5, 1.0, 2.0]), (4, [0.5, 1.0, 2.0, 4.0])]:
        registry.bodies = [(503, {}, b"")] * answers
        slept: list[float] = []
        assert SchemaRegistry(address, serialized=False, sleep=slept.append).schema(1) is not None
        assert slept == waits
    registry.bodies, slept = [(429, {}, b"")] * 5, []
    with pytest.raises(RegistryUnavailable, match="status 429"):
        SchemaRegistry(address, serialized=False, sleep=slept.append).schema(1)
    assert slept == [0.5, 1.0, 2.0, 4.0] and registry.bodies == []


def test_an_answer_that_cannot_be_unpacked_is_tried_again(registry, decoder):
    registry.avro(1, FIRST)
    registry.bodies = [(200, {"Content-Encoding": "gzip"}, b"no gzip")]
    assert decoder("avro")(avro(1, FIRST, {"url": "/a"})) == b'{"url":"/a"}'


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_registry_that_does_not_answer_is_unavailable(registry, decoder, status):
    decode = decoder("avro")
    registry.status = status
    with pytest.raises(RegistryUnavailable, match=f"status {status}") as caught:
        decode(message(1, b"x"))
    assert (caught.value.retryable, caught.value.exit_code) == (True, 3)
    registry.status = None
    registry.avro(1, FIRST)
    assert decode(avro(1, FIRST, {"url": "/a"})) == b'{"url":"/a"}'


def test_a_closed_port_is_unavailable_too(decoder):
    with serve() as gone:
        pass
    decode = _decode(Decoding("avro", registry=address_of(Connection("x", host=gone.url))))
    with pytest.raises(RegistryUnavailable):
        decode(message(1, b"x"), None)


def test_a_login_is_sent_and_a_wrong_one_refused(registry, decoder):
    registry.login = "me:secret"
    registry.avro(1, FIRST)
    assert decoder("avro", "me:secret")(avro(1, FIRST, {"url": "/a"})) == b'{"url":"/a"}'
    with pytest.raises(RegistryRefused, match="status 401") as caught:
        decoder("avro", "me:wrong")(avro(1, FIRST, {"url": "/a"}))
    assert (caught.value.retryable, caught.value.exit_code) == (False, 3)
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("conn", "url"),
    [
        (Connection("c", host="http://r", port=8081), "http://r:8081"),
        (Connection("c", host="r", port=8081), "http://r:8081"),
        (Connection("c", host="r", schema="https"), "https://r"),
        (Connection("c", host="https://r/api"), "https://r/api"),
        (Connection("c", host="https://r/api/", port=8081), "https://r:8081/api/"),
        (Connection("c", host="r/api", port=8081), "http://r:8081/api"),
    ],
)
def test_the_address_is_an_airflow_connection(conn, url):
    assert address_of(conn).url == url


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ({"host": "http://r", "port": 8081}, "http://r:8081"),
        ({"host": "r", "schema": "http"}, "http://r"),
        ({"host": "r", "schema": "https"}, "https://r"),
        ({"host": "https://r"}, "https://r"),
        ({"host": "localhost", "port": 8081}, "http://localhost:8081"),
        ({"host": "127.0.0.1:8081"}, "http://127.0.0.1:8081"),
    ],
)
def test_a_password_travels_as_the_connection_says(place, url):
    assert address_of(Connection("c", login="me", password="hush", **place)).url == url


@pytest.mark.parametrize("host", ["r", "r:8081", "r/api", "localhost.example"])
def test_a_password_is_not_sent_in_the_clear_by_default(host):
    with pytest.raises(WrongUse, match=rf"in the clear to {host}: write https://{host}") as caught:
        address_of(Connection("c", host=host, login="me", password="hush"))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["http://me:hush@r", "me:hush@r:8081", "https://hush@r", "http://me:hu/sh@r"]
)
@pytest.mark.parametrize("login", [None, "me"])
def test_a_login_in_the_host_is_refused_and_not_shown(host, login):
    with pytest.raises(WrongUse, match=r"^connection 'c': its host holds a login: write") as caught:
        address_of(Connection("c", host=host, login=login))
    assert "hu" not in str(caught.value)


def test_a_connection_without_a_host_or_with_lost_files_is_wrong():
    for host in ("kafka://r", "r:x", "[", "http://[::1"):
        with pytest.raises(WrongUse, match=r"connection 'c': expected http"):
            address_of(Connection("c", host=host))
    with pytest.raises(WrongUse, match="host is missing"):
        address_of(Connection("c"))
    lost = address_of(Connection("c", host="https://r", extra={"ca": "/nowhere/ca.pem"}))
    with pytest.raises(WrongUse, match="certificate files"):
        _decode(Decoding("avro", registry=lost))


def test_a_schema_file_that_cannot_be_used_is_told_before_anything_is_read(tmp_path: Path):
    (tmp_path / "bad.avsc").write_text("{}")
    (tmp_path / "bad.proto").write_text("nonsense")
    base = {"type": {"topic": True}, "time": {"record": True}}
    forms = [{"avro": "bad.avsc"}, {"protobuf": {"file": "bad.proto", "message": "X"}}]
    for form in forms:
        event = Event.model_validate({**base, "format": form}, context={"folder": tmp_path})
        with pytest.raises(SchemaRefused, match=r"schema .*bad\.\w+ \(.*cannot be used"):
            decoding_of(event)


@pytest.fixture
def asked_as(registry):
    """What a registry is asked as, by the extra of its connection."""

    def make(extra: dict, **login: str) -> SchemaRegistry:
        return SchemaRegistry(address_of(Connection("c", host=registry.url, extra=extra, **login)), False)

    registry.avro(1, FIRST)
    return make


def test_a_bearers_token_goes_with_every_request(registry, asked_as):
    registry.login = "Bearer hush"
    cloud = {"logical_cluster": "lsrc-1", "identity_pool": "pool-1"}
    known = asked_as({"token": "hush", **cloud})
    assert known.schema(1) == StoredSchema("AVRO", json.dumps(FIRST))
    assert (registry.headers[0]["target-sr-cluster"], registry.headers[0]["Confluent-Identity-Pool-Id"]) == (
        "lsrc-1",
        "pool-1",
    )
    with pytest.raises(RegistryRefused, match=r"status 401.*`token` or `token_url`") as caught:
        asked_as({"token": "wrong"}).schema(1)
    address = address_of(Connection("c", host=registry.url, extra={"token": "wrong"}))
    assert "wrong" not in str(caught.value) + repr(address)


def test_a_token_is_asked_for_and_kept_until_it_ends(registry, asked_as, monkeypatch):
    registry.login, registry.client = "Bearer first", "me:hu%2Fsh"
    extra = {"token_url": f"{registry.url}/token", "scope": "schemas read"}
    known = asked_as(extra, login="me", password="hu/sh")
    registry.expires = "3600"  # as text, as Azure writes it
    assert known.schema(1) is not None and known.schema(1) is not None
    assert registry.granted == [{"grant_type": ["client_credentials"], "scope": ["schemas read"]}]
    registry.login = "Bearer second"  # the first is withdrawn
    assert known.schema(1) is not None and len(registry.granted) == 2
    now = time.monotonic()
    monkeypatch.setattr("sluice.flow.land.formats.registry.time.monotonic", lambda: now + 3_600)
    assert known.schema(1) is not None and len(registry.granted) == 3


@pytest.mark.parametrize(
    ("client", "token", "told"),
    [("me:other", "x", "status 401 of .*/token"), ("me:hush", "a\nb", "status 200 of .*/token")],
)
def test_who_gets_no_token_is_told_where(registry, asked_as, client, token, told):
    registry.login, registry.client = f"Bearer {token}", client
    known = asked_as({"token_url": f"{registry.url}/token"}, login="me", password="hush")
    with pytest.raises(
        RegistryRefused, match=rf"{told}.*check token_url, scope, login and password"
    ) as caught:
        known.schema(1)
    assert "hush" not in str(caught.value) and registry.asked == []


@pytest.mark.parametrize(
    ("extra", "login", "told"),
    [
        ({"token": 5}, {}, "token in its extra is no text"),
        ({"token": "hush"}, {"login": "me"}, "expected `token` in its extra, or a login"),
        ({"token": "hush", "token_url": "http://t"}, {}, "expected `token` in its extra, or a login"),
        ({"token_url": "http://t"}, {"login": "me"}, "needs the client's id and secret"),
        ({"token_url": "t/token"}, {"login": "me", "password": "hush"}, r"expected http\(s\)://host/path"),
        ({"token_url": "http://me:hush@t"}, {"login": "me", "password": "hush"}, "without a login"),
    ],
)
def test_a_login_that_means_two_things_is_refused(extra, login, told):
    with pytest.raises(WrongUse, match=told) as caught:
        address_of(Connection("c", host="http://r", extra=extra, **login))
    assert "hush" not in str(caught.value)


def test_a_token_is_not_sent_in_the_clear_by_default():
    with pytest.raises(WrongUse, match="in the clear to r: write https://r"):
        address_of(Connection("c", host="r", extra={"token": "hush"}))


GUID = "8f0e1ff7-8f3c-4e2d-9d3a-0c7a5d9e4b11"


@pytest.mark.parametrize("in_front", [True, False])
def test_a_schema_is_named_by_a_guid_in_a_header_or_in_front(registry, decoder, in_front):
    """Written by hand as SchemaId does in Confluent's Python client: 01, the GUID, and Protobuf's path."""
    proto = RegistryServer()
    proto.protobuf(6, {"all.proto": PROTO, "kinds.proto": KINDS}, [])
    proto.protobuf(5, {"kinds.proto": KINDS})
    refer = [{"name": "kinds.proto", "subject": "s/5", "version": 5}]
    registry.schemas |= {GUID: {"schema": json.dumps(FIRST)}, ("s/5", "5"): proto.schemas[5]}
    content = avro(1, FIRST, {"url": "/a"})[5:]
    head = b"\x01" + bytes.fromhex("8f0e1ff78f3c4e2d9d3a0c7a5d9e4b11")
    decode = decoder("avro")
    assert (decode(head + content) if in_front else decode(content, head)) == b'{"url":"/a"}'
    assert registry.asked == [f"/schemas/guids/{GUID}"]
    registry.schemas[GUID] = {**proto.schemas[6], "references": refer}
    head += b"\x04\x00\x00"
    decode = decoder("protobuf")
    assert (decode(head + b"\x08\x05") if in_front else decode(b"\x08\x05", head)) == b'{"b":5}'


@pytest.mark.parametrize("header", [b"", b"\1", b"\0\0\0", b"\2" + b"x" * 16, b"\1" + b"x" * 15])
def test_a_header_that_names_no_schema_is_rejected_records(header):
    with pytest.raises(Rejected) as caught:
        framed(b"\0\0\0\0\1x", header)
    assert caught.value.reason == "no schema id in front"


def test_an_id_may_have_eight_bytes(registry, decoder):
    """As Apicurio's serializers write it: no id of four bytes is 0."""
    registry.avro(1, FIRST)
    content = avro(1, FIRST, {"url": "/a"})[5:]
    decode = decoder("avro")
    assert decode(b"\0" + (1).to_bytes(8, "big") + content) == b'{"url":"/a"}'
    assert reason(decode, b"\0" + (2**31).to_bytes(8, "big") + content) == "unknown schema id"
    assert reason(decode, b"\0" * 5 + b"abc") == "unknown schema id"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b'\0\0\0\0\x14{"a":1}', b'{"a":1}'),
        (b"\0" + (20).to_bytes(8, "big") + b'{"a":1}', b'{"a":1}'),
        (b"\1" + b"g" * 16 + b'{"a":1}', b'{"a":1}'),
        (b'{"a":1}', b'{"a":1}'),
        (b'\n{"a":1}', b'\n{"a":1}'),
        (b"\0\0\0\0\x14", b"\0\0\0\0\x14"),
        (b"\1abc", b"\1abc"),
        (b"", b""),
        (None, None),
    ],
)
def test_json_loses_what_names_its_schema_and_nothing_else(message, said):
    assert bare(message) == said


UNION = [
    FIRST,
    {"type": "record", "name": "Buy", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]},
]


def test_an_event_has_the_full_name_of_its_schema(registry, monkeypatch, tmp_path):
    registry.avro(1, {**FIRST, "namespace": "shop"})
    registry.avro(2, UNION)
    registry.avro(3, "long")
    registry.protobuf(6, {"kinds.proto": KINDS, "all.proto": ""}, [])
    registry.protobuf(
        7, {"all.proto": PROTO.replace('import "kinds.proto";', "").replace("Kind kind", "int32 k")}
    )
    monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps({"conn_type": "http", "host": registry.url}))

    def names(kind: str, *messages: bytes) -> list[str]:
        base = {"type": {"schema": True}, "time": {"record": True}, "registry": {"connection": "schemas"}}
        found = decoding_of(Event.model_validate({**base, "format": kind}))
        assert found is not None
        decode = _decode(found)
        return [decode(content, None).name for content in messages]

    click = avro(1, FIRST, {"url": "/a"})
    assert names("avro", click, message(2, b"\0" + click[5:]), message(2, b"\2\6"), message(3, b"\6")) == [
        "shop.Click",
        "Click",
        "shop.Buy",
        "long",
    ]
    in_proto = [message(7, path) for path in (b"\0\x08\5", b"\2\2\x08\5", b"\4\0\0\x08\5")]
    assert names("protobuf", *in_proto) == ["adx.First", "adx.Second", "adx.First.Inner"]


def test_a_registry_is_asked_through_the_proxy_of_the_environment(registry, monkeypatch):
    registry.avro(1, FIRST)
    there = address_of(Connection("c", host="http://registry.invalid:8081"))
    monkeypatch.setenv("http_proxy", registry.url)
    assert SchemaRegistry(there, serialized=False).schema(1) == StoredSchema("AVRO", json.dumps(FIRST))
    assert registry.asked == ["http://registry.invalid:8081/schemas/ids/1"]
    with serve() as gone:
        pass
    monkeypatch.setenv("http_proxy", gone.url.replace("//", "//me:hush@"))
    told = rf"proxy {gone.url.removeprefix('http://')} of HTTP_PROXY, see NO_PROXY"
    with pytest.raises(RegistryUnavailable, match=told) as caught:
        SchemaRegistry(there, serialized=False).schema(1)
    assert "hush" not in str(caught.value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    here = address_of(Connection("c", host=registry.url))
    assert SchemaRegistry(here, serialized=False).schema(1) is not None
