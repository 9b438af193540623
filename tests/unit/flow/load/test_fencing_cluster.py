"""A successor ends what earlier attempts have on any server of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from sluice.clients.clickhouse.engine import Family
from sluice.config.clickhouse import ClickHouse
from sluice.errors import Busy
from sluice.flow.load.abilities import abilities_of
from sluice.flow.load.fencing import EVERYWHERE, HERE, LoadAttempt, end_attempts, fence_off, statements
from tests.support.fakes import FakeClock

TARGET = "shop.clicks"
EARLIER = LoadAttempt(TARGET, 1, 1)
PATIENCE = timedelta(seconds=30)


@dataclass
class Cluster:
    """Servers behind one address: the one that answers, and another, which does what it is told `after` so
    many statements more."""

    after: int
    tables: list[str] = field(default_factory=lambda: [EARLIER.fence_name])
    running: list[str] = field(default_factory=lambda: [f"{statements(TARGET)}1-1-move-5"])
    said: list[str] = field(default_factory=list)

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[tuple]:
        there = "clusterAllReplicas('default', system." in sql
        if "system.tables" in sql and "fences" in sql:
            return [(name,) for name in self.tables if there]
        if "system.processes" in sql:
            return [(name,) for name in self.running if there]
        return []

    def run(self, sql: str, parameters: Any = None, settings: Any = None) -> None:
        self.said.append(" ".join(sql.splitlines()[-1].split()))
        self.after -= 1
        if self.after < 0:
            self.tables = [] if "DROP TABLE" in sql else self.tables
            self.running = [] if "ON CLUSTER `default`" in sql else self.running


def fenced(cluster: Cluster, clock: FakeClock) -> None:
    end_attempts(cluster, TARGET, lambda: None, EVERYWHERE, PATIENCE, clock.sleep, clock)


def test_what_another_server_still_has_is_dropped_and_killed_until_it_is_gone():
    cluster, clock = Cluster(after=6), FakeClock()
    fenced(cluster, clock)
    assert (cluster.tables, cluster.running) == ([], [])
    assert cluster.said.count(f"DROP TABLE IF EXISTS `sluice`.`{EARLIER.fence_name}`") == 4
    kill = "KILL QUERY ON CLUSTER `default` WHERE startsWith(query_id, {prefix:String}) SYNC"
    assert cluster.said.count(kill) == 4
    assert cluster.said[-1].startswith("KILL MUTATION")


def test_a_server_that_goes_on_ends_the_load_and_not_its_exactness():
    cluster, clock = Cluster(after=10_000), FakeClock()
    with pytest.raises(Busy, match=rf"{EARLIER.fence_name}, sluice-.*-move-5: it is tried again") as raised:
        fenced(cluster, clock)
    assert raised.value.retryable
    assert PATIENCE.total_seconds() <= clock.now < 2 * PATIENCE.total_seconds()


def test_one_server_is_told_as_ever():
    cluster = Cluster(after=0)
    fence_off(cluster, TARGET, lambda: None, HERE)
    assert cluster.said[0] == "KILL QUERY WHERE startsWith(query_id, {prefix:String}) SYNC"
    assert not any("CLUSTER" in said for said in cluster.said)


@pytest.mark.parametrize("replicas", [False, True])
def test_abilities_by_family(replicas: bool):
    clickhouse = ClickHouse(takeover=timedelta(minutes=5))
    plain = abilities_of(Family.PLAIN, clickhouse, False)
    assert (plain.reads, plain.writes, plain.reach, plain.quorum, plain.marks) == ({}, {}, HERE, False, False)
    many = abilities_of(Family.REPLICATED, clickhouse, replicas)
    assert (many.reach, many.quorum, many.marks) == (HERE, True, replicas)
    assert many.writes["insert_quorum"] == "auto"
    assert many.writes.get("max_execution_time") == (300 if replicas else None)
    shared = abilities_of(Family.SHARED, clickhouse, False)
    assert (shared.reach, shared.quorum, shared.marks) == (EVERYWHERE, False, True)
    assert shared.reads["select_sequential_consistency"] == 1
    assert shared.writes == {
        "select_sequential_consistency": 1,
        "mutations_sync": 3,
        "lightweight_deletes_sync": 3,
        "mutations_execute_subqueries_on_initiator": 1,
    }
