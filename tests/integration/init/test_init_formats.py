"""`sluice init` of topics whose messages are Avro and Protobuf, by a schema file and by a registry."""

from __future__ import annotations

import json
import struct
from datetime import timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import fastavro
import pytest
import yaml
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from sluice.cli.commands import commands
from sluice.clients.kafka.topics import SampledRecord
from sluice.clients.lake.folder import FolderLake
from sluice.config.files import read
from sluice.doctor.events import parse
from sluice.errors import WrongUse
from sluice.flow.land.formats.proto_source import compiled
from sluice.flow.land.formats.protobuf import message_type
from sluice.flow.land.task.decode import decoding_of
from sluice.flow.load.load import load
from sluice.slices import to_ms
from tests.integration.landed import START, Event, client_of, land, unit
from tests.support.long_form import per_commit
from tests.support.registry_server import serve

pytestmark = pytest.mark.integration

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "kind", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "id", "type": "long"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order { string kind = 1; google.protobuf.Timestamp at = 2; uint64 id = 3; repeated string tags = 4; }
"""
COUNT = 300


def orders() -> list[dict]:
    return [
        {
            "kind": ("paid", "sent")[number % 2],
            "at": START + timedelta(seconds=7 * number, milliseconds=number),
            "id": 2**53 + number,
            "price": Decimal(number) / 100,
            "tags": [f"t{n}" for n in range(number % 3)],
            "note": None if number % 5 else f"n{number}",
        }
        for number in range(COUNT)
    ]


def avro(event: dict, head: bytes) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), event)
    return head + out.getvalue()


def protobuf(event: dict, folder: Path, head: bytes) -> bytes:
    (folder / "order.proto").write_text(PROTO)
    made = message_type(compiled(folder / "order.proto"), "shop.Order")(
        kind=event["kind"], id=event["id"], tags=event["tags"]
    )
    made.at.FromDatetime(event["at"])
    return head + made.SerializeToString()


@pytest.fixture
def topic(name: str, kafka_broker: str):
    """Makes a topic of these messages, at the times of `orders`."""

    def send(messages: list[bytes]) -> str:
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
        admin.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "-1"})])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=kafka_broker)
        for message, event in zip(messages, orders(), strict=True):
            producer.send(name, message, timestamp_ms=to_ms(event["at"]))
        producer.close()
        return name

    return send


@pytest.fixture
def client(clickhouse_server, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return client_of(clickhouse_server)


def run(name: str, broker: str, folder: Path, *words: str) -> None:
    place = ["--into", str(folder / "pipelines"), "--lake", f"file://{folder}/lake"]
    options = ["--topic", name, "--bootstrap", broker, "--yes", "--apply", *place, *words]
    assert not commands(args=["init", name, *options], standalone_mode=False)


def rows_of(name: str, folder: Path, messages: list[bytes], client) -> dict[str, list[tuple]]:
    """What the pipeline file makes of the messages: each table's rows, after a load without a rejected
    row."""
    spec = read(folder / "pipelines" / f"{name}.yaml")
    records = [
        SampledRecord(name, 0, offset, to_ms(event["at"]), message, ())
        for offset, (message, event) in enumerate(zip(messages, orders(), strict=True))
    ]
    events = parse(spec.event, records, decoding_of(spec.event))
    assert events.refused == {}
    lake = FolderLake(folder / "lake" / name)
    land(lake, unit(), [Event(one.type, one.payload) for one in events.events])
    found = {}
    for target in spec.targets:
        told = load(spec, target, [unit()], lake, client, mode="fill").summary()
        assert told["rejected_rows"] == 0
        if not target.catch_all:
            found[target.table] = told["rows"]
    return found


COLUMNS = "id, price, tags, note, toUnixTimestamp64Milli(at)"


@pytest.mark.parametrize("by", per_commit(["file", "registry"]))
def test_a_topic_of_avro(by: str, topic, name: str, kafka_broker: str, tmp_path: Path, client, monkeypatch):
    messages = [avro(event, b"" if by == "file" else b"\0" + struct.pack(">I", 3)) for event in orders()]
    topic(messages)
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    with serve() as registry:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", registry.url)
        registry.avro(3, AVRO)
        given = ["--schema", str(tmp_path / "order.avsc")] if by == "file" else ["--registry", "schemas"]
        run(name, kafka_broker, tmp_path, "--format", "avro", *given)
        content = yaml.safe_load((tmp_path / "pipelines" / f"{name}.yaml").read_text())
        how = {"format": {"avro": "../order.avsc"}}
        if by == "registry":
            how = {"format": "avro", "registry": {"connection": "schemas"}}
        assert content["event"] == {
            "type": {"field": "kind"},
            "time": {"field": "at", "format": "iso8601"},
            **how,
        }
        loaded = rows_of(name, tmp_path, messages, client)
    assert loaded == {f"{name}.paid": COUNT // 2, f"{name}.sent": COUNT // 2}
    for kind in ("paid", "sent"):
        wanted = [
            (e["id"], e["price"], e["tags"], e["note"], to_ms(e["at"])) for e in orders() if e["kind"] == kind
        ]
        assert client.rows(f"SELECT {COLUMNS} FROM {name}.{kind} ORDER BY id") == wanted


@pytest.mark.long
@pytest.mark.parametrize("by", ["file", "registry"])
def test_a_topic_of_protobuf(
    by: str, topic, name: str, kafka_broker: str, tmp_path: Path, client, monkeypatch
):
    head = b"" if by == "file" else b"\0" + struct.pack(">I", 3) + b"\0"
    messages = [protobuf(event, tmp_path, head) for event in orders()]
    topic(messages)
    with serve() as registry:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", registry.url)
        registry.protobuf(3, {"order.proto": PROTO})
        given = ["--registry", "schemas"]
        if by == "file":
            given = ["--schema", str(tmp_path / "order.proto"), "--message", "shop.Order"]
        run(name, kafka_broker, tmp_path, "--format", "protobuf", *given)
        loaded = rows_of(name, tmp_path, messages, client)
    assert loaded == {f"{name}.paid": COUNT // 2, f"{name}.sent": COUNT // 2}
    for kind in ("paid", "sent"):
        wanted = [(e["id"], e["tags"], to_ms(e["at"])) for e in orders() if e["kind"] == kind]
        sql = f"SELECT id, tags, toUnixTimestamp64Milli(at) FROM {name}.{kind} ORDER BY id"
        assert client.rows(sql) == wanted


@pytest.mark.long
def test_framed_messages_without_a_format_are_said(topic, name: str, kafka_broker: str, tmp_path: Path):
    topic([avro(event, b"\0" + struct.pack(">I", 3)) for event in orders()])
    with pytest.raises(
        WrongUse, match=f"{COUNT} name a schema as messages of a registry do: name `--format avro`"
    ):
        run(name, kafka_broker, tmp_path)
    assert not (tmp_path / "pipelines").exists()


def test_messages_of_another_schema_are_said(topic, name: str, kafka_broker: str, tmp_path: Path):
    topic([b"\x01" for _ in orders()])
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    with pytest.raises(WrongUse, match=r"is avro of this schema: not Avro of its schema \(300\)"):
        run(name, kafka_broker, tmp_path, "--format", "avro", "--schema", str(tmp_path / "order.avsc"))
    assert not (tmp_path / "pipelines").exists()
