"""What the watch reads while a source is silent, and of hours that Kafka has lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pendulum
import pytest

from sluice.clients.clickhouse.shards import Server
from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.clients.lake import layout
from sluice.config.clickhouse import Shard
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import ClickHouseUnavailable
from sluice.flow.resolve.expired import retained_losses
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import OffsetRange, encode
from sluice.plan.lag import ask_topics
from sluice.slices import SliceRange
from sluice.state import survey as surveying
from sluice.watch import observe as observing
from sluice.watch.observe import Observation, observe
from sluice.watch.problems import ProblemSource
from sluice.watch.watch import watch
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.page_world import START, manifest, pipeline, unit

HOUR_MS = 3_600_000
FIRST_MS = 1_795_168_800_000  # 2026-11-20T10:00Z, by `date -d … +%s`


@dataclass
class World:
    """Kafka, ClickHouse and a lake in this process; `away`: ClickHouse does not answer."""

    kafka: FakeKafka
    lake: MemoryLake = field(default_factory=MemoryLake)
    settings: Mapping[str, str] = field(default_factory=dict)
    away: bool = False
    address: str = "ch:8123"

    def rows(self, *_: object) -> list[Sequence[Any]]:
        """Answers every statement as a ClickHouse that holds nothing."""
        return []

    @contextmanager
    def servers(self, _: object) -> Iterator[tuple[Server, ...]]:
        if self.away:
            raise ClickHouseUnavailable(self.address, "refused")
        yield (Server(Shard.model_construct(name="", connection="c"), self),)

    @contextmanager
    def inquiry(self, cluster: Cluster) -> Iterator[Inquiry]:
        yield Inquiry(self, cluster.cluster)

    def heard(self, spec: Pipeline, now: pendulum.DateTime) -> list[str]:
        """Runs the watch once, and returns the lines of its notice."""
        bodies: list[str] = []
        watch(spec, self.lake, now, lambda _channel, _subject, text: bodies.append(text))
        return [line for body in bodies for line in body.splitlines()]

    def observe(self, spec: Pipeline, now: pendulum.DateTime) -> Observation:
        return observe(spec, self.lake, now)


@dataclass
class Inquiry:
    world: World
    cluster: str

    def facts(self, topic: str) -> TopicFacts:
        found = self.world.kafka.topics[self.cluster, topic]
        partitions = {p: PartitionFacts(start, found.ends[p]) for p, start in found.log_starts.items()}
        return TopicFacts(self.cluster, topic, 1, 0, None, self.world.settings, partitions)


def records(counts: Mapping[int, int]) -> list[int]:
    """Returns stamps of so many records by the hour after START."""
    return [FIRST_MS + hour * HOUR_MS + number for hour, count in counts.items() for number in range(count)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(FakeKafka({("dc1", "t"): FakeTopic("u", {0: []})}))
    topics_of = world.kafka.topics_of
    monkeypatch.setattr(observing, "resolve", lambda *known: resolve(*known, topics_of))
    monkeypatch.setattr(observing, "retained_losses", lambda *known: retained_losses(*known, topics_of))
    monkeypatch.setattr(observing, "ask_topics", lambda spec: ask_topics(spec, topics_of))
    monkeypatch.setattr(observing, "open_inquiry", world.inquiry)
    for module in (surveying, observing):
        monkeypatch.setattr(module, "connect_shards", world.servers)
    return world


@pytest.mark.parametrize("away", [False, True], ids=["clickhouse answers", "clickhouse is silent"])
def test_the_lag_is_what_lake_and_kafka_say(world: World, away: bool):
    """Hours 10 and 11 have landed. The 5 records of hour 9 have not, nor have the 3 of hour 12."""
    world.kafka.topics["dc1", "t"] = FakeTopic("u", {0: records({-1: 5, 0: 7, 1: 11, 2: 3})})
    spec, now = pipeline(heal="2h"), START.add(hours=2, minutes=5)
    resolve(
        spec, world.lake, SliceRange(START.subtract(hours=1), START.add(hours=2)), now, world.kafka.topics_of
    )
    for hour, start, until in ((0, 5, 12), (1, 12, 23)):
        landed = replace(manifest(unit(hour), ()), ranges=(OffsetRange("t", "u", 0, start, until),))
        world.lake.put(layout.manifest(unit(hour).slice.id, "dc1"), encode(landed))
    world.away = away
    seen = world.observe(spec, now)
    assert (ProblemSource.CLICKHOUSE in seen.silent, seen.lag_records) == (away, 5 + 3)
    (one,) = seen.lag.partitions
    assert (one.landed_until, one.records, one.seconds, one.log_end) == (23, 5 + 3, 5 * 60, 26)


def troubled(world: World) -> Pipeline:
    """Hours 8 and 9 are before `heal`. Kafka has lost 5 records of hour 10 in topic x; partition 1 of topic t
    stands still since 9:00. Boundaries are stored until 12:00."""
    world.kafka.topics["dc1", "t"] = FakeTopic(
        "u", {0: records(dict.fromkeys(range(-2, 5), 10)), 1: records({-2: 5})}
    )
    world.kafka.topics["dc1", "x"] = FakeTopic("v", {0: records({0: 20})})
    world.settings = {"retention.ms": str(9 * HOUR_MS)}
    alarms = {"lag": "1h", "lag_records": 10, "notify": [{"email": "mail", "to": "ops@example.com"}]}
    kafka = [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["t", "x"]}]
    spec = pipeline(kafka=kafka, heal="4h", stalled_after=2, alarms=alarms)
    resolved = SliceRange(START.subtract(hours=2), START.add(hours=2))
    resolve(spec, world.lake, resolved, START.add(hours=4), world.kafka.topics_of)
    world.kafka.topics["dc1", "x"].starts[0] = 5
    return spec


@pytest.mark.parametrize("source", [ProblemSource.KAFKA, ProblemSource.CLICKHOUSE])
def test_a_silent_source_is_one_problem_and_neither_begins_nor_ends_another(
    world: World, source: ProblemSource
):
    spec, now = troubled(world), START.add(hours=4, minutes=40)
    assert [line.split(": ", 2)[:2] for line in world.heard(spec, now)] == [
        ["PROBLEM hour overdue", "slice 2026-11-20T11Z/dc1"],
        ["PROBLEM hour overdue", "slice 2026-11-20T12Z/dc1"],
        ["PROBLEM hour overdue", "slice 2026-11-20T13Z/dc1"],
        ["PROBLEM lag", "records"],
        ["PROBLEM lag", "seconds"],
        ["PROBLEM older hours", "before the last `heal`"],
        ["PROBLEM partition stands still", "cluster dc1, t/1"],
        ["PROBLEM records expired", "slice 2026-11-20T10Z/dc1"],
        ["PROBLEM retention", "4 times, from slice 2026-11-20T08Z/dc1 to 2026-11-20T11Z/dc1; of the first"],
        ["PROBLEM table missing", "table events.clicks"],
    ]
    world.away = source is ProblemSource.CLICKHOUSE
    world.kafka.silent = {"dc1"} if source is ProblemSource.KAFKA else set()
    (silent,) = world.heard(spec, now.add(minutes=5))
    assert silent.startswith(f"PROBLEM unavailable: {source}: ")
    world.away, world.kafka.silent = False, set()
    (back,) = world.heard(spec, now.add(minutes=10))
    assert back.startswith(f"OVER unavailable: {source} (open since 2026-11-20T14:45")


def test_records_that_wait_are_noticed_while_clickhouse_is_silent(world: World):
    spec, now = troubled(world), START.add(hours=4, minutes=40)
    world.away = True
    assert "PROBLEM lag: records: 90 records are in Kafka and not landed, the bound is 10" in world.heard(
        spec, now
    )
