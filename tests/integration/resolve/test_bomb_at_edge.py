"""A bomb that is the first record of its hour: the broker cannot look up where the hour begins, for it
unpacks the batch for that. The hour resolves, lands, loads and verifies all the same,
and the broker lives on."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.clients.kafka.lookups import read_stamps
from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.kafka.topics import open_topics
from sluice.config.pipeline import Cluster
from sluice.slices import to_ms
from tests.integration.land.test_hostile_records import BY_FIELD, in_lake
from tests.support.long_form import per_commit
from tests.support.spark_world import START, SparkWorld, event, hours
from tests.support.stored_batch import batch, bomb, bomb_size, record, send

pytestmark = pytest.mark.integration

SIZE = 880 << 20  # the embedded broker has 512 MiB
DDL = "n UInt32, _offset UInt64, _payload String"


def store(spark_world: SparkWorld, topic: str, minute: float, *records: bytes, codec: str = "gzip") -> None:
    send(spark_world.bootstrap, topic, 0, batch(records, 1, codec, to_ms(START.add(seconds=minute * 60))))


@pytest.mark.parametrize("alone", per_commit([False, True]), ids=["after other hours", "as the log's first"])
@pytest.mark.long
def test_its_hour_resolves_lands_loads_and_verifies(spark_world, alone):
    topic = spark_world.topic("t")
    before = [] if alone else [event(minute, n=n) for n, minute in enumerate((1, 2, 59))]
    for n, text in enumerate(before):
        store(spark_world, topic, (1, 2, 59)[n], record(0, text))
    store(spark_world, topic, 60, *bomb(0, SIZE))
    after = [event(61, n=10), event(119, n=11), event(121, n=12)]
    for text, minute in zip(after, (61, 119, 121), strict=True):
        store(spark_world, topic, minute, record(0, text))
    table = spark_world.table("t", DDL)
    pipeline = spark_world.pipeline(kafka=spark_world.cluster(topic), event=BY_FIELD, tables={topic: table})
    assert spark_world.run(pipeline, hours(0, 3)) == []
    first = len(before)
    rows = [*enumerate(before), *enumerate(after, first + 1)]
    assert in_lake(spark_world, pipeline) == (rows, [(first, "too large", bomb_size(0, SIZE), None)])
    edges = [(r.start, r.until) for m in spark_world.manifests(pipeline, hours(0, 3)) for r in m.ranges]
    assert edges == [(0, first), (first, first + 3), (first + 3, first + 4)]
    loaded = spark_world.rows("SELECT _offset, _payload FROM DB.t ORDER BY 1")
    assert [(offset, text.encode()) for offset, text in loaded] == rows


@pytest.mark.long
@pytest.mark.parametrize("kind", per_commit(["CreateTime", "LogAppendTime"]))
def test_where_instants_are_is_kafkas_rule(kafka_broker, name, kind):
    """Each instant at and around each record's stamp, against the stamps themselves."""
    admin = AdminClient({"bootstrap.servers": kafka_broker, "log_level": 0})
    config = {"retention.ms": "-1", "message.timestamp.type": kind}
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)
    at = to_ms(START)
    for records, count, stamp in (
        ([record(0, b"a"), record(1, b"b", stamp=9)], 2, at),
        ([record(0, b"c", stamp=3_600_000), *bomb(1, SIZE), record(2, b"d", stamp=5)], 3, at + 7),
        ([record(0, b"e")], 1, at + 3_600_000),
    ):
        latest = max(stamp, stamp + 3_600_000 if count == 3 else stamp + 9).to_bytes(8, "big")
        data = batch(records, count, "gzip", stamp)
        send(kafka_broker, name, 0, data[:35] + latest + data[43:])
    (stamps,) = read_stamps(KafkaSettings("dc1", kafka_broker), name, {0: (0, 6)})
    every = stamps.timestamps.tolist()
    if kind == "CreateTime":
        assert every == [at, at + 9, at + 7 + 3_600_000, at + 7, at + 12, at + 3_600_000]
    instants = sorted({stamp + n for stamp in every for n in (-1, 0, 1)})
    with open_topics(Cluster(cluster="dc1", bootstrap=kafka_broker, topics=(name,))) as topics:
        found = topics.look_up(name, {0: 6}, instants)[0]
    expected = [next(((o, at) for o, at in enumerate(every) if at >= i), (-1, -1)) for i in instants]
    assert list(zip(found.offsets, found.timestamps, strict=True)) == expected
