"""Kafka, ClickHouse and a lake for the watch and the page's clock, all in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pendulum
import pytest

from sluice.clients.clickhouse.shards import Server
from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import ClickHouseUnavailable
from sluice.flow import choose_backlog as oldest_unlanded
from sluice.flow.resolve.resolve import resolve, retained_losses
from sluice.page import retention
from sluice.plan.lag import ask_topics
from sluice.state import survey as surveying
from sluice.watch import observe as observing
from sluice.watch import watch as watching
from sluice.watch.observe import Observation, observe
from sluice.watch.watch import watch
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake

HOUR_MS = 3_600_000
FIRST_MS = 1_795_168_800_000  # 2026-11-20T10:00Z, by `date -d … +%s`


@dataclass
class World:
    """Kafka, ClickHouse and a lake in this process; `away`: ClickHouse does not answer."""

    kafka: FakeKafka
    lake: MemoryLake = field(default_factory=lambda: MemoryLake(pipeline="p"))
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


def without_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the watch find no damage: what a test has put there did not come from Kafka, or no server has it.
    Who looks for real is tests/faults/test_damage_watched.py."""
    monkeypatch.setattr(watching, "look", lambda _pipeline, _lake, _recent, before, _now: before)


def world_of(monkeypatch: pytest.MonkeyPatch) -> World:
    """Returns one without a record, which watch and page ask."""
    world = World(FakeKafka({("dc1", "t"): FakeTopic("u", {0: []})}))
    topics_of = world.kafka.topics_of
    monkeypatch.setattr(oldest_unlanded, "resolve", lambda *known: resolve(*known, topics_of))
    monkeypatch.setattr(oldest_unlanded, "retained_losses", lambda *known: retained_losses(*known, topics_of))
    monkeypatch.setattr(observing, "ask_topics", lambda spec, known: ask_topics(spec, known, topics_of))
    for asking in (observing, retention):
        monkeypatch.setattr(asking, "open_inquiry", world.inquiry)
    without_look(monkeypatch)
    for module in (surveying, observing):
        monkeypatch.setattr(module, "connect_shards", world.servers)
    return world
