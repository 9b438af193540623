"""A batch whose bytes have changed on the broker's disk: no reader hands over a row of it."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from local.services import KafkaBroker
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import BatchUnreadable, SluiceError
from sluice.flow.land.land import land
from sluice.flow.steps import resolve_range
from tests.support.long_form import per_commit
from tests.support.spark_world import SparkWorld, event, hours

pytestmark = pytest.mark.integration

WORD, BENT = b"amount-100", b"amount-900"


def damaged(world: SparkWorld, broker: KafkaBroker) -> str:
    """A topic of three hours with two events each, of which that at offset 3 says another amount on disk."""
    topic = world.topic("t")
    for minute, amount in ((1, "amount-1"), (2, "amount-2"), (61, "amount-3"), (62, WORD.decode())):
        world.send(topic, [event(minute, amount=amount)], minute)
    world.send(topic, [event(121), event(122)], 121)
    (log,) = (broker.data / "log" / f"{topic}-0").glob("*.log")
    data = log.read_bytes()
    assert data.count(WORD) == 1
    with log.open("r+b") as file:
        file.seek(data.index(WORD))
        file.write(BENT)
    return topic


def test_it_is_one_error_that_names_its_place(kafka_service, name, tmp_path):
    world = SparkWorld(name, tmp_path, kafka_service.bootstrap, None, None)
    topic = damaged(world, kafka_service)
    told = rf"offsets \[3, 4\) of dc1/{topic}/0 cannot be read \(its checksum"
    with BoundedReader(KafkaSettings("dc1", world.bootstrap), 1 << 20) as reader:
        before = [value for part in reader.read([OffsetSpan(topic, 0, 0, 3)]) for value in part.values]
        behind = [value for part in reader.read([OffsetSpan(topic, 0, 4, 6)]) for value in part.values]
        found = []
        with pytest.raises(BatchUnreadable, match=told):
            found.extend(reader.read([OffsetSpan(topic, 0, 2, 6)]))
        with pytest.raises(BatchUnreadable, match=told):
            list(reader.each(topic, 0, [3]))
    assert before == [event(minute, amount=f"amount-{n}") for n, minute in ((1, 1), (2, 2), (3, 61))]
    assert behind == [event(121), event(122)]
    assert [(part.offsets, part.values) for part in found] == [([2], [event(61, amount="amount-3")])]


def payloads(world: SparkWorld, pipeline: Pipeline) -> list[str]:
    """Of all rows in the lake, by offset."""
    rows, lake = [], open_lake(pipeline)
    for manifest in world.manifests(pipeline, hours(0, 3)):
        for file in manifest.files:
            with lake.local(file.key) as path:
                rows += pq.read_table(path).to_pylist()
    return [row["_payload"] for row in sorted(rows, key=lambda row: row["_offset"])]


@pytest.mark.parametrize("together", per_commit([True, False]), ids=["by tasks", "by Spark's source"])
@pytest.mark.long
def test_its_hour_does_not_land_and_the_others_do(
    kafka_service, name, tmp_path, engine, monkeypatch, together
):
    if not together:
        monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])
    world = SparkWorld(name, tmp_path, kafka_service.bootstrap, None, engine)
    topic = damaged(world, kafka_service)
    by_field = {"type": {"topic": True}, "time": {"field": "at"}}
    pipeline = world.pipeline(kafka=world.cluster(topic), event=by_field, tables={})
    resolve_range(pipeline, hours(0, 3))
    with pytest.raises(SluiceError, match=rf"2 other units did: .*{topic}.0.*\b3\b"):
        land(pipeline, open_lake(pipeline), hours(0, 3), "fill", "t", engine, lambda line: None)
    found = [[m.read for m in world.manifests(pipeline, hours(n, n + 1))] for n in range(3)]
    assert found == [[2], [], [2]]
    assert payloads(world, pipeline) == [
        *(event(minute, amount=f"amount-{minute}").decode() for minute in (1, 2)),
        *(event(minute).decode() for minute in (121, 122)),
    ]
