"""The servers of a pipeline's shards, to read from: of replicas the first that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sluice.clients.clickhouse.client import Client, Parameters, Settings
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import Sql
from sluice.clients.connections import Connection, find
from sluice.concurrency import each
from sluice.config.clickhouse import BY_PARTITION, ClickHouse, Shard
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
                clients.append(stack.enter_context(closing(open_client(connection, alone=True))))
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


# Reads a shard from whichever of its replicas can answer: not from one that is behind, or down.
#
# Each statement that reads with `select_sequential_consistency` sees what a quorum has, on whichever replica.
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


# Which rows of a target belong on which of its shards. Pure.
#
# Every row has exactly one place: the expression is the same on all shards, gives a number for every row
# (NULL is 0), and each shard takes those of its own number.
@dataclass(frozen=True)
class Placement:
    """The `number`-th of `count` shards; `sharding` is what the pipeline's ledger rows are stamped with."""

    shard: str = ""
    number: int = 0
    count: int = 1
    by: str = BY_PARTITION
    sharding: str = ""

    @property
    def alone(self) -> bool:
        """Whether every row belongs here."""
        return self.count == 1

    @property
    def by_partition(self) -> bool:
        return self.by == BY_PARTITION

    @property
    def stamp(self) -> str:
        """What the ledger says of the sharding that a unit was committed under; empty without shards."""
        return stamp(self.sharding, self.shard)

    def own(self, expression: Sql) -> Sql:
        """Returns the condition on a row that it belongs to this shard, by the integer that `expression`
        gives."""
        if self.alone:
            return Sql("1")
        return Sql(f"(ifNull(positiveModulo({expression}, {self.count}), 0) = {self.number})")

    @property
    def own_record(self) -> Sql:
        """The same by the Kafka partition, over the lake's columns."""
        return self.own(Sql("_partition"))

    @property
    def own_rejected_row(self) -> Sql:
        """The same over sluice.rejected: a rejected row has no value to go by, so that its partition
        decides."""
        return self.own(Sql("partition"))

    @property
    def own_row(self) -> Sql:
        """The same over the target's columns, where an expression decides."""
        return self.own(Sql(f"({self.by})"))


ALONE = Placement()


_OF, _AND, _BY = " of ", ", ", " by "


def placement_in(stamp: str) -> Placement:
    """Returns the placement that a ledger row is stamped with: the unit's rows lie as it says, whatever
    shards the pipeline file lists now."""
    if not stamp:
        return ALONE
    shard, _, sharding = stamp.partition(_OF)
    listed = shards_in(sharding)
    return Placement(shard, listed.index(shard), len(listed), sharding.partition(_BY)[2], sharding)


def absent(stamps: Iterable[str]) -> tuple[str, ...] | None:
    """Returns the shards that the placement of a unit's ledger rows names, and of which there is no row. None
    where the rows are not of one placement: they are being placed anew."""
    placements = [placement_in(stamp) for stamp in stamps]
    numbers = {placement.number for placement in placements}
    shardings = {placement.sharding for placement in placements}
    if len(shardings) != 1 or len(numbers) != len(placements):
        return None
    return tuple(name for n, name in enumerate(shards_in(*shardings)) if n not in numbers)


def shards_in(sharding: str) -> list[str]:
    """Returns the shards that a sharding lists."""
    return sharding.partition(_BY)[0].split(_AND)


def stamp(sharding: str, shard: str) -> str:
    return f"{shard}{_OF}{sharding}" if sharding else ""


def placement_of(clickhouse: ClickHouse, shard: Shard, table: str) -> Placement:
    """Returns the placement of the target `table` (database.table) on one of the shards."""
    if not clickhouse.shards:
        return ALONE
    number = clickhouse.shards.index(shard)
    by, sharding = clickhouse.placed_by(table), clickhouse.sharding(table)
    return Placement(shard.name, number, len(clickhouse.shards), by, sharding)
