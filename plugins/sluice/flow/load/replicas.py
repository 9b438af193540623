"""Takes a shard's replicas over: nothing of an earlier attempt can write any more, through whichever of them.

Those that answer are fenced off by statements. One that does not has to be inactive in Keeper, and what ran
on it has to be over: the server itself ends a write after `takeover`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.clickhouse import ClickHouse
from sluice.config.pipeline import Target
from sluice.errors import QuorumPending, ReplicaActive, TooFewReplicas
from sluice.flow.load.fencing import fence_off
from sluice.state.lease import Lease

_POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Replicas:
    """`client` writes; `others` are the replicas that answer beside it."""

    client: Client
    others: Sequence[Client]
    target: Target
    clickhouse: ClickHouse
    lease: Lease
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def take_over(self) -> None:
        """Raises ReplicaActive while a replica that does not answer may still be writing."""
        mine, reached = self._read_states()
        for client in (self.client, *self.others):
            fence_off(client, self.target.table, self.lease.renew)
        if has_to_wait(mine, reached, self.lease.replica):
            self._wait(self.clickhouse.takeover)
            mine, reached = self._read_states()
        self.lease.settle(mine.name)

    def await_quorum(self, patience: timedelta) -> None:
        """Waits for the replicas that an INSERT needs, before it begins. Raises TooFewReplicas.

        Error 285 in its middle is not waited for in place: blocks before it may be there, so that only the
        next attempt, which deletes them, may do it again.
        """
        deadline = self.clock() + patience.total_seconds()
        while True:
            state = state_of(self.client, self.target)
            short = lacking(state, self.clickhouse.quorum)
            if not short and not state.readonly:
                return
            if self.clock() >= deadline:
                raise TooFewReplicas(self.target.table, state.live, state.live + short)
            self.lease.renew()
            self.sleep(_POLL_SECONDS)

    def await_settled(self, tables: Sequence[str], patience: timedelta) -> None:
        """Waits for inserts of before that have not reached their quorum. Raises QuorumPending.

        They are there, and no sequential read shows them: a count of nothing would be wrong a moment later.
        To be called when nothing of before can write any more, and before anything is read.
        """
        deadline = self.clock() + patience.total_seconds()
        while pending := self.client.rows(render("load/pending_quorum"), {"tables": list(tables)}):
            if self.clock() >= deadline:
                raise QuorumPending(self.target.table, ", ".join(path for (path,) in pending))
            self.lease.renew()
            self.sleep(_POLL_SECONDS)

    def _read_states(self) -> tuple[ReplicaState, set[str]]:
        mine = state_of(self.client, self.target)
        reached = {mine.name, *(state_of(other, self.target).name for other in self.others)}
        if active := still_active(mine, reached):
            raise ReplicaActive(self.target.table, ", ".join(active))
        return mine, reached

    def _wait(self, term: timedelta) -> None:
        """Waits by this attempt's own clock, from now on: no statement of an earlier attempt began later."""
        end = self.clock() + term.total_seconds()
        while (left := end - self.clock()) > 0:
            self.lease.renew()
            self.sleep(min(_POLL_SECONDS, left))


def state_of(client: Client, target: Target) -> ReplicaState:
    """Raises TooFewReplicas for a table that is no replica (yet), and what the client raises."""
    parameters = {"database": target.database, "name": target.name}
    rows = client.rows(render("load/replica_state"), parameters)
    if not rows:
        raise TooFewReplicas(target.table, 0, 1)
    name, readonly, total, live, active = rows[0]
    return ReplicaState(name, bool(readonly), total, live, dict(active))


def own_tables(target_table: TargetTable) -> list[str]:
    """Returns what a load writes to that stays."""
    return [
        target_table.table,
        *(view_table.table for view_table in target_table.stored),
        "sluice.ledger",
        "sluice.rejected",
    ]


# What a load needs of a replicated target, decided from what system.replicas says of it. Pure.
#
# The design's rules and what of them is proven: docs/design/replicas.md.
@dataclass(frozen=True)
class ReplicaState:
    """A row of system.replicas. `active` says of each of the table's replicas whether Keeper shows it so."""

    name: str
    readonly: bool
    total: int
    live: int
    active: Mapping[str, int]


def write_settings(clickhouse: ClickHouse, limit: timedelta | None) -> dict[str, object]:
    """Settings of every statement that writes to a replicated table; `limit` ends it on the server."""
    settings: dict[str, object] = {
        "insert_quorum": str(clickhouse.quorum),
        "insert_quorum_parallel": 0,
        # Tried again in a new session, an insert of before a take-over could still commit.
        "insert_keeper_max_retries": 0,
        # Other replicas have no fence table: what it says is written into the mutation.
        "mutations_execute_subqueries_on_initiator": 1,
    }
    return settings if limit is None else {**settings, "max_execution_time": int(limit.total_seconds())}


def needed(quorum: str | int, total: int) -> int:
    """Returns how many live replicas an INSERT waits for: `auto` is the majority, 0 and 1 are no quorum."""
    return total // 2 + 1 if quorum == "auto" else int(quorum)


def lacking(state: ReplicaState, quorum: str | int) -> int:
    """Returns how many more replicas have to be live before anything is inserted."""
    return max(0, needed(quorum, state.total) - state.live)


def still_active(state: ReplicaState, reached: Collection[str]) -> list[str]:
    """Replicas that do not answer here and may be at work: Keeper shows them active."""
    return sorted(name for name, on in state.active.items() if on and name not in reached)


def silent(state: ReplicaState, reached: Collection[str]) -> list[str]:
    return sorted(name for name in state.active if name not in reached)


def has_to_wait(state: ReplicaState, reached: Collection[str], last: str) -> bool:
    """Returns whether statements of earlier attempts may still run where they cannot be killed.

    `last` is the replica through which the newest settled attempt wrote: it had ended all others'.
    """
    return bool(silent(state, reached)) and last not in reached
