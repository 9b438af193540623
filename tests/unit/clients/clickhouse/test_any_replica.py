"""Statements that read turn to another replica, several at once as well."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.shards import AnyReplica, ReadReplicas
from sluice.errors import ClickHouseUnavailable

DEADLINE = 30


class Replica(Client):
    """Answers with its number; `down` ones fail when `together` statements are there."""

    def __init__(self, number: int, down: set[int], together: Barrier) -> None:
        self.number, self.down, self.together, self.closed = number, down, together, False

    def reading(self, settings: object) -> Client:
        return self

    def rows(self, *_: Any) -> list[Sequence[Any]]:
        if self.number in self.down:
            self.together.wait(DEADLINE)
            raise ClickHouseUnavailable(f"r{self.number}", "down")
        return [(self.number,)]

    def close(self) -> None:
        self.closed = True


class Shard:
    def __init__(self, count: int, down: set[int], threads: int) -> None:
        self.made: list[Replica] = []
        self.opening, self.together = Barrier(threads), Barrier(threads)
        self.down = down
        self.replicas = ReadReplicas(self.open, count)

    def open(self, number: int) -> Client:
        replica = Replica(number, self.down, self.together)
        self.made.append(replica)
        if number == 0:
            self.opening.wait(DEADLINE)  # all threads open the first one at once
        return replica

    def answers(self, threads: int) -> list[Any]:
        client = AnyReplica(self.replicas)

        def ask(_: int) -> Any:
            try:
                return client.rows("SELECT 1")
            except ClickHouseUnavailable as error:
                return str(error).split(" (")[0]

        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(ask, range(threads)))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_statements_that_fail_at_once_turn_once(threads: int):
    shard = Shard(2, {0}, threads)
    assert shard.answers(threads) == [[(1,)]] * threads
    assert shard.replicas.now == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_each_replica_is_tried_and_the_first_error_raised(threads: int):
    shard = Shard(3, {0, 1, 2}, threads)
    assert shard.answers(threads) == ["ClickHouse does not answer at r0"] * threads


def test_one_client_of_each_replica_is_kept_and_the_others_are_closed():
    shard = Shard(2, {0}, 4)
    shard.answers(4)
    open_clients = [client for client in shard.made if not client.closed]
    assert {client.number: client for client in open_clients} == shard.replicas.opened
    assert sorted(client.number for client in open_clients) == [0, 1]
    AnyReplica(shard.replicas).close()
    assert all(client.closed for client in shard.made)


def test_a_statement_stays_with_the_replica_that_answered():
    shard = Shard(3, {0}, 1)
    assert [shard.answers(1), shard.answers(1)] == [[[(1,)]]] * 2
    assert [replica.number for replica in shard.made] == [0, 1]


def test_the_last_replica_is_followed_by_the_first():
    shard = Shard(3, {2}, 1)
    shard.replicas.now = 2
    assert shard.answers(1) == [[(0,)]]
    assert shard.replicas.now == 0
