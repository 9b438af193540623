"""Confluent's wire format, and the schemas that messages name, from a registry over HTTP."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import fastavro
import pytest

from sluice.clients.connections import Connection
from sluice.config.event import Event
from sluice.errors import RegistryRefused, RegistryUnavailable, SchemaRefused, WrongUse
from sluice.flow.land.formats import decoders
from sluice.flow.land.formats.decoders import framed, indexed
from sluice.flow.land.formats.registry import SchemaRegistry, StoredSchema, address_of
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from sluice.flow.land.task.decode import Decoding, _decode, decoding_of
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
        return _decode(pickle.loads(pickle.dumps(found)))

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
    assert reason(indexed, content) == "no schema id in front"


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
    assert reason(decode, message(2, b"\x02\x01\x08\x01")) == "no schema id in front"
    assert registry.asked[0] == "/schemas/ids/2?format=serialized"


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
        decode(message(1, b"x"))


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
