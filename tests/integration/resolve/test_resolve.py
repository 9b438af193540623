"""Boundaries against a real broker: what its logs, its transactions and its retention really do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pendulum
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from sluice.clients.kafka import lookups
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.errors import GroupAtWork, KafkaUnavailable, UnknownTopic
from sluice.flow.resolve.resolve import Resolution, resolve
from sluice.manifest import OffsetRange
from sluice.slices import Slice, SliceRange
from sluice.state.boundaries.log import BoundaryLog
from tests.support.fakes import MemoryLake
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

TEN = pendulum.datetime(2026, 1, 20, 10)
NOW = TEN.add(days=1)


def ms(hour: int, minute: int = 0) -> int:
    return int(TEN.add(hours=hour - 10, minutes=minute).timestamp() * 1000)


def slice_at(hour: int) -> Slice:
    return Slice(TEN.add(hours=hour - 10))


def pipeline_of(bootstrap: str, *topics: str, **cluster: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "adx",
            "kafka": [{"cluster": "dc1", "bootstrap": bootstrap, "topics": list(topics), **cluster}],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///lake",
        }
    )


class World:
    """One topic of the real broker, made by the test, and a lake in memory."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.bootstrap = bootstrap
        self.pipeline = pipeline_of(bootstrap, topic)
        self.lake = MemoryLake()
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self.connect()

    def connect(self) -> None:
        self.producer = KafkaProducer(bootstrap_servers=self.bootstrap, compression_type="zstd")

    def make(self, partitions: int = 1, **configs: str) -> World:
        named = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
        wanted = {self.topic: {"num_partitions": partitions, "configs": named}}
        self.admin.create_topics(wanted, wait_for_metadata=True)
        return self

    def add(self, *stamps: int, partition: int = 0) -> None:
        for at in stamps:
            self.producer.send(self.topic, b"x", b"key", partition=partition, timestamp_ms=at)
        self.producer.flush()

    def resolve(self, *hours: int) -> Resolution:
        return resolve(self.pipeline, self.lake, [slice_at(hour) for hour in hours], NOW)

    def resolved(self, *hours: int) -> Resolution:
        resolution = self.resolve(*hours)
        assert resolution.unreachable == {}
        return resolution

    def edges(self, hour: int, partition: int = 0) -> tuple[int, int]:
        found = BoundaryLog(self.lake).read().ranges(slice_at(hour), "dc1", [self.topic])
        assert found is not None
        return next((r.start, r.until) for r in found if r.partition == partition)


@pytest.fixture
def it(kafka_broker: str, name: str) -> Iterator[World]:
    world = World(kafka_broker, name)
    yield world
    world.producer.close()
    world.admin.close()


@pytest.fixture
def transactional(kafka_broker: str, name: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=kafka_broker, transactional_id=name)
    producer.init_transactions()
    yield producer
    producer.close()


def transaction(it: World, producer: KafkaProducer, commit: bool, *stamps: int) -> None:
    producer.begin_transaction()
    for at in stamps:
        producer.send(it.topic, b"x", partition=0, timestamp_ms=at)
    producer.flush()
    producer.commit_transaction() if commit else producer.abort_transaction()


def wait_for_end(it: World, end: int) -> None:
    """The broker writes a transaction's marker some time after it has answered."""
    place = TopicPartition(it.topic, 0)
    deadline = time.monotonic() + 30
    while it.admin.list_partition_offsets({place: -1}, isolation_level="read_committed")[place].offset != end:
        assert time.monotonic() < deadline


def test_transactions_under_read_committed(it: World, transactional: KafkaProducer):
    it.make()
    transaction(it, transactional, True, ms(9, 1), ms(10, 1))  # 0, 1, marker 2
    wait_for_end(it, 3)
    transaction(it, transactional, False, ms(10, 2), ms(10, 3))  # 3, 4, marker 5
    wait_for_end(it, 6)
    it.add(ms(10, 4))  # 6
    transactional.begin_transaction()
    transactional.send(it.topic, b"x", partition=0, timestamp_ms=ms(10, 5))  # 7, still open
    transactional.flush()
    it.add(ms(10, 6))  # 8: behind the last stable offset
    it.resolved(9, 10)
    assert [it.edges(hour) for hour in (9, 10)] == [(0, 1), (1, 7)]
    transactional.commit_transaction()  # marker 9
    wait_for_end(it, 10)
    it.add(ms(12, 1))  # 10
    it.resolved(11)
    assert it.edges(11) == (7, 10)

    with open_topics(it.pipeline.kafka[0]) as topics:
        assert topics.unhidden(it.topic, 0, [(2, 6), (7, 8), (9, 10)]) is None
        assert topics.unhidden(it.topic, 0, [(2, 6), (6, 7), (9, 10)]) == (6, 7)
        assert topics.unhidden(it.topic, 0, [(2, 7)]) == (2, 7)
        assert topics.unhidden(it.topic, 0, [(9, 12)]) == (9, 12)


def test_reading_on_finds_what_kafka_answers(it: World, monkeypatch: pytest.MonkeyPatch):
    """Late records, records of one time, a partition that begins behind its log's start, an empty one."""
    it.make(partitions=4)
    for partition in range(3):
        it.add(*(ms(9, (minute * 37) % 61) for minute in range(120)), partition=partition)
    it.add(ms(9, 59), ms(9, 59), partition=1)
    it.admin.delete_records({TopicPartition(it.topic, 2): 50})
    instants = [ms(8, 59) + 20_000 * step for step in range(200)]
    found = {}
    for name, enough in (("asked", 10_000), ("read", 1)):
        monkeypatch.setattr(lookups, "QUESTIONS_PER_CONSUMER", enough)
        with open_topics(it.pipeline.kafka[0]) as topics:
            found[name] = topics.look_up(it.topic, topics.describe(it.topic).ends, instants)
    assert found["read"] == found["asked"]
    assert set(found["read"][3].offsets) == {lookups.NONE}


def test_a_topic_is_compacted_or_it_is_not(it: World):
    it.make(cleanup_policy="compact,delete").add(ms(10), ms(10))
    with open_topics(it.pipeline.kafka[0]) as topics:
        assert topics.unhidden(it.topic, 0, [(0, 1)]) is None
        resource = ConfigResource(ConfigResourceType.TOPIC, it.topic, {"cleanup.policy": "delete"})
        it.admin.alter_configs([resource])
        deadline = time.monotonic() + 30
        while topics.unhidden(it.topic, 0, [(0, 1)]) != (0, 1):
            assert time.monotonic() < deadline


def test_an_unknown_topic_does_not_hold_up_the_others(it: World):
    it.make().add(ms(10, 1))
    it.pipeline = pipeline_of(it.bootstrap, "absent", it.topic)
    resolution = it.resolve(10)
    assert isinstance(resolution.unreachable["dc1"], UnknownTopic)
    assert "no topic 'absent'" in str(resolution.unreachable["dc1"])
    assert it.edges(10) == (0, 1)
    assert "absent" not in it.admin.list_topics()


@pytest.mark.parametrize("listening", per_commit([False, True]), ids=["refused", "silent"])
def test_unavailable_is_said_soon(it: World, listening: bool):
    """Nobody listens at the port, or somebody does and never answers."""
    it.make().add(ms(10, 1))
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        if listening:
            server.listen()
        port = server.getsockname()[1]
        pipeline = it.pipeline.model_copy(
            update={
                "kafka": [
                    it.pipeline.kafka[0],
                    pipeline_of(f"127.0.0.1:{port}", "bids", cluster="dc2").kafka[0],
                ]
            }
        )
        before = time.monotonic()
        resolution = resolve(pipeline, it.lake, [slice_at(10)], NOW)
        assert time.monotonic() - before < 15
    assert isinstance(resolution.unreachable["dc2"], KafkaUnavailable)
    assert it.edges(10) == (0, 1)


def test_sixteen_resolvers_at_once_agree(it: World, tmp_path: Path):
    it.make(partitions=4)
    lake = FolderLake(tmp_path)
    hours = list(range(16))
    stop = threading.Event()

    def produce() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            it.producer.send(it.topic, b"x", partition=number % 4, timestamp_ms=ms(0, number * 37 % 960)).get(
                10
            )

    def work(first: int) -> list[tuple[OffsetRange, ...]]:
        mine = [slice_at(hours[(first * 5 + step) % 16]) for step in range(4)]
        found = resolve(it.pipeline, lake, mine, NOW)
        assert found.unreachable == {}
        return [(piece, found.boundaries.ranges(piece, "dc1", [it.topic])) for piece in mine]

    producing = threading.Thread(target=produce)
    producing.start()
    try:
        with ThreadPoolExecutor(16) as pool:
            answers = [pair for pairs in pool.map(work, range(16)) for pair in pairs]
    finally:
        stop.set()
        producing.join()
    stored = BoundaryLog(lake).read()
    assert {piece for piece, _ in answers} == {slice_at(hour) for hour in hours}
    assert all(stored.ranges(piece, "dc1", [it.topic]) == seen for piece, seen in answers)
    tiled = [
        stored.ranges(piece, "dc1", [it.topic])
        for piece in SliceRange(TEN.subtract(hours=10), TEN.add(hours=6))
    ]
    for earlier, later in pairwise(tiled):
        assert [r.until for r in earlier] == [r.start for r in later]
        assert all(r.start <= r.until for r in earlier)


def test_the_first_slice_begins_where_a_consumer_group_has_stopped(it: World):
    """While it has members Sluice waits; a kill leaves them until their session ends."""
    it.make(partitions=3)
    it.add(ms(8), ms(9), ms(10, 30), ms(11), partition=0)
    it.add(ms(10, 10), partition=1)  # the group is at its end; partition 2 is empty
    group = f"loader of {it.topic}"
    it.pipeline = pipeline_of(it.bootstrap, it.topic, start={"group": group})
    consumer = KafkaConsumer(
        it.topic, bootstrap_servers=it.bootstrap, group_id=group, enable_auto_commit=False
    )
    deadline = time.monotonic() + 60
    while len(consumer.assignment()) < 3:
        consumer.poll(200)
        assert time.monotonic() < deadline
    places = {TopicPartition(it.topic, n): OffsetAndMetadata(at, "", -1) for n, at in ((0, 2), (1, 1))}
    consumer.commit(places)
    found = it.resolve(10).unreachable["dc1"]
    assert isinstance(found, GroupAtWork) and found.members == 1 and found.retryable
    consumer.close()
    it.add(ms(10, 40), partition=2)  # after it was stopped: nobody has read it
    assert "of dc1/" in str(it.resolve(10).unreachable["dc1"])
    it.admin.alter_group_offsets(group, {TopicPartition(it.topic, 2): OffsetAndMetadata(0, "", -1)})
    it.resolved(10)
    assert [it.edges(10, n) for n in range(3)] == [(2, 3), (1, 1), (0, 1)]
    it.admin.delete_groups([group])
    it.resolved(9, 11)
    assert [it.edges(9, n) for n in range(3)] == [(2, 2), (1, 1), (0, 0)]
    assert [it.edges(11, n) for n in range(3)] == [(3, 4), (1, 1), (1, 1)]
