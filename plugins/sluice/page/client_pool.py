"""The clients of a process that is asked again and again.

A server that hangs, and doesn't refuse, would hold everybody who asks the page something for as long as they
wait. It gets a short deadline, and after that it isn't asked again for a while.
"""

from __future__ import annotations

from contextlib import suppress

from sluice.clients.clickhouse.client import Client, Silence
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.shards import Server, Servers
from sluice.clients.connections.find import Connection, find
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Pipeline
from sluice.errors import Unavailable
from sluice.state.last_ddl import gone

# A server that works says so every 15 seconds, as the driver asks it to with this deadline.
ANSWER_SECONDS = 20
# For all of an answer, whatever it says meanwhile.
WHOLE_SECONDS = 30.0
SILENT_SECONDS = 15.0


class Clients:
    """One client for each ClickHouse connection, as long as the connection is the same: making one costs more
    than a snapshot. Threads may ask side by side; at worst both make one."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[Connection, Client]] = {}
        self._silent: dict[str, tuple[Connection, Silence]] = {}

    def servers(self, pipeline: Pipeline) -> Servers:
        """Returns the server of each shard, or its error: hours of an unavailable shard wait. Raises
        Unavailable for the only server of an unsharded pipeline."""
        return tuple(self._server(shard) for shard in pipeline.clickhouse.parts)

    def of(self, shard: Shard) -> Client:
        """Returns the first replica that answers. Raises what the first raised (Unavailable) when none
        does."""
        silent: Unavailable | None = None
        for connection in shard.connections:
            try:
                return self._client(connection)
            except Unavailable as error:
                silent = silent or error
        assert silent is not None, "a shard has a connection"  # noqa: S101 - narrows the type
        raise silent

    def gone(self, pipeline: Pipeline) -> frozenset[str]:
        """Returns target tables that a server does not have; one that does not answer is left out."""
        missing: set[str] = set()
        tables = [target.table for target in pipeline.targets]
        with suppress(Unavailable):
            for client in (server.client for server in self.servers(pipeline)):
                missing.update(gone(client, tables) if client else ())
        return frozenset(missing)

    def _server(self, shard: Shard) -> Server:
        try:
            return Server(shard, self.of(shard))
        except Unavailable as error:
            if not shard.name:
                raise
            return Server(shard, error=error)

    def _client(self, name: str) -> Client:
        connection = find(name)
        cached = self._cached.get(name)
        if cached is None or cached[0] != connection:
            silent = self._silent.get(name)
            if silent is None or silent[0] != connection:
                silent = self._silent[name] = (connection, Silence(SILENT_SECONDS))
            with silent[1].kept():
                client = open_client(connection, ANSWER_SECONDS, silent[1], WHOLE_SECONDS)
            cached = self._cached[name] = (connection, client)
        return cached[1]
