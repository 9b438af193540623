"""One topic, many tables, and many topics, one table: real broker, Spark and ClickHouse."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from io import BytesIO

import fastavro
import pyarrow.parquet as pq
import pytest

from sluice.doctor.events import format_checks
from sluice.doctor.examine import sampled
from sluice.errors import RegistryUnavailable, SluiceError
from sluice.flow.verify.anomaly import AnomalyKind
from tests.support.long_form import per_commit
from tests.support.registry_server import serve
from tests.support.spark_world import START, SparkWorld, event, hours

pytestmark = pytest.mark.integration


@pytest.mark.long
def test_tables_and_topics_come_and_go_by_a_line_each(spark_world: SparkWorld):
    """The table named by a field; a column added between two hours; a table and a topic added later."""
    one, two = spark_world.topic("one"), spark_world.topic("two")
    for minute in (1, 61):
        kinds = ["click", "bid", "view", "click"]
        spark_world.send(
            one, [event(minute, type=kind, n=n, more=n + 10) for n, kind in enumerate(kinds)], minute
        )
        spark_world.send(two, [event(minute, type="click", n=7, more=17)], minute)
    clicks = spark_world.table("clicks", "n UInt8, _topic String")
    other = spark_world.table(
        "other", "_type String, _payload String, _topic String, _partition Int32, _offset Int64"
    )
    read_by = {"type": {"field": "type"}, "time": {"field": "at"}}
    tables = {"click": clicks, "*": other}
    pipeline = spark_world.pipeline(kafka=spark_world.cluster(one), event=read_by, tables=tables)
    assert spark_world.run(pipeline, hours(0, 1)) == []

    spark_world.do("ALTER TABLE DB.clicks ADD COLUMN more UInt8")
    assert spark_world.run(pipeline, hours(0, 2)) == []
    assert sorted(spark_world.rows("SELECT n, more FROM DB.clicks")) == [(0, 0), (0, 10), (3, 0), (3, 13)]
    assert spark_world.load(pipeline, hours(0, 2), "reload") == []
    assert sorted(spark_world.rows("SELECT n, more FROM DB.clicks")) == [(0, 10), (0, 10), (3, 13), (3, 13)]

    def others() -> dict[str, int]:
        return dict(spark_world.rows("SELECT _type, count() FROM DB.other GROUP BY _type"))

    assert others() == {"bid": 2, "view": 2}
    pipeline = spark_world.pipeline(tables={**tables, "bid": spark_world.table("bids", "n UInt8")})
    assert spark_world.load(pipeline, hours(0, 2)) == []
    assert (others(), spark_world.rows("SELECT n FROM DB.bids")) == ({"view": 2}, [(1,), (1,)])

    pipeline = spark_world.pipeline(kafka=spark_world.cluster(one, two))
    lacking = spark_world.run(pipeline, hours(0, 2))
    assert {one.kind for one in lacking} == {AnomalyKind.LACKING}
    assert spark_world.rows("SELECT count() FROM DB.clicks") == [
        (4,)
    ]  # the past has landed without the topic
    assert spark_world.run(pipeline, hours(0, 2), "reland") == []
    found = spark_world.rows("SELECT _topic, n, count() FROM DB.clicks GROUP BY _topic, n ORDER BY _topic, n")
    assert found == [(one, 0, 2), (one, 3, 2), (two, 7, 2)]
    assert (others(), spark_world.rows("SELECT n FROM DB.bids")) == ({"view": 2}, [(1,), (1,)])


ROW = "_type String, _topic String, _partition Int32, _offset UInt64, _row UInt32"
# Offset by offset in their order; the type is the record's header.
BATCHES = [
    ("click", b'[{"n":1},{"n":2,"x":[1,2]},{"n":3}]'),
    ("bid", b"[]"),
    ("click", b'[{"n":4}, 5, {"n":70000}]'),
    ("bid", b'{"n":6}'),
    ("bid", b'[ {"n" : 7} ]'),
]


@pytest.mark.long
def test_a_message_of_many_rows_goes_to_the_table_in_its_header(spark_world: SparkWorld):
    topic = spark_world.topic("batches")
    for kind, message in BATCHES:
        spark_world.send(topic, [message], headers=[("table", kind.encode())])
    tables = {kind: spark_world.table(kind, f"n UInt16, {ROW}") for kind in ("click", "bid")}
    read_by = {"type": {"header": "table"}, "time": {"record": True}, "rows": "array"}
    pipeline = spark_world.pipeline(kafka=spark_world.cluster(topic), event=read_by, tables=tables)
    assert spark_world.run(pipeline, hours()) == []

    clicks, bids = "SELECT _offset, _row, n FROM DB.click", "SELECT _offset, _row, n FROM DB.bid"
    expected = {(0, 0, 1), (0, 1, 2), (0, 2, 3), (2, 0, 4)}
    assert (set(spark_world.rows(clicks)), spark_world.rows(bids)) == (expected, [(4, 0, 7)])
    unfit = (
        f"SELECT offset, row, column, payload FROM sluice.rejected WHERE target = '{spark_world.name}.click'"
    )
    assert spark_world.rows(unfit) == [(2, 2, "n", '{"n":70000}')]
    kept = pq.read_table(spark_world.folder / "lake" / spark_world.name / "_rejected").to_pylist()
    assert sorted((r["_offset"], r["_row"], r["_reason"], r["_payload"]) for r in kept) == [
        (2, 1, "not an object", b"5"),
        (3, None, "not an array", b'{"n":6}'),
    ]
    [manifest] = spark_world.manifests(pipeline, hours())
    assert (manifest.read, manifest.parsed, manifest.empty) == (5, 4, 1)
    assert (manifest.rows, manifest.landed, manifest.kept) == (7, 6, 2)

    pushed = spark_world.pipeline(clickhouse={"read": "push"})
    assert spark_world.load(pushed, hours(), "reload") == []
    assert (set(spark_world.rows(clicks)), spark_world.rows(bids)) == (expected, [(4, 0, 7)])
    sample = sampled(pipeline, 100)
    assert (sample.types(), sample.refused) == (
        {"click": 5, "bid": 1},
        {"not an object": 1, "not an array": 1},
    )

    spark_world.do("INSERT INTO DB.click SELECT * FROM DB.click WHERE _offset = 0 AND _row = 1")
    spark_world.do("DELETE FROM DB.click WHERE _offset = 2")
    found = spark_world.verify(pipeline, hours())
    assert {(a.kind, a.partition, a.offsets) for a in found} == {(AnomalyKind.ROWS_DUPLICATE, 0, (0, 1))}
    spark_world.do("DELETE FROM DB.click WHERE _row = 1")
    found = spark_world.verify(pipeline, hours())
    assert [a.kind for a in found] == [AnomalyKind.ROWS_MISSING] * len(found) and found
    assert {a.offsets for a in found} == {(0, 3)}
    assert spark_world.load(pipeline, hours(), "reload") == []


AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
FIRST = {"type": "record", "name": "Click", "fields": [AT, {"name": "id", "type": "long"}]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "price", "type": ["null", PRICE], "default": None}]}
PROTO = """syntax = "proto3"; package adx; import "google/protobuf/timestamp.proto";
message Click { google.protobuf.Timestamp at = 1; uint64 id = 2; string url = 3; }"""


def avro(schema: dict, event: dict, number: int | None = None) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return (b"" if number is None else framed(number)) + out.getvalue()


def framed(number: int) -> bytes:
    return b"\0" + struct.pack(">I", number)


def proto(ident: int, url: bytes) -> bytes:
    seconds = int(START.timestamp()) + 60
    stamp = b"\x08" + varint(seconds)
    parts = (b"\x0a", varint(len(stamp)), stamp, b"\x10", varint(ident), b"\x1a", varint(len(url)), url)
    return b"".join(parts)


def varint(number: int) -> bytes:
    low = number & 127
    return bytes([low | 128]) + varint(number >> 7) if number > 127 else bytes([low])


BIG = 2**63 - 1
MINUTE = START.add(minutes=1)


@pytest.mark.long
def test_avro_by_a_schema_file_from_two_topics_into_one_table(spark_world: SparkWorld):
    one, two = spark_world.topic("one"), spark_world.topic("two")
    spark_world.send(one, [avro(SECOND, {"at": MINUTE, "id": BIG, "price": Decimal("12.50")}), b"\x01"])
    spark_world.send(two, [avro(SECOND, {"at": MINUTE, "id": 2**53 + 1, "price": None})])
    (spark_world.folder / "click.avsc").write_text(json.dumps(SECOND))
    clicks = spark_world.table(
        "clicks", "id Int64, price Nullable(Decimal(9, 2)), at DateTime64(3, 'UTC'), _topic String"
    )
    read_by = {"type": {"topic": True}, "time": {"field": "at"}, "format": {"avro": "click.avsc"}}
    pipeline = spark_world.pipeline(
        kafka=spark_world.cluster(one, two), event=read_by, tables={one: clicks, two: clicks}
    )
    assert spark_world.run(pipeline, hours()) == []
    found = spark_world.rows(
        "SELECT _topic, id, toString(price), toUnixTimestamp(at) FROM DB.clicks ORDER BY _topic"
    )
    at = int(MINUTE.timestamp())
    assert found == [(one, BIG, "12.5", at), (two, 2**53 + 1, None, at)]
    [manifest] = spark_world.manifests(pipeline, hours())
    assert (manifest.read, manifest.rejected_records) == (3, {"not Avro of its schema": 1})
    lake = spark_world.folder / "lake" / spark_world.name
    raw = {row["_raw"] for file in manifest.files for row in pq.read_table(lake / file.key).to_pylist()}
    assert raw == {
        avro(SECOND, {"at": MINUTE, "id": BIG, "price": Decimal("12.50")}),
        avro(SECOND, {"at": MINUTE, "id": 2**53 + 1, "price": None}),
    }


@pytest.mark.parametrize("kind", per_commit(["avro", "protobuf"]))
@pytest.mark.long
def test_messages_name_their_schema_in_a_registry(spark_world: SparkWorld, monkeypatch, kind: str):
    topic = spark_world.topic(kind)
    with serve() as registry:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", registry.url)
        if kind == "avro":
            registry.avro(1, FIRST)
            registry.avro(2, SECOND)
            messages = [avro(FIRST, {"at": MINUTE, "id": 5}, 1)]
            messages += [avro(SECOND, {"at": MINUTE, "id": 6, "price": Decimal("1.50")}, 2)]
        else:
            registry.protobuf(1, {"click.proto": PROTO})
            messages = [framed(1) + b"\x00" + proto(ident, b"/") for ident in (5, 6)]
        spark_world.send(topic, [*messages, framed(9) + b"\x00x", b'{"id":7}', framed(1) + b"\xff"])
        clicks = spark_world.table("clicks", "id UInt64, at DateTime64(3, 'UTC')")
        read_by = {"type": {"topic": True}, "time": {"field": "at"}, "format": kind}
        read_by["registry"] = {"connection": "schemas"}
        pipeline = spark_world.pipeline(
            kafka=spark_world.cluster(topic), event=read_by, tables={topic: clicks}
        )
        assert [check.level for check in format_checks(pipeline.event)] == ["ok"]

        registry.status = 503
        with pytest.raises(SluiceError, match="schema registry .* does not answer") as caught:
            spark_world.run(pipeline, hours())
        assert (caught.value.retryable, caught.value.exit_code) == (True, 3)
        with pytest.raises(RegistryUnavailable):
            list(format_checks(pipeline.event))
        assert spark_world.manifests(pipeline, hours()) == []

        registry.status = None
        assert spark_world.run(pipeline, hours()) == []
    at = int(MINUTE.timestamp())
    assert sorted(spark_world.rows("SELECT id, toUnixTimestamp(at) FROM DB.clicks")) == [(5, at), (6, at)]
    [manifest] = spark_world.manifests(pipeline, hours())
    broken = "broken message index behind the schema id"
    damaged = "not Avro of its schema" if kind == "avro" else broken
    assert manifest.rejected_records == {damaged: 1, "no schema id in front": 1, "unknown schema id": 1}
