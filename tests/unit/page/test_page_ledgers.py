"""The overview's statements: one for each server, and what does not answer is only its own pipelines'."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.clients.lake.open import open_lake
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Pipeline
from sluice.errors import ClickHouseUnavailable, Unavailable, WrongUse
from sluice.page.status_cache import ask_together
from sluice.slices import SliceRange
from tests.support.page_world import START, pipeline, unit

RANGE = SliceRange(START, START.add(hours=3))
SHARDS = {"shards": [{"name": "s1", "connection": "one"}, {"name": "s2", "connection": "two"}]}


class Ledger:
    """A ClickHouse in whose ledger every pipeline has committed these hours; `shard`: pipeline a has placed
    them on this one of its shards."""

    def __init__(self, *hours: int, silent: bool = False, shard: str = "") -> None:
        self.hours, self.silent, self.shard, self.asked = hours, silent, shard, []

    def stamp(self, name: str) -> str:
        sharding = named("a", **SHARDS).clickhouse.sharding("events.a")
        return f"{self.shard} of {sharding}" if self.shard and name == "a" else ""

    def rows(self, sql: str, parameters: dict) -> list[tuple]:
        names = [table.removeprefix("events.") for table in parameters["targets"]]
        self.asked.append(names)
        if self.silent:
            raise ClickHouseUnavailable("h:1", "away")
        starts = [int(unit(hour).slice.start.timestamp()) for hour in self.hours]
        return [
            (
                name,
                open_lake(named(name)).url,
                f"events.{name}",
                at,
                "dc1",
                "1-a",
                ["click"],
                5,
                5,
                0,
                "run",
                1,
                self.stamp(name),
                "",
                [],
                True,
                {},
                {},
                {},
                1,
            )
            for name in names
            for at in starts
        ]


class Clients:
    """By the connection's name its ClickHouse, or None for one that cannot even be begun with."""

    def __init__(self, **known: Ledger | None) -> None:
        self.known, self.probes = known, []

    def of(self, shard: Shard) -> Ledger:
        (name,) = shard.connections
        self.probes.append(name)
        if self.known[name] is None:
            raise ClickHouseUnavailable("h:1", "away")
        return self.known[name]


def named(name: str, **clickhouse: object) -> Pipeline:
    return pipeline(name=name, clickhouse=clickhouse, tables={"click": f"events.{name}"})


def asked(clients: Clients, *pipelines: Pipeline) -> list[dict[str, list[int]] | type[Exception]]:
    """Of each pipeline the rows of its hours by table, or the error that its row shows."""
    with ThreadPoolExecutor(2) as pool:
        answers = ask_together(clients, pool, [(one, RANGE) for one in pipelines])
        return [told(answer) for answer in answers]


def told(answer) -> dict[str, list[int]] | type[Exception]:
    try:
        found = answer()
    except Unavailable as error:
        return type(error)
    return {
        table: sorted(unit.slice.start.hour for unit, row in ledger.items() if row.manifest)
        for table, ledger in found.items()
    }


def test_one_statement_for_each_connection():
    one, two = Ledger(0, 1), Ledger(2)
    mine = [named("a", connection="one"), named("b", connection="two"), named("c", connection="one")]
    assert asked(Clients(one=one, two=two), *mine) == [
        {"events.a": [10, 11]},
        {"events.b": [12]},
        {"events.c": [10, 11]},
    ]
    assert (one.asked, two.asked) == ([["a", "c"]], [["b"]])


@pytest.mark.parametrize(
    "away", [None, Ledger(0, silent=True)], ids=["at the connection", "at the statement"]
)
def test_what_does_not_answer_is_only_its_own_pipelines(away):
    mine = [named("a", connection="away"), named("b", connection="one"), named("c", connection="away")]
    clients = Clients(one=Ledger(0), away=away)
    assert asked(clients, *mine) == [ClickHouseUnavailable, {"events.b": [10]}, ClickHouseUnavailable]
    assert sorted(clients.probes) == ["away", "one"]  # and not a time-out for each pipeline


@pytest.mark.parametrize(
    "away", [None, Ledger(0, silent=True)], ids=["at the connection", "at the statement"]
)
def test_hours_of_a_shard_that_does_not_answer_wait(away):
    """Its hours are known from the other shard, and none of them counts as committed."""
    mine = [named("a", **SHARDS), named("b", connection="one")]
    first = Ledger(0, 1, shard="s1")
    assert asked(Clients(one=first, two=away), *mine) == [{"events.a": []}, {"events.b": [10, 11]}]
    both = Clients(one=first, two=Ledger(1, 2, shard="s2"))
    assert asked(both, *mine)[0] == {"events.a": [11]}


def test_a_lake_that_cannot_be_used_is_only_its_own_pipelines():
    wrong = named("a", connection="one").model_copy(update={"lake": "gs://bucket"})
    one = Ledger(0)
    with ThreadPoolExecutor(2) as pool:
        bad, good = ask_together(
            Clients(one=one), pool, [(wrong, RANGE), (named("b", connection="one"), RANGE)]
        )
        with pytest.raises(WrongUse, match="gs://bucket"):
            bad()
        assert told(good) == {"events.b": [10]}
    assert one.asked == [["b"]]
