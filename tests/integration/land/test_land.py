"""Landing with a real broker and real Spark: what was published is in the lake, once, whatever it was."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pendulum
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local import fetched
from sluice.clients.kafka.lookups import PartitionLookUp
from sluice.clients.kafka.topics import Topics, open_topics
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import SluiceError
from sluice.flow.find.find import RecordFinder
from sluice.flow.find.outcome import Outcome, outcome_of
from sluice.flow.land.land import land
from sluice.flow.land.submit import run_locally, spark_submit_arguments
from sluice.flow.resolve.resolve import resolve
from sluice.flow.steps import land_range
from sluice.metrics import meter
from sluice.metrics.meter import MetricSample
from sluice.slices import SliceRange, Unit, to_ms
from sluice.state.file_moves import finish_moves
from tests.support.landing_world import rows_in

pytestmark = pytest.mark.integration

START = pendulum.now("UTC").start_of("hour").subtract(hours=4)
SLICES = SliceRange(START, START.add(hours=3))


class Feed:
    """A topic of its own; remembers what it published as (partition, offset, value)."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 2, **config: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.sent: list[tuple[int, int, bytes | None]] = []
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)
        self.producer = self._producer()

    def _producer(self, **options: str) -> Producer:
        return Producer(
            {"bootstrap.servers": self.bootstrap, "message.max.bytes": 8_000_000, "log_level": 0, **options}
        )

    def send(self, value: bytes | None, minute: float, partition: int = 0, **more) -> None:
        at = to_ms(START.add(seconds=minute * 60))
        self.producer.produce(
            self.topic, value, partition=partition, timestamp=at, on_delivery=self._delivered, **more
        )

    def event(self, kind: str, minute: float, partition: int = 0, **fields) -> None:
        self.send(event(kind, minute, **fields), minute, partition)

    def flush(self) -> None:
        assert self.producer.flush(30) == 0

    def _delivered(self, error, message) -> None:
        assert error is None
        self.sent.append((message.partition(), message.offset(), message.value()))


def event(kind: str, minute: float, **fields) -> bytes:
    at = START.add(seconds=minute * 60).isoformat()
    return json.dumps({"type": kind, "at": at, **fields}).encode()


def minimal() -> Pipeline:
    return Pipeline.model_validate({"name": "x", **spec_of([], Path("/x"))})


def spec_of(feeds: list[tuple[str, Feed]], folder: Path, **changes) -> dict:
    kafka = [{"cluster": c, "bootstrap": f.bootstrap, "topics": [f.topic]} for c, f in feeds]
    return {
        "kafka": kafka or [{"cluster": "c", "bootstrap": "nowhere:1", "topics": ["t"]}],
        "event": {"type": {"field": "type"}, "time": {"field": "at"}},
        "lake": f"file://{folder}/lake",
        "rows_per_read": 100,
        "tables": {"click": "db.click"},
        **changes,
    }


def wait_for_end(feed: Feed, end: int) -> None:
    """Until the partition's last stable offset is `end`."""
    cluster = Cluster(cluster="c", bootstrap=feed.bootstrap, topics=[feed.topic])
    deadline = time.monotonic() + 30
    with open_topics(cluster) as topics:
        while topics.describe(feed.topic).ends[0] < end:
            assert time.monotonic() < deadline


@contextmanager
def at_offsets(cluster: Cluster, *offsets: int) -> Iterator[object]:
    """The real topics, with the instants of SLICES at these offsets of partition 0."""
    with open_topics(cluster) as topics:
        found = PartitionLookUp()
        for offset in offsets:
            found.offsets.append(offset)
            found.timestamps.append(0)
        topics.look_up = lambda topic, partitions, instants: {0: found}
        yield topics


def pipeline_file(feeds: list[tuple[str, Feed]], folder: Path, **changes) -> Path:
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(spec_of(feeds, folder, **changes)))
    return path


def resolved(path: Path) -> Pipeline:
    pipeline = read(path)
    found = resolve(pipeline, open_lake(pipeline), list(SLICES), pendulum.now("UTC"))
    assert found.unreachable == {}
    return pipeline


def manifests_of(pipeline: Pipeline):
    units = [Unit(piece, cluster) for piece in SLICES for cluster in pipeline.clusters]
    return list(finish_moves(open_lake(pipeline), units).values())


def run(pipeline: Pipeline, engine: object, mode: str = "fill", token: str = "t"):
    return land(pipeline, open_lake(pipeline), SLICES, mode, token, engine, lambda line: None)


def content(pipeline: Pipeline) -> list[tuple]:
    """(cluster, partition, offset, payload) of every landed row."""
    return sorted(
        (c, p, o, text) for _, c, _, p, o, text, _ in rows_in(open_lake(pipeline), manifests_of(pipeline))
    )


def published(*feeds: tuple[str, Feed]) -> list[tuple]:
    return sorted((c, p, o, value.decode()) for c, feed in feeds for p, o, value in feed.sent)


def test_two_clusters_three_hours_and_a_second_run(kafka_broker, name, tmp_path, engine):
    feeds = [("dc1", Feed(kafka_broker, name + "a")), ("dc2", Feed(kafka_broker, name + "b", 3))]
    for number in range(900):
        feeds[0][1].event(("click", "bid", "win")[number % 3], number / 5, number % 2, number=number)
        feeds[1][1].event("click", number / 5, number % 3, number=-number)
    for _, feed in feeds:
        feed.flush()
    pipeline = resolved(pipeline_file(feeds, tmp_path))
    first = run(pipeline, engine)
    assert first.summary()["records"] == 1800
    assert content(pipeline) == published(*feeds)
    before = sorted((item.key, item.size, item.modified) for item in open_lake(pipeline).list(""))
    assert run(pipeline, engine).landed == ()
    assert sorted((item.key, item.size, item.modified) for item in open_lake(pipeline).list("")) == before
    run(pipeline, engine, "reland", "again")
    assert content(pipeline) == published(*feeds)
    assert {manifest.generation for manifest in manifests_of(pipeline)} == {2}
    files = [item.key for item in open_lake(pipeline).list("type=")]
    assert sorted(files) == sorted(f.key for m in manifests_of(pipeline) for f in m.files)


def test_two_topics_of_one_cluster_keep_their_names(kafka_broker, name, tmp_path, engine):
    feeds = [("dc1", Feed(kafka_broker, name + suffix, count)) for suffix, count in (("a", 2), ("b", 3))]
    for number in range(60):
        for kind, (_, feed) in enumerate(feeds):
            feed.event(("click", "bid")[kind], number * 3, number % 2, number=number)
    for _, feed in feeds:
        feed.flush()
    kafka = [{"cluster": "dc1", "bootstrap": kafka_broker, "topics": [feed.topic for _, feed in feeds]}]
    pipeline = resolved(pipeline_file([], tmp_path, kafka=kafka))
    assert run(pipeline, engine).summary()["records"] == 120
    found = rows_in(open_lake(pipeline), manifests_of(pipeline))
    rows = [(t, p, o, text) for _, _, t, p, o, text, _ in found]
    sent = [(feed.topic, p, o, value.decode()) for _, feed in feeds for p, o, value in feed.sent]
    assert sorted(rows) == sorted(sent)


BAD = {
    "no value": None,
    "not UTF-8": b'{"type":"click","at":"' + START.isoformat().encode() + b'","x":"\xff"}',
    "not JSON": b"{oops",
    "not an object": b"[" + event("click", 1) + b"]",
    "no type": b'{"at":"' + START.isoformat().encode() + b'"}',
    "no time": b'{"type":"click"}',
    "time out of range": b'{"type":"click","at":"9999-12-31T23:00:00Z"}',
    "time not understood": b'{"type":"click","at":"soon"}',
}


def test_bad_input_is_kept_with_its_reason(kafka_broker, name, tmp_path, engine):
    import pyarrow.parquet as pq

    feed = Feed(kafka_broker, name, **{"max.message.bytes": "8000000", "retention.ms": "-1"})
    for value in BAD.values():
        feed.send(value, 1, key=b"k", headers=[("h", b"\x00\xff")])
    feed.event("../../x", 2)
    feed.event("click", 3, blob="z" * 5_000_000)
    feed.flush()
    pipeline = resolved(pipeline_file([("dc1", feed)], tmp_path))
    run(pipeline, engine)
    manifest = manifests_of(pipeline)[0]
    assert manifest.rejected_records == dict.fromkeys(sorted(BAD), 1)
    (file,) = manifest.rejected
    with open_lake(pipeline).local(file.key) as path:
        kept = {row["_reason"]: row for row in pq.read_table(path).to_pylist()}
    assert {reason: row["_payload"] for reason, row in kept.items()} == BAD
    assert {row["_key"] for row in kept.values()} == {b"k"}
    assert {tuple(h["value"] for h in row["_headers"]) for row in kept.values()} == {(b"\x00\xff",)}
    sent = {(partition, offset): value for partition, offset, value in feed.sent}
    rows = content(pipeline)
    assert [len(text) > 5_000_000 for *_, text in rows] == [False, True]
    assert all(sent[partition, offset] == text.encode() for _, partition, offset, text in rows)
    assert {f.key.split("/")[0] for f in manifest.files} == {"type=..%2F..%2Fx", "type=click"}


def test_aborted_transactions_and_their_markers_are_gaps(kafka_broker, name, tmp_path, engine, monkeypatch):
    """Batches' headers explain them: nobody reads the records once more for that."""

    def again(_, *place: object) -> None:
        raise AssertionError(f"{place} was read once more")

    monkeypatch.setattr(Topics, "records", again)
    feed = Feed(kafka_broker, name, 1)
    feed.producer = feed._producer(**{"transactional.id": name})
    feed.producer.init_transactions(30)
    for number in range(6):
        feed.producer.begin_transaction()
        for minute in range(5):
            feed.event("click", number * 10 + minute, number=number)
        feed.flush()
        if number % 2:
            feed.producer.abort_transaction(30)
            del feed.sent[-5:]
        else:
            feed.producer.commit_transaction(30)
    wait_for_end(feed, 30 + 6)  # the last marker is written after the producer's call is over
    pipeline = read(pipeline_file([("dc1", feed)], tmp_path))
    # Markers carry the time at which they were written: of records with older times they end the hour.
    resolve(
        pipeline,
        open_lake(pipeline),
        list(SLICES),
        pendulum.now("UTC"),
        lambda c: at_offsets(c, 0, 17, 36, 36),
    )
    run(pipeline, engine)
    assert content(pipeline) == published(("dc1", feed))
    manifests = manifests_of(pipeline)
    assert (sum(m.read for m in manifests), sum(m.gaps for m in manifests)) == (15, 15 + 6)
    (topic,) = pipeline.kafka[0].topics
    finder = RecordFinder(pipeline.model_copy(update={"tables": {}}), open_lake(pipeline))
    for offset in range(
        36 + 1
    ):  # of each transaction five records and its marker; every other one is aborted
        (facts,) = finder.at(topic, 0, offset)
        expected = Outcome.GAP if offset % 6 == 5 or offset // 6 % 2 else Outcome.NO_TABLE
        assert outcome_of(facts) == (Outcome.BEYOND if offset == 36 else expected), offset
        assert [row.place.offset for row in facts.rows] == ([offset] if facts.rows else [])


def test_an_empty_topic_is_landed_without_spark(kafka_broker, name, tmp_path):
    pipeline = resolved(pipeline_file([("dc1", Feed(kafka_broker, name))], tmp_path))
    assert run(pipeline, None).summary()["landed"] == 3
    assert [m.read for m in manifests_of(pipeline)] == [0, 0, 0]


def test_two_at_once_land_everything_once(kafka_broker, name, tmp_path, engine):
    feed = Feed(kafka_broker, name)
    for number in range(300):
        feed.event("click", number / 2, number % 2, number=number)
    feed.flush()
    pipeline = resolved(pipeline_file([("dc1", feed)], tmp_path))
    results, errors = [], []

    def racer() -> None:
        try:
            results.append(run(pipeline, engine))
        except SluiceError as error:
            errors.append(error)

    threads = [threading.Thread(target=racer) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(len(result.landed) for result in results) == 3
    assert content(pipeline) == published(("dc1", feed))
    assert list(open_lake(pipeline).list("_attempts/")) == []


def test_the_application_as_it_is_submitted(kafka_broker, name, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SLUICE_SPARK_JARS", str(fetched.spark_jars()))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", '{"conn_type": "spark", "host": "local[2]"}')
    feed = Feed(kafka_broker, name)
    for number in range(50):
        feed.event("click", number, number % 2)
    feed.flush()
    path = pipeline_file([("dc1", feed)], tmp_path, spark_connection="spark_test")
    lines: list[str] = []
    unresolved = spark_submit_arguments(read(path), path, SLICES, "fill", "t")
    assert run_locally(unresolved, lines.append) == 1
    said = capfd.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "is not resolved" in said[0]
    pipeline = resolved(path)
    samples: list[MetricSample] = []
    meter.take()  # of other tests in this process
    with meter.taken_by(samples.append):
        ended = land_range(pipeline, path, SLICES, "fill", "t", lambda job: run_locally(job, lines.append))
        meter.emit(meter.drain(pipeline.name))
    assert ended == 0
    assert "50 records" in lines[-1]
    assert_measured(samples)
    assert content(pipeline) == published(("dc1", feed))
    assert capfd.readouterr().err == ""


def assert_measured(samples: list[MetricSample]) -> None:
    """What the driver has counted is there beside what manifests say."""
    found: dict[str, list[float]] = {}
    for one in samples:
        found.setdefault(one.metric.name, []).append(one.value)
    assert found["records_read"] == [50]
    assert found["spark_tasks"][0] >= found["spark_stages"][0] >= 1
    assert found["spark_tasks_failed"] == found["spark_shuffle_bytes"] == found["spark_spilled_bytes"] == [0]
    assert len(found["spark_stage_seconds"]) == len(found["spark_task_seconds"]) == found["spark_stages"][0]
    kept, (discarded,) = found["bytes_landed"][0], found.get("bytes_discarded", [0])
    assert found["bytes_written_per_byte_kept"] == [pytest.approx((kept + discarded) / kept)]
