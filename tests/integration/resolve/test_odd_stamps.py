"""Record times that are no milliseconds of the calendar: microseconds, nanoseconds, before 1900, -1. Brokers
take them, whatever they are set to before 4.0. Each record lands, with its number, and stops nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from sluice.clients.lake.open import open_lake
from sluice.flow.steps import resolve_range
from sluice.manifest import Manifest
from sluice.slices import to_ms
from tests.integration.land.test_own_read import NotText
from tests.support.long_form import per_commit
from tests.support.spark_world import START, SparkWorld, event, hours

pytestmark = pytest.mark.integration

ANY = str((1 << 63) - 1)
NOW_US, NOW_NS = to_ms(START) * 1_000, to_ms(START) * 1_000_000
MICRO = [NOW_US, NOW_US + 1]
# The last number of milliseconds that is one of microseconds, and the first that is none, each way.
NANO = [NOW_NS, NOW_NS + 1, (1 << 63) - 1, 9_223_372_036_854_775, 9_223_372_036_854_776]
# 1582, when Spark's calendars part; the year 1, when the text of an instant ends; and what -1 is not.
BEFORE = [-1, -2, -12_219_292_800_001, -62_135_596_800_001, -9_223_372_036_854_776, -(1 << 63)]
DDL = "n UInt32, _timestamp DateTime64(3, 'UTC'), _offset UInt64, _payload String"
Sent = list[tuple[int, int]]
"""(slice's number, stamp) of each record, by its offset; `n` in its payload is its offset, too."""


def stamped(spark_world: SparkWorld, odd: list[int], per_hour: int = 60) -> tuple[str, Sent]:
    """A topic whose hours 0 to 2 have the odd stamps among others, of which `n` says which record it is."""
    topic = f"{spark_world.name}.t"
    admin = AdminClient({"bootstrap.servers": spark_world.bootstrap, "log_level": 0})
    config = {"message.timestamp.after.max.ms": ANY, "message.timestamp.before.max.ms": ANY}
    config |= {"retention.ms": "-1", "max.message.bytes": "2000000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    sent: Sent = []
    for hour in range(3):
        usual = [to_ms(START.add(hours=hour, seconds=n * 3600 // per_hour)) for n in range(per_hour)]
        stamps = [*usual[: per_hour // 2], *odd, *usual[per_hour // 2 :]]
        sent += [(hour, stamp) for stamp in stamps]
    producer = Producer(
        {"bootstrap.servers": spark_world.bootstrap, "log_level": 0, "enable.idempotence": True}
    )
    for n, (_, stamp) in enumerate(sent):
        producer.produce(topic, event(n=n), partition=0, timestamp=stamp, key=b"%d" % n)
    assert producer.flush(60) == 0
    return topic, sent


def in_lake(spark_world: SparkWorld, files: list) -> list[dict]:
    rows = []
    for file in files:
        with open_lake(spark_world.pipeline()).local(file.key) as path:
            table = pq.read_table(path)
            stamps = table["_timestamp"].combine_chunks().view(pa.int64()).to_pylist()
            found = table.drop_columns("_timestamp").to_pylist()
            rows += [row | {"at": at} for row, at in zip(found, stamps, strict=True)]
    return rows


def landed(spark_world: SparkWorld, manifest: Manifest) -> tuple[list[tuple], list[tuple]]:
    """(offset, n, stamp) of a slice's rows, and with the reason of those rejected."""
    rows, refused = (in_lake(spark_world, list(files)) for files in (manifest.files, manifest.rejected))
    return (
        sorted((row["_offset"], json.loads(row["_payload"])["n"], row["at"]) for row in rows),
        sorted((row["_offset"], row["_reason"], row["at"]) for row in refused),
    )


@pytest.mark.parametrize(
    "odd", per_commit([[*NANO, *BEFORE, *MICRO], MICRO, NANO, BEFORE]), ids=["all", "micro", "nano", "before"]
)
@pytest.mark.parametrize("at_once", per_commit([False, True]), ids=["by Spark's source", "by tasks"])
@pytest.mark.long
def test_records_with_odd_stamps_land_with_their_numbers(spark_world, odd, at_once):
    topic, sent = stamped(spark_world, odd)
    table = spark_world.table("t", DDL)
    by_field = {"type": {"topic": True}, "time": {"field": "at"}}
    pipeline = spark_world.pipeline(kafka=spark_world.cluster(topic), event=by_field, tables={topic: table})
    said = resolve_range(pipeline, hours(0, 3))["stamped_ahead"]
    ahead = [offset for offset, (_, stamp) in enumerate(sent) if stamp > to_ms(START.add(days=2))]
    assert len(said) == min(len(ahead), 1) and all(f"offset {ahead[0]} " in line for line in said)
    parts = [hours(0, 3)] if at_once else [hours(n, n + 1) for n in range(3)]
    for part in parts:
        assert spark_world.run(pipeline, part) == []
    every = [(offset, offset, stamp) for offset, (_, stamp) in enumerate(sent)]
    for hour, manifest in enumerate(spark_world.manifests(pipeline, hours(0, 3))):
        own = [row for row, (number, _) in zip(every, sent, strict=True) if number == hour]
        assert landed(spark_world, manifest) == (own, [])
    assert (
        spark_world.rows("SELECT _offset, n, toUnixTimestamp64Milli(_timestamp) FROM DB.t ORDER BY 1")
        == every
    )


@pytest.mark.long
def test_by_record_time_odd_stamps_are_out_of_range_and_keep_their_numbers(spark_world):
    topic, sent = stamped(spark_world, [*NANO, *BEFORE, *MICRO])
    by_record = {"type": {"topic": True}, "time": {"record": True}}
    pipeline = spark_world.pipeline(
        kafka=spark_world.cluster(topic), event=by_record, tables={}, max_late="100d"
    )
    resolve_range(pipeline, hours(0, 3))
    assert spark_world.run(pipeline, hours(0, 1)) == []
    (manifest,) = spark_world.manifests(pipeline, hours(0, 1))
    odd = {*NANO, *BEFORE, *MICRO}
    own = [(offset, stamp) for offset, (hour, stamp) in enumerate(sent) if hour == 0]
    rows = [(offset, offset, stamp) for offset, stamp in own if stamp not in odd]
    refused = [(offset, "time out of range", stamp) for offset, stamp in own if stamp in odd]
    assert landed(spark_world, manifest) == (rows, refused)


@pytest.mark.long
def test_beside_a_long_record_and_a_header_that_is_no_text(spark_world):
    """Spark's source cannot hand over the stamps: so tasks read all of it, the other two as well."""
    topic, sent = stamped(spark_world, NANO, per_hour=6)
    table = spark_world.table("t", DDL)
    by_field = {"type": {"topic": True}, "time": {"field": "at"}}
    pipeline = spark_world.pipeline(kafka=spark_world.cluster(topic), event=by_field, tables={topic: table})
    long = event(n=len(sent), pad="x" * 300_000)
    stamp = to_ms(START.add(hours=2, minutes=59))
    spark_world.send(topic, [long], 179, headers=[("ok", b"h" * 100_000)])
    python = KafkaProducer(bootstrap_servers=spark_world.bootstrap)
    python.send(topic, event(n=-1), partition=0, headers=[(NotText("?"), b"2")], timestamp_ms=stamp).get(30)
    python.close()
    resolve_range(pipeline, hours(0, 3))
    assert spark_world.run(pipeline, hours(2, 3)) == []
    (manifest,) = spark_world.manifests(pipeline, hours(2, 3))
    own = [(offset, offset, at) for offset, (hour, at) in enumerate(sent) if hour == 2]
    count = len(sent)
    assert landed(spark_world, manifest) == ([*own, (count, count, stamp), (count + 1, -1, stamp)], [])
    row, odd = (r for r in in_lake(spark_world, list(manifest.files)) if r["_offset"] >= count)
    assert odd["_headers"] == [{"key": "\ufffd\ufffd", "value": b"2"}]
    assert row["_payload"].encode() == long
    assert row["_headers"] == [{"key": "ok", "value": b"h" * 100_000}]
