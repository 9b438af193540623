"""Reads a shard from whichever of its replicas can answer: not from one that is behind, or down.

Each statement that reads with `select_sequential_consistency` sees what a quorum has, on whichever replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.clients.clickhouse.client import Client, Parameters, Settings
from sluice.clients.clickhouse.errors import ServerError
from sluice.errors import Unavailable


@dataclass
class ReadReplicas:
    """The replicas in their order, and the one that is read from. `opened` are those that have answered."""

    open: Callable[[int], Client]
    count: int
    now: int = 0
    opened: dict[int, Client] = field(default_factory=dict)

    def current(self) -> Client:
        """Raises Unavailable, and ServerError when it refuses the user."""
        if self.now not in self.opened:
            self.opened[self.now] = self.open(self.now)
        return self.opened[self.now]

    def turn(self) -> None:
        """Turns to the next replica, which is read from until it fails."""
        self.now = (self.now + 1) % self.count


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
        for _ in range(self._replicas.count):
            try:
                return self._replicas.current().reading(self._reading).rows(sql, parameters, settings)
            except (ServerError, Unavailable) as error:
                if not error.retryable:
                    raise
                first = first or error
                self._replicas.turn()
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
