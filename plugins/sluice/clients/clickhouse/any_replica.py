"""Reads a shard from whichever of its replicas can answer: not from one that is behind, or down.

Each statement that reads with `select_sequential_consistency` sees what a quorum has, on whichever replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sluice.clients.clickhouse.client import Client, Parameters, Settings
from sluice.clients.clickhouse.errors import ServerError
from sluice.errors import Unavailable


@dataclass
class ReadReplicas:
    """The replicas in their order, and the one that is read from. `opened` are those that have answered.

    Several threads may use it at once.
    """

    open: Callable[[int], Client]
    count: int
    now: int = 0
    opened: dict[int, Client] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def current(self) -> Client:
        return self.at(self.now)

    def at(self, number: int) -> Client:
        """Raises Unavailable, and ServerError when it refuses the user."""
        if number in self.opened:
            return self.opened[number]
        client = self.open(number)  # other threads do not wait for a replica that is silent
        with self._lock:
            kept = self.opened.setdefault(number, client)
        if kept is not client:
            client.close()
        return kept

    def turn(self, failed: int) -> None:
        """Turns from the replica that failed to the next, which is read from until it fails; not where
        another statement has turned already."""
        with self._lock:
            if self.now == failed:
                self.now = (failed + 1) % self.count


class AnyReplica(Client):
    """Statements that only read turn to the next replica when one cannot answer now, and stay with it; what
    they need of an earlier statement's temporary tables is not there then. Others go to the current one."""

    def __init__(self, replicas: ReadReplicas, reading: Settings | None = None) -> None:
        self._replicas, self._reading = replicas, dict(reading or {})

    @property
    def address(self) -> str:  # type: ignore[override]
        return self._replicas.current().address

    def reading(self, settings: Settings) -> Client:
        return AnyReplica(self._replicas, {**self._reading, **settings})

    def rows(
        self, sql: str, parameters: Parameters | None = None, settings: Settings | None = None
    ) -> list[Sequence[Any]]:
        """Raises what the first of the replicas raised when none answers."""
        first: ServerError | Unavailable | None = None
        start, count = self._replicas.now, self._replicas.count
        for number in (*range(start, count), *range(start)):
            try:
                return self._replicas.at(number).reading(self._reading).rows(sql, parameters, settings)
            except (ServerError, Unavailable) as error:
                if not error.retryable:
                    raise
                first = first or error
                self._replicas.turn(number)
        assert first is not None  # noqa: S101 - there are replicas
        raise first

    def run(
        self,
        sql: str,
        parameters: Parameters | None = None,
        settings: Settings | None = None,
        body: bytes | None = None,
    ) -> None:
        self._replicas.current().reading(self._reading).run(sql, parameters, settings, body)

    def close(self) -> None:
        for client in self._replicas.opened.values():
            client.close()
