"""A segment of before Kafka 0.11 on a broker of today's, as one has it whose topic is that old: the broker
hands it over as it is stored."""

from __future__ import annotations

import pytest

from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.lake.open import open_lake
from sluice.flow.land.land import land
from sluice.flow.steps import resolve_range
from sluice.slices import to_ms
from tests.integration.test_hostile_records import BY_FIELD, in_lake
from tests.support.long_form import per_commit
from tests.support.spark_world import START, SparkWorld, event, hours
from tests.support.stored_batch import batch, record, send
from tests.unit.clients.kafka.test_old_messages import written

pytestmark = pytest.mark.integration

MINUTES = [1, 2, 30, 59, 60, 61, 90, 119, 120, 121]
EVENTS = [event(minute, n=n) for n, minute in enumerate(MINUTES)]


def old_segment() -> bytes:
    rows = [(to_ms(START.add(minutes=at)), None, text) for at, text in zip(MINUTES, EVENTS, strict=True)]
    parts = [("gzip", 0, 3), ("none", 3, 4), ("lz4", 4, 8), ("none", 8, 9), ("snappy", 9, 10)]
    return b"".join(written(1, codec, rows[start:end], start) for codec, start, end in parts)


@pytest.mark.parametrize("together", per_commit([True, False]), ids=["by tasks", "by Spark's source"])
def test_messages_of_magic_1_land(start_kafka_broker, name, tmp_path, engine, monkeypatch, together):
    if not together:
        monkeypatch.setattr("sluice.flow.land.read.together", lambda run: [run])
    broker = start_kafka_broker()
    world = SparkWorld(name, tmp_path, broker.bootstrap, None, engine)
    topic = world.topic("t")
    broker.stop()
    folder = broker.data / "log" / f"{topic}-0"
    for file in folder.glob("0*.*"):
        file.unlink()
    (folder / f"{0:020}.log").write_bytes(old_segment())
    broker.start()
    newest = event(122, n=len(EVENTS))
    send(broker.bootstrap, topic, 0, batch([record(0, newest)], 1, stamp=to_ms(START.add(minutes=122))))
    with BoundedReader(KafkaSettings("dc1", broker.bootstrap), 1 << 20) as reader:
        spans = [(1, 2), (2, 6), (6, len(EVENTS))]  # edges inside of messages of several
        parts = list(reader.read([OffsetSpan(topic, 0, *span) for span in spans]))
    found = [row for part in parts for row in zip(part.offsets, part.values, strict=True)]
    assert found == list(enumerate(EVENTS))[1:]
    pipeline = world.pipeline(kafka=world.cluster(topic), event=BY_FIELD, tables={})
    resolve_range(pipeline, hours(0, 3))
    land(pipeline, open_lake(pipeline), hours(0, 3), "fill", "t", engine, lambda line: None)
    assert in_lake(world, pipeline) == (list(enumerate([*EVENTS, newest])), [])
    edges = [(r.start, r.until) for m in world.manifests(pipeline, hours(0, 3)) for r in m.ranges]
    assert edges == [(0, 4), (4, 8), (8, len(EVENTS) + 1)]
