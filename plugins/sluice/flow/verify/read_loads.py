"""Watches whether the targets are being loaded: their leases, which a running load renews."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.shards import Servers
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline, Target
from sluice.state.lease_record import LeaseState, LeaseWatch, decode, may_take, observe
from sluice.state.system_tables import lease_of

_PATIENCE_TERMS = 10


def leases_of(servers: Servers, pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Returns the names of the leases under which each target is loaded, by table."""
    return {
        target.table: tuple({_lease(server.reached, target, server.shard.name) for server in servers})
        for target in pipeline.targets
    }


def _lease(client: Client, target: Target, shard: str) -> str:
    try:
        return lease_of(client, target, shard)
    except ServerError as error:
        if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            raise
        return f"{target.table}@{shard}" if shard else target.table  # never loaded


@dataclass
class LoadWatch:
    """What was seen of the leases in `names` (by table); the clock is the watcher's own, in seconds."""

    lake: Lake
    names: Mapping[str, tuple[str, ...]]
    term: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _watches: dict[str, LeaseWatch | None] = field(default_factory=dict)
    _holders: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deadline = self.clock() + _PATIENCE_TERMS * self.term

    def read(self) -> dict[str, tuple[str, ...]]:
        """Returns the versions of each table's leases, of the tables that are not being loaded."""
        names = sorted({name for lease_names in self.names.values() for name in lease_names})
        seen = dict(zip(names, each_if_slow(self._read, names), strict=True))
        return {
            table: tuple(version for name in lease_names if (version := seen[name]) is not None)
            for table, lease_names in self.names.items()
            if all(seen[name] is not None for name in lease_names)
        }

    def _read(self, name: str) -> str | None:
        """Returns the lease's version; None while it may be held."""
        read_at = self.clock()
        key = layout.lease(name)
        stored = self.lake.read(key)
        watch = observe(self._watches.get(name), stored, self.clock())
        self._watches[name] = watch
        state: LeaseState | None = None if stored is None else decode(stored.data, f"{self.lake.url}/{key}")
        free = may_take(state, watch, read_at)
        self._holders[name] = "" if free else str(state)
        return None if not free else ("" if stored is None else stored.version)

    def busy(self, tables: Iterable[str]) -> list[str]:
        """Returns a line for each of the tables that is being loaded, by the last read."""
        holders = {
            table: [h for name in self.names[table] if (h := self._holders.get(name))] for table in tables
        }
        return [f"table {table} is being loaded by {', '.join(by)}" for table, by in holders.items() if by]

    def wait(self) -> bool:
        """Waits a tenth of a term; False when patience is over."""
        if self.clock() >= self._deadline:
            return False
        self.sleep(self.term / 10)
        return True


def unmoved(before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Returns the tables that no attempt has loaded between two reads of the leases."""
    return frozenset(table for table, versions in before.items() if after.get(table) == versions)
