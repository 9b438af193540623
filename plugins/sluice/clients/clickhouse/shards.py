"""The servers of a pipeline's shards, to read from: of replicas the first that answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from sluice.clients.clickhouse.any_replica import AnyReplica, ReadReplicas
from sluice.clients.clickhouse.client import Client, Settings
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections.connection import Connection
from sluice.clients.connections.find import find
from sluice.concurrency import each
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Pipeline
from sluice.errors import ShardUnavailable, Unavailable


@dataclass(frozen=True)
class Server:
    """A shard's client, or why it does not answer."""

    shard: Shard
    client: Client | None = None
    error: Unavailable | None = None

    @property
    def reached(self) -> Client:
        """Raises ShardUnavailable; with one `connection` what the connection raised."""
        if self.client is not None:
            return self.client
        assert self.error is not None  # noqa: S101 - narrows the type
        if not self.shard.name:
            raise self.error
        raise ShardUnavailable(self.shard.name, str(self.error)) from self.error


Servers = tuple[Server, ...]


@contextmanager
def connect_shards(pipeline: Pipeline, of_replicas: Settings | None = None) -> Iterator[Servers]:
    """Yields one for each shard, in the pipeline file's order; closed at the end. `of_replicas`: settings of
    what is read where the shard lists replicas; with them each statement turns to another replica where one
    fails.

    Raises Unavailable when none answers, and ServerError when one refuses the user.
    """
    # Airflow's own look-up is for the thread that its task runs in.
    shard_connections = [(shard, tuple(map(find, shard.connections))) for shard in pipeline.clickhouse.parts]
    servers = tuple(each(lambda pair: _server(*pair, of_replicas or {}), shard_connections))
    with ExitStack() as stack:
        for server in servers:
            if server.client is not None:
                stack.callback(server.client.close)
        if not any(server.client for server in servers):
            _ = servers[0].reached
        yield servers


@contextmanager
def connect_replicas(connections: Sequence[Connection]) -> Iterator[list[Client]]:
    """Clients of one shard's replicas that answer, in their order; closed at the end.

    Raises what the first of them raised when none answers, and ServerError when one refuses the user.
    """
    silent: list[Unavailable] = []
    with ExitStack() as stack:
        clients = []
        for connection in connections:
            try:
                clients.append(stack.enter_context(closing(open_client(connection))))
            except Unavailable as error:
                silent.append(error)
        if not clients:
            raise silent[0]
        yield clients


def _server(shard: Shard, connections: Sequence[Connection], of_replicas: Settings) -> Server:
    error: Unavailable | None = None
    for number, connection in enumerate(connections):
        try:
            client = open_client(connection)
        except Unavailable as failure:
            error = error or failure
            continue
        if shard.replicas and of_replicas:
            opened = {number: client}
            replicas = ReadReplicas(lambda n: open_client(connections[n]), len(connections), number, opened)
            client = AnyReplica(replicas, of_replicas)
        return Server(shard, client)
    return Server(shard, error=error)
