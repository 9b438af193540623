"""What a survey asks of ClickHouse: the ledger of its own range, whatever the history holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pendulum
import pytest

from sluice.clients.clickhouse.shards import Server
from sluice.config.clickhouse import Shard
from sluice.flow import choose_backlog as oldest_unlanded
from sluice.flow.resolve.resolve import resolve, retained_losses
from sluice.slices import SliceRange
from sluice.state import survey as surveying
from sluice.watch import observe as observing
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.page_world import START, pipeline

HOURS = SliceRange(START, START.add(hours=3))
SECONDS = (1_795_168_800, 1_795_179_600)  # 2026-11-20T10:00Z and 13:00Z, by `date -d … +%s`


@dataclass
class Asked:
    """A ClickHouse client that notes what it is asked, and holds nothing."""

    address: str = "here"
    parameters: list[Mapping[str, Any]] = field(default_factory=list)

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Sequence[Any]]:
        if "sluice.ledger" in statement:
            self.parameters.append(parameters or {})
        return []


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Asked:
    client, lake = Asked(), MemoryLake()

    @contextmanager
    def servers(_: object) -> Iterator[tuple[Server, ...]]:
        yield (Server(Shard.model_construct(name="", connection="c"), client),)

    for module in (surveying, observing):
        monkeypatch.setattr(module, "connect_shards", servers)
    monkeypatch.setattr(surveying, "open_lake", lambda _: lake)
    return client


def test_a_survey_reads_the_ledger_of_its_range_only(client: Asked):
    found = surveying.survey(pipeline(), HOURS)
    assert [str(status.unit) for status in found] == [f"2026-11-20T{hour}Z/dc1" for hour in (10, 11, 12)]
    ranges = [(asked["start"], asked["end"]) for asked in client.parameters if "start" in asked]
    assert ranges == [SECONDS]


def test_a_watch_reads_the_ledger_of_what_it_watches(client: Asked, monkeypatch: pytest.MonkeyPatch):
    kafka = FakeKafka({("dc1", "t"): FakeTopic("u", {0: []})})
    monkeypatch.setattr(oldest_unlanded, "resolve", lambda *known: resolve(*known, kafka.topics_of))
    losses = lambda *known: retained_losses(*known, kafka.topics_of)  # noqa: E731
    monkeypatch.setattr(oldest_unlanded, "retained_losses", losses)
    monkeypatch.setattr(observing, "ask_topics", lambda *_: ({}, []))
    spec = pipeline(lookback="3h")
    observing.observe(spec, MemoryLake(), pendulum.datetime(2026, 11, 20, 13, 10))
    ranges = [(asked["start"], asked["end"]) for asked in client.parameters if "start" in asked]
    assert ranges == [SECONDS]


def test_what_was_resolved_is_over_by_a_clock_that_is_behind(client: Asked, monkeypatch: pytest.MonkeyPatch):
    """A run of two hours on a worker by whose clock the second is not over: what is not there is missing."""
    monkeypatch.setattr(pendulum, "now", lambda tz=None: START.add(hours=1, minutes=50))
    slices = SliceRange(START, START.add(hours=2))
    assert [str(s.state) for s in surveying.survey(pipeline(), slices)] == ["missing", "not over"]
    assert [str(s.state) for s in surveying.survey_past(pipeline(), slices)] == ["missing", "missing"]
