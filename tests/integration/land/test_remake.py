"""A unit made again out of the lake by Spark, with no Kafka there: the tables, and a `reland` of it."""

from __future__ import annotations

import json

import pytest

from sluice.clients.lake.open import open_lake
from sluice.flow.land.task import read_lake
from sluice.flow.land.task import read_lake as lake_read
from sluice.manifest import Manifest
from sluice.slices import Unit, to_ms
from tests.support.landed_contents import contents
from tests.support.spark_world import START, SparkWorld, event, hours

pytestmark = pytest.mark.integration

EVENTS = 400


def messages() -> list[bytes]:
    """Every tenth has its time in milliseconds."""
    right = [event(n / 10, type=("click", "bid")[n % 2], n=n) for n in range(EVENTS)]
    for n in range(0, EVENTS, 10):
        at = to_ms(START.add(seconds=n * 6))
        right[n] = json.dumps({"at": at, "type": "click", "n": n}).encode()
    return right


@pytest.mark.long
def test_a_time_format_is_mended_with_kafka_off(spark_world: SparkWorld, monkeypatch):
    """As a large unit: several tasks of Spark's, which sort on their disks."""
    monkeypatch.setattr(lake_read, "TOGETHER", 0)
    monkeypatch.setattr(lake_read.shares, "__defaults__", (0,))
    monkeypatch.setattr(read_lake.sorted_by_record, "__defaults__", (2_000,))
    world = spark_world
    topic, table = world.topic("events"), world.table("clicks", "n UInt32")
    world.send(topic, messages())
    epoch = {"type": {"field": "type"}, "time": {"field": "at", "format": "epoch_ms"}}
    kafka, targets = world.cluster(topic), {"click": table, "bid": table}
    pipeline = world.pipeline(kafka=kafka, event=epoch, tables=targets)
    assert world.run(pipeline, hours()) == []
    early = set(range(0, EVENTS, 10))
    assert {n for (n,) in world.rows("SELECT n FROM DB.clicks")} == early

    texts = {"type": {"field": "type"}, "time": {"field": "at", "format": "iso8601"}}
    nowhere = [{**kafka[0], "bootstrap": "127.0.0.1:1"}]
    pipeline = world.pipeline(kafka=nowhere, event=texts)
    assert world.run(pipeline, hours(), "remake", accept_loss=True) == []
    found = [n for (n,) in world.rows("SELECT n FROM DB.clicks ORDER BY n")]
    assert found == [n for n in range(EVENTS) if n not in early]
    [manifest] = world.manifests(pipeline, hours())
    assert (manifest.generation, manifest.read, manifest.kept) == (2, EVENTS, len(early))
    remade = remade_contents(world, pipeline)

    pipeline = world.pipeline(kafka=kafka)
    assert world.run(pipeline, hours(), "reland") == []
    assert remade_contents(world, pipeline) == remade


def remade_contents(world: SparkWorld, pipeline) -> dict[str, tuple[list, Manifest]]:
    return contents(open_lake(pipeline), [Unit(piece, "dc1") for piece in hours()])
