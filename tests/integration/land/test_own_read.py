"""Small slices are read by the task itself: it brings what Spark's source brings, and what was produced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from sluice.clients.kafka import records as own
from sluice.clients.kafka.records import BoundedReader, OffsetSpan, PartitionRecords
from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import KafkaUnavailable
from sluice.flow.land.land import land
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.task.read_kafka import batches, whole
from sluice.flow.land.task.records import TOO_LARGE
from sluice.flow.land.task.task import CUT_BYTES, Task
from sluice.flow.steps import resolve_range
from sluice.manifest import OffsetRange
from sluice.slices import Slice, Unit, to_ms
from tests.support.fakes import MemoryLake
from tests.support.spark_world import PLAIN, START, SparkWorld, event, hours

pytestmark = pytest.mark.integration

AT = 1_767_225_600_123
ODD: list[dict[str, Any]] = [
    {"value": b"one", "key": b"k", "timestamp": AT},
    {"value": None, "key": None, "timestamp": AT + 1},
    {"value": b"", "key": b"", "timestamp": AT - 1},
    {"value": b"\xff\x00", "headers": [("a", b"1"), ("a", None), ("b", b""), ("é", b"\xff")], "timestamp": 1},
    {"value": b"v" * (CUT_BYTES + 7), "key": b"k" * CUT_BYTES, "timestamp": AT},
    {"value": b"h", "headers": [("long", b"h" * CUT_BYTES)], "timestamp": AT},
]


class NotText(str):
    """A header's name whose bytes are not UTF-8: other clients write such."""

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


@pytest.fixture
def topic(kafka_broker: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": kafka_broker, "log_level": 0})
    large = {"retention.ms": "-1", "max.message.bytes": "30000000"}
    admin.create_topics([NewTopic(name, 3, 1, config=large)])[name].result(30)
    return name


def send(producer: Producer, topic: str, partition: int, messages: Sequence[dict[str, Any]]) -> None:
    for message in messages:
        producer.produce(topic, partition=partition, **message)
        producer.poll(0)


def plain(count: int) -> list[dict[str, Any]]:
    return [{"value": b"%d" % number, "timestamp": AT + number} for number in range(count)]


def reader_of(broker: str, isolation: str = "read_committed", max_record: int = 64 << 20) -> BoundedReader:
    return BoundedReader(KafkaSettings("dc1", broker, isolation), max_record)


def read(broker: str, spans: list[OffsetSpan], *more: Any) -> list[PartitionRecords]:
    with reader_of(broker, *more) as reader:
        return list(reader.read(spans))


def reading(pipeline: Pipeline, topic: str, edges: dict[int, list[int]]) -> tuple[ReadGroup, Task]:
    """A run of slices between these offsets, and its task."""
    count = len(edges[0]) - 1
    slices = tuple(Slice(START.add(hours=number)) for number in range(count))
    units = []
    for number, piece in enumerate(slices):
        ranges = tuple(OffsetRange(topic, "u", p, at[number], at[number + 1]) for p, at in edges.items())
        units.append(UnitRead(Unit(piece, "c"), ranges, ranges, ()))
    run = ReadGroup("c", tuple(units), together=True)
    return run, Task(pipeline, MemoryLake(), "c", "attempt", slices, run.edges())


def test_it_brings_what_sparks_source_brings(kafka_broker: str, topic: str, engine: Any):
    from kafka_source import records

    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0, "enable.idempotence": True})
    sent = {0: ODD * 2, 1: plain(9000), 2: plain(3)}
    for partition, messages in sent.items():
        send(producer, topic, partition, messages)
    assert producer.flush(60) == 0
    cluster = {"cluster": "c", "bootstrap": kafka_broker, "topics": [topic]}
    pipeline = Pipeline.model_validate({**PLAIN, "kafka": [cluster]})
    edges = {0: [1, 4, 11], 1: [5, 5, 8998], 2: [3, 3, 3]}
    run, task = reading(pipeline, topic, edges)
    frame = records(engine.session(), pipeline, run).selectExpr(*task.columns())
    theirs = frame.orderBy("place", "offset").toArrow()
    with reader_of(kafka_broker) as reader:
        parts = list(batches(reader, task))
        cut = [b for b in theirs.to_batches() if b.num_rows]
        mended = [row for part in whole(task, cut, reader) for row in part.to_pylist()]
    found = [row for part in parts for row in part.to_pylist()]
    assert parts[0].schema.names == [*theirs.schema.names, TOO_LARGE]
    assert found == [row | {TOO_LARGE: None} for row in mended]
    assert sum(map(len, (row["value"] or b"" for row in theirs.to_pylist()))) < sum(
        map(len, (row["value"] or b"" for row in found))
    )
    # And that is what was produced.
    asked = [(p, n) for p, at in edges.items() for n in range(at[0], at[-1])]
    assert [(row["place"], row["offset"]) for row in found] == asked
    for row, (partition, offset) in zip(found, asked, strict=True):
        message = sent[partition][offset]
        for column in ("value", "key"):
            assert row[column] == message.get(column)
        assert row["timestamp"] == message["timestamp"]
    assert max(part.num_rows for part in parts) <= 4096


@pytest.mark.parametrize(
    ("isolation", "seen"), [("read_committed", [0, 5]), ("read_uncommitted", [0, 2, 3, 5])]
)
def test_a_span_may_end_in_what_nobody_sees(kafka_broker: str, topic: str, isolation: str, seen: list[int]):
    """Offset 0 is committed, 1 its marker; 2 and 3 are aborted, 4 is theirs; 5 is committed, 6 its marker."""
    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0, "transactional.id": topic})
    producer.init_transactions(30)
    for times, end in (([0], "commit"), ([2, 3], "abort"), ([5], "commit")):
        producer.begin_transaction()
        send(producer, topic, 0, [{"value": b"x", "timestamp": AT + at} for at in times])
        assert producer.flush(30) == 0
        getattr(producer, f"{end}_transaction")(30)
    send(another := producer_of(kafka_broker), topic, 1, plain(2))
    assert another.flush(30) == 0
    for start, until in ((0, 7), (0, 5), (1, 4), (6, 7)):
        spans = [OffsetSpan(topic, 0, start, until), OffsetSpan(topic, 1, 0, 2)]
        found = [r for r in read(kafka_broker, spans, isolation) if r.partition == 0]
        offsets = [offset for records in found for offset in records.offsets]
        assert offsets == [offset for offset in seen if start <= offset < until]
        assert [at - AT for records in found for at in records.timestamps] == offsets


def producer_of(broker: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker,
            "log_level": 0,
            "enable.idempotence": True,
            "message.max.bytes": 30_000_000,
        }
    )


@pytest.mark.long
def test_large_records_come_one_by_one(kafka_broker: str, topic: str):
    producer = producer_of(kafka_broker)
    send(producer, topic, 0, [{"value": bytes([n]) * 20_000_000, "timestamp": AT} for n in range(6)])
    assert producer.flush(120) == 0
    found = read(kafka_broker, [OffsetSpan(topic, 0, 0, 6)])
    assert [value for records in found for value in records.values] == [
        bytes([n]) * 20_000_000 for n in range(6)
    ]
    assert [len(records.values) for records in found] == [1] * 6
    _, task = reading(Pipeline.model_validate(PLAIN), topic, {0: [0, 3, 6]})
    with reader_of(kafka_broker) as reader:
        parts = [part["value"].to_pylist() for part in batches(reader, task)]
    assert parts == [[bytes([n]) * 20_000_000 for n in numbers] for numbers in ((0, 1), (2, 3), (4, 5))]
    with reader_of(kafka_broker, max_record=1 << 20) as reader:
        (part,) = batches(reader, task)
    assert part["value"].to_pylist() == [None] * 6
    assert [size - 20_000_000 for size in part[TOO_LARGE].to_pylist()] == [9] * 6


def test_single_records_are_read_from_wherever_they_lie(kafka_broker: str, topic: str):
    """Without those between them; an offset without a record is told."""
    producer = producer_of(kafka_broker)
    sent = [{"value": b"%d" % n * (n % 7), "key": b"%d" % n, "timestamp": AT} for n in range(5000)]
    for part in (sent[:1000], sent[1000:1001], sent[1001:]):
        send(producer, topic, 0, part)
        assert producer.flush(30) == 0
    wanted = [0, 1, 999, 1000, 1001, 2500, 4999]
    with reader_of(kafka_broker) as reader:
        found = list(reader.each(topic, 0, wanted))
        assert list(reader.each(topic, 0, [3, 4998])) == [
            (sent[n]["key"], sent[n]["value"], None, None) for n in (3, 4998)
        ]
    assert [(r.key, r.value) for r in found] == [(sent[n]["key"], sent[n]["value"]) for n in wanted]


def test_offsets_that_are_gone_are_told(kafka_broker: str, topic: str):
    producer = producer_of(kafka_broker)
    send(producer, topic, 0, plain(10))
    assert producer.flush(30) == 0
    with pytest.raises(KafkaUnavailable, match="dc1"):
        read(kafka_broker, [OffsetSpan(topic, 0, 50, 60)])


@pytest.mark.long
def test_records_that_do_not_come_are_told(kafka_broker: str, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own, "_PATIENCE_SECONDS", 1.0)
    send(producer := producer_of(kafka_broker), topic, 0, plain(3))
    assert producer.flush(30) == 0
    with pytest.raises(KafkaUnavailable, match=f"{topic}/0 brings no more records"):
        read(kafka_broker, [OffsetSpan(topic, 0, 0, 4)])
    with pytest.raises(KafkaUnavailable, match="127.0.0.1:1"):
        read("127.0.0.1:1", [OffsetSpan(topic, 0, 0, 4)])


def test_a_header_that_is_not_text_is_read_as_sparks_source_reads_it(
    kafka_broker: str, name: str, tmp_path: Any, engine: Any
):
    """With U+FFFD for what is not UTF-8."""
    world = SparkWorld(name, tmp_path, kafka_broker, None, engine)
    topic = world.topic("t")
    usual = [("ok", b"\xff")]
    world.send(topic, [event(1, n=n) for n in range(5)], 1, headers=usual)
    python = KafkaProducer(bootstrap_servers=kafka_broker)
    odd = [("ok", b"1"), (NotText("?"), b"2")]
    at = to_ms(START.add(minutes=61))
    python.send(topic, event(61), partition=0, headers=odd, timestamp_ms=at).get(30)
    python.close()
    world.send(topic, [event(62)], 62)
    world.send(topic, [event(121, n=n) for n in range(5)], 121, headers=usual)
    spec = {"event": {"type": {"topic": True}, "time": {"field": "at"}}, "tables": {}}
    pipeline = world.pipeline(kafka=world.cluster(topic), **spec)
    resolve_range(pipeline, hours(0, 3))
    land(pipeline, open_lake(pipeline), hours(0, 3), "fill", "t", engine, lambda line: None)
    rows = []
    for manifest in world.manifests(pipeline, hours(0, 3)):
        for file in manifest.files:
            with open_lake(pipeline).local(file.key) as path:
                rows += pq.read_table(path).to_pylist()
    rows.sort(key=lambda row: row["_offset"])
    assert [row["_offset"] for row in rows] == list(range(12))
    found = [[(h["key"], h["value"]) for h in row["_headers"] or ()] for row in rows]
    assert found == [*[usual] * 5, [("ok", b"1"), ("\ufffd\ufffd", b"2")], [], *[usual] * 5]


def test_gaps_that_kafka_no_longer_has_are_left_to_the_driver(kafka_broker: str, topic: str):
    producer = producer_of(kafka_broker)
    send(producer, topic, 0, plain(10))
    assert producer.flush(30) == 0
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    admin.delete_records({TopicPartition(topic, 0): 5})
    admin.close()
    with reader_of(kafka_broker) as reader:
        assert reader.left(topic, 0, [(2, 3), (6, 7)]) == [(2, 3), (6, 7)]
