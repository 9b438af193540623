"""What a load needs of a replicated target, decided from what system.replicas says of it. Pure.

The design's rules and what of them is proven: docs/design/replicas.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sluice.config.clickhouse import ClickHouse


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
