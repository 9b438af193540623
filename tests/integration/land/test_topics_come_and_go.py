"""A pattern's topics come and go between hours of a real broker: every record is in exactly one hour."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import pendulum
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.flow.land.land import land
from sluice.flow.resolve.resolve import Resolution, resolve
from sluice.slices import SliceRange, Unit, to_ms
from sluice.state.file_moves import finish_moves
from tests.integration.land.test_land import START, event, spec_of
from tests.support.landing_world import rows_in
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

HOURS = 3
BEFORE = START.subtract(hours=1)


class Topics:
    """Topics `<name>.<number>` and what was sent into them."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.name, self.admin = name, AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self.sent: list[tuple[str, str]] = []

    def make(self, numbers: Iterable[int]) -> None:
        names = [f"{self.name}.{number}" for number in numbers]
        made = self.admin.create_topics([NewTopic(name, 1, 1) for name in names])
        for answer in made.values():
            answer.result(60)
        self._wait(set(names), there=True)

    def delete(self, numbers: Iterable[int]) -> None:
        names = [f"{self.name}.{number}" for number in numbers]
        for answer in self.admin.delete_topics(names).values():
            answer.result(60)
        self._wait(set(names), there=False)

    def _wait(self, names: set[str], there: bool) -> None:
        deadline = time.monotonic() + 60
        while (names if there else set()) != names & self.admin.list_topics(timeout=10).topics.keys():
            assert time.monotonic() < deadline

    def send(self, numbers: Iterable[int], minute: float) -> None:
        """One record into each, with a time so many minutes after START."""
        for number in numbers:
            topic, value = f"{self.name}.{number}", event("click", minute, id=len(self.sent))
            at = to_ms(START.add(seconds=minute * 60))
            self.producer.produce(topic, value, partition=0, timestamp=at)
            self.sent.append((topic, value.decode()))
        assert self.producer.flush(60) == 0


def hour(number: int) -> SliceRange:
    start = START.add(hours=number)
    return SliceRange(start, start.add(hours=1))


def resolved(pipeline: Pipeline, slices: SliceRange) -> Resolution:
    found = resolve(pipeline, open_lake(pipeline), list(slices), pendulum.now("UTC"))
    assert found.unreachable == {}
    return found


def landed(pipeline: Pipeline) -> Counter[tuple[str, str]]:
    """Counts (topic, payload) of all hours."""
    slices = SliceRange(BEFORE, START.add(hours=HOURS))
    lake = open_lake(pipeline)
    manifests = finish_moves(lake, [Unit(piece, "dc1") for piece in slices]).values()
    return Counter((row[2], row[5]) for row in rows_in(lake, list(manifests)))


@pytest.mark.long
@pytest.mark.parametrize(("total", "moving"), per_commit([(24, 6), (300, 20)]))
def test_every_record_is_in_exactly_one_hour(kafka_broker, name, tmp_path, engine, total, moving):
    """Of `moving` topics a third comes in the second hour and goes after it, a third is there at first, goes
    after the first hour and is another one in the third, and a third comes in the third hour."""
    topics = Topics(kafka_broker, name)
    coming, again, last = range(0, moving, 3), range(1, moving, 3), range(2, moving, 3)
    staying = range(moving, total)
    path = tmp_path / "demo.yaml"
    cluster = {"cluster": "dc1", "bootstrap": kafka_broker, "topics": [f"{name}.*"], "exclude": ["*.test"]}
    path.write_text(yaml.safe_dump({**spec_of([], tmp_path), "kafka": [cluster]}))
    pipeline, lake = read(path), None
    lake = open_lake(pipeline)

    def bring(slices: SliceRange, mode: str = "fill", token: str = "t") -> Resolution:
        found = resolved(pipeline, slices)
        land(pipeline, lake, slices, mode, token, engine, lambda line: None)
        return found

    topics.make([*staying, *again])
    topics.admin.create_topics([NewTopic(f"{name}.test", 1, 1)])[f"{name}.test"].result(30)
    topics.send([*staying, *again], 10)
    assert bring(hour(0)).changes == ()

    topics.delete(again)
    topics.make(coming)
    topics.send([*staying, *coming], 70)
    topics.send(coming, 50)  # stamped before the topic was there
    said = {change.gone: set(change.topics) for change in bring(hour(1)).changes}
    assert said == {
        True: {f"{name}.{number}" for number in again},
        False: {f"{name}.{number}" for number in coming},
    }

    topics.delete(coming)
    topics.make([*again, *last])
    topics.send([*again, *last], 100)  # before they were there
    topics.send([*staying, *again, *last], 130)
    resolved(pipeline, hour(2))
    topics.make([total])  # after the hour was resolved, and before it lands
    topics.send([total], 150)
    bring(hour(2))
    bring(SliceRange(BEFORE, START.add(hours=HOURS)))  # also a range from before any of them was there
    late = {sent for sent in topics.sent if sent[0] == f"{name}.{total}"}
    assert landed(pipeline) == Counter(set(topics.sent) - late)
    assert len(topics.sent) == len(set(topics.sent))

    before = landed(pipeline)
    bring(hour(2), "reland", "u")
    assert landed(pipeline) == before
