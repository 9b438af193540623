"""Records that are small on the wire and large in memory: each is rejected alone, with its size, and all
others land; whichever way they are read, in every compression."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.flow.land.land import land
from sluice.flow.steps import resolve_range
from sluice.slices import to_ms
from tests.support.long_form import per_commit
from tests.support.spark_world import START, SparkWorld, event, hours
from tests.support.stored_batch import batch, bomb, bomb_size, record, send, varint

pytestmark = pytest.mark.integration

BY_FIELD = {"type": {"topic": True}, "time": {"field": "at"}}
HEADERS = 3_000_000
SIZES = {"gzip": 880 << 20, "zstd": 880 << 20, "lz4": 200 << 20, "snappy": 16 << 20}


def with_headers(offset: int, value: bytes, count: int) -> bytes:
    """A record of so many headers without name and value, of two bytes each."""
    body = b"\0" + varint(0) + varint(offset) + varint(-1) + varint(len(value)) + value
    body += varint(count) + (varint(0) + varint(-1)) * count
    return varint(len(body)) + body


def beside(world: SparkWorld, topic: str, minute: float, codec: str, size: int) -> list[bytes]:
    """One stored batch with a bomb between two events, whose bytes are returned."""
    events = [event(minute, n=n) for n in (0, 2)]
    records = [record(0, events[0]), *bomb(1, size), record(2, events[1], b"k")]
    stamp = to_ms(START.add(seconds=minute * 60))
    send(world.bootstrap, topic, 0, batch(records, 3, codec, stamp))
    return events


def in_lake(world: SparkWorld, pipeline: Pipeline) -> tuple[list[tuple], list[tuple]]:
    """(offset, payload) of all rows; (offset, reason, size, payload) of all rejected records."""
    rows, refused, lake = [], [], open_lake(pipeline)
    for manifest in world.manifests(pipeline, hours(0, 3)):
        for file in manifest.all_files:
            with lake.local(file.key) as path:
                found = pq.read_table(path).to_pylist()
            if file in manifest.rejected:
                refused += [(r["_offset"], r["_reason"], r["_size"], r["_payload"]) for r in found]
            else:
                rows += [(r["_offset"], r["_payload"].encode()) for r in found]
    return sorted(rows), sorted(refused)


def lands(world: SparkWorld, topic: str, **more: Any) -> tuple[Pipeline, list[str]]:
    pipeline = world.pipeline(kafka=world.cluster(topic), event=BY_FIELD, tables={}, **more)
    resolve_range(pipeline, hours(0, 3))
    said: list[str] = []
    land(pipeline, open_lake(pipeline), hours(0, 3), "fill", "t", world.engine, said.append)
    return pipeline, said


@pytest.mark.parametrize("together", per_commit([True, False]), ids=["by tasks", "by Spark's source"])
@pytest.mark.parametrize("codec", per_commit(sorted(SIZES)))
def test_a_bomb_is_rejected_and_its_neighbours_and_the_other_hours_land(
    kafka_broker, name, tmp_path, engine, monkeypatch, codec, together
):
    if not together:
        monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])
    world = SparkWorld(name, tmp_path, kafka_broker, None, engine)
    topic, size = world.topic("t"), SIZES[codec]
    before = [event(1, n=n) for n in range(5)]
    world.send(topic, before, 1)
    world.send(topic, [event(60, n=5)], 60)  # the broker itself unpacks what a look-up of an hour finds
    first, second = beside(world, topic, 61, codec, size)
    after = [event(121, n=n) for n in range(5)]
    world.send(topic, after, 121)
    pipeline, _ = lands(world, topic, max_record="8MiB")
    rows = [*enumerate([*before, event(60, n=5), first]), (8, second), *enumerate(after, 9)]
    assert in_lake(world, pipeline) == (rows, [(7, "too large", bomb_size(1, size), None)])
    assert [m.rejected_records for m in world.manifests(pipeline, hours(0, 3))] == [{}, {"too large": 1}, {}]


@pytest.mark.long
@pytest.mark.parametrize("together", [True, False], ids=["by tasks", "by Spark's source"])
def test_a_record_of_millions_of_headers_is_rejected_and_its_neighbours_land(
    kafka_broker, name, tmp_path, engine, monkeypatch, together
):
    if not together:
        monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])
    world = SparkWorld(name, tmp_path, kafka_broker, None, engine)
    topic, events = world.topic("t"), [event(5, n=n) for n in range(3)]
    before, after = event(1, n=9), event(61, n=10)
    world.send(topic, [before], 1)
    most, beyond = with_headers(1, events[1], 10_000), with_headers(2, events[2], HEADERS)
    stored = batch(
        [record(0, events[0]), most, beyond, record(3, events[0])], 4, "zstd", to_ms(START.add(minutes=5))
    )
    assert len(stored) < 4_000
    send(world.bootstrap, topic, 0, stored)
    world.send(topic, [after], 61)
    pipeline, _ = lands(world, topic)
    rows = [(0, before), (1, events[0]), (2, events[1]), (4, events[0]), (5, after)]
    size = 2 * HEADERS + len(events[2]) + 9
    assert in_lake(world, pipeline) == (rows, [(3, "too large", size, None)])
