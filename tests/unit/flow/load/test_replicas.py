"""Who may write through which replica, on servers that answer as replicas of one table do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from sluice.config.clickhouse import ClickHouse
from sluice.config.pipeline import Target
from sluice.errors import QuorumPending, ReplicaActive, TooFewReplicas
from sluice.flow.load.replicas import Replicas, ReplicaState, lacking, write_settings
from sluice.state.lease import Lease
from tests.support.fakes import FakeClock, MemoryLake

TARGET = Target(table="e.clicks")
SPEC = {"shards": [{"name": "s1", "replicas": ["a", "b"]}], "takeover": "301s"}
TERM, LIMIT = timedelta(seconds=30), 301.0


@dataclass
class Keeper:
    """What Keeper shows of the replicas of one table, the same for all that ask."""

    active: dict[str, int]
    readonly: set[str] = field(default_factory=set)
    pending: list[str] = field(default_factory=list)


@dataclass
class Replica:
    """A server with one replica; it notes what it is told to do."""

    name: str
    keeper: Keeper
    done: list[str] = field(default_factory=list)

    def rows(self, sql: str, parameters: dict | None = None, settings: Any = None) -> list[tuple]:
        if "system.zookeeper" in sql:
            assert parameters == {"tables": ["e.clicks"]}
            return [(path,) for path in self.keeper.pending]
        if "system.replicas" not in sql:
            return []
        assert parameters == {"database": "e", "name": "clicks"}
        if self.name not in self.keeper.active:
            return []
        live = sum(self.keeper.active.values())
        known = dict(self.keeper.active)
        return [(self.name, self.name in self.keeper.readonly, len(known), live, known)]

    def run(self, sql: str, parameters: dict | None = None) -> None:
        self.done.append(sql.split()[1])


def held(lake: MemoryLake, clock: FakeClock) -> Lease:
    return Lease.acquire(lake, "e.clicks@s1", "me", TERM, TERM, clock=clock, sleep=clock.sleep)


def attempt(
    clock: FakeClock, lease: Lease, first: Replica, *others: Replica, quorum: object = "auto"
) -> Replicas:
    clickhouse = ClickHouse.model_validate({**SPEC, "quorum": quorum})
    return Replicas(first, others, TARGET, clickhouse, lease, clock.sleep, clock)


@pytest.fixture
def world() -> Callable[..., tuple]:
    lake, clock = MemoryLake(), FakeClock()

    def made(**active: int) -> tuple[Keeper, FakeClock, Callable[[], Lease]]:
        return Keeper(active), clock, lambda: held(lake, clock)

    return made


def test_replicas_that_answer_are_all_fenced_off_at_once(world):
    keeper, clock, acquire = world(a=1, b=1)
    one, other = Replica("a", keeper), Replica("b", keeper)
    with acquire() as lease:
        attempt(clock, lease, one, other).take_over()
        assert lease.replica == "a"
    assert (one.done, other.done, clock.now) == (["QUERY", "MUTATION"], ["QUERY", "MUTATION"], 0)


def test_one_that_keeper_shows_active_is_waited_for(world):
    keeper, clock, acquire = world(a=1, b=1)
    other = Replica("b", keeper)
    said = "^table e.clicks: replica a does not answer, but Keeper shows it active"
    with acquire() as lease, pytest.raises(ReplicaActive, match=said) as raised:
        attempt(clock, lease, other).take_over()
    assert (raised.value.exit_code, raised.value.retryable, other.done) == (3, True, [])


def test_after_an_inactive_one_the_next_takes_over_when_its_writes_are_over(world):
    keeper, clock, acquire = world(a=0, b=1)
    other = Replica("b", keeper)
    with acquire() as lease:
        attempt(clock, lease, other).take_over()
        assert clock.now == LIMIT
        assert lease.replica == "b"
    with acquire() as lease:  # whoever wrote last has seen to the silent one
        attempt(clock, lease, other).take_over()
    assert clock.now == LIMIT


def test_an_attempt_that_died_while_it_waited_has_settled_nothing(world):
    keeper, clock, acquire = world(a=0, b=1)
    other = Replica("b", keeper)

    def dies(now: float) -> None:
        if now > LIMIT / 2:
            raise KeyboardInterrupt

    clock.then = dies
    with pytest.raises(KeyboardInterrupt), acquire() as lease:
        attempt(clock, lease, other).take_over()
    clock.then = lambda now: None
    begun = clock.now
    with acquire() as lease:
        attempt(clock, lease, other).take_over()
    assert clock.now - begun >= LIMIT


def test_one_that_comes_back_half_way_stops_the_take_over(world):
    """Its statements may go on: the next attempt reaches it, and ends them."""
    keeper, clock, acquire = world(a=0, b=1)
    clock.then = lambda now: keeper.active.update(a=1)
    with pytest.raises(ReplicaActive), acquire() as lease:
        attempt(clock, lease, Replica("b", keeper)).take_over()
    first = Replica("a", keeper)
    with acquire() as lease:
        attempt(clock, lease, first, Replica("b", keeper)).take_over()
        assert (first.done, lease.replica) == (["QUERY", "MUTATION"], "a")


def test_the_third_replica_counts_too(world):
    keeper, clock, acquire = world(a=1, b=1, c=1)
    with acquire() as lease, pytest.raises(ReplicaActive, match="replica c"):
        attempt(clock, lease, Replica("a", keeper), Replica("b", keeper)).take_over()


@pytest.mark.parametrize(
    ("quorum", "live", "total", "short"),
    [("auto", 2, 3, 0), ("auto", 1, 3, 1), ("auto", 1, 1, 0), (3, 2, 3, 1), (2, 2, 3, 0), (0, 1, 3, 0)],
)
def test_the_replicas_that_a_quorum_lacks(quorum: object, live: int, total: int, short: int):
    assert lacking(ReplicaState("a", False, total, live, {}), quorum) == short


def test_the_quorum_is_waited_for_before_anything_begins(world):
    keeper, clock, acquire = world(a=1, b=0)
    clock.then = lambda now: keeper.active.update(b=1) if now > 10 else None
    with acquire() as lease:
        attempt(clock, lease, Replica("a", keeper)).await_quorum(TERM)
    assert 10 < clock.now < 20


@pytest.mark.parametrize("readonly", [set(), {"a"}])
def test_and_given_up_after_a_while(world, readonly: set[str]):
    keeper, clock, acquire = world(a=1, b=1 if readonly else 0)
    keeper.readonly = readonly
    with acquire() as lease, pytest.raises(TooFewReplicas) as raised:
        attempt(clock, lease, Replica("a", keeper)).await_quorum(TERM)
    assert raised.value.retryable
    assert str(raised.value) == (
        f"table e.clicks: {2 if readonly else 1} replicas are active and writable, 2 are needed: start the "
        "others, or lower `quorum` in the pipeline file"
    )
    assert clock.now == TERM.total_seconds()


def test_a_table_that_is_no_replica_yet(world):
    keeper, clock, acquire = world(b=1)
    with acquire() as lease, pytest.raises(TooFewReplicas, match="e.clicks: 0 replicas .* 1 are needed"):
        attempt(clock, lease, Replica("a", keeper)).take_over()


def test_a_load_waits_by_the_clock_of_its_machine():
    replicas = Replicas(None, (), TARGET, ClickHouse.model_validate(SPEC), None)  # type: ignore[arg-type]
    assert (replicas.sleep, replicas.clock) == (time.sleep, time.monotonic)


def test_an_insert_that_has_not_reached_its_quorum_is_waited_for(world):
    keeper, clock, acquire = world(a=1, b=1)
    keeper.pending.append("/t/quorum")
    clock.then = lambda now: keeper.pending.clear() if now > 10 else None
    with acquire() as lease:
        attempt(clock, lease, Replica("a", keeper)).await_settled(["e.clicks"], TERM)
    assert 10 < clock.now < 20
    keeper.pending.append("/t/quorum")
    clock.then, begun = lambda now: None, clock.now
    with acquire() as lease, pytest.raises(QuorumPending) as raised:
        attempt(clock, lease, Replica("a", keeper)).await_settled(["e.clicks"], TERM)
    assert clock.now == begun + TERM.total_seconds()
    assert str(raised.value) == (
        "table e.clicks: an earlier insert has not reached its quorum (Keeper has /t/quorum): start the "
        "replicas that lack it"
    )


def test_a_write_ends_before_another_replica_may_go_on():
    settings = write_settings(ClickHouse.model_validate(SPEC), timedelta(seconds=LIMIT))
    assert (settings["max_execution_time"], settings["insert_keeper_max_retries"]) == (LIMIT, 0)
    assert (settings["insert_quorum"], settings["insert_quorum_parallel"]) == ("auto", 0)
