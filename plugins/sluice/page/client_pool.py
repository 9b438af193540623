"""The ClickHouse clients of a process that is asked again and again, and what ledgers they are asked for.

A server that hangs, and doesn't refuse, would hold everybody who asks the page something for as long as they
wait. It gets a short deadline, and after that it isn't asked again for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress

from sluice.clients.clickhouse.client import Client, Silence
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.shards import Server, Servers
from sluice.clients.connections.find import Connection, find
from sluice.clients.lake.open import open_lake
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, Unavailable
from sluice.slices import SliceRange
from sluice.state.last_ddl import gone
from sluice.state.ledger import Ledger, LedgerQuestion, ask_ledger
from sluice.state.shard_ledgers import by_shard, merged

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


# The ledgers of many pipelines for one answer: a statement for each ClickHouse server.
LedgersByTable = Mapping[str, Ledger]
PendingLedgers = Callable[[], LedgersByTable]
"""Waits for what is committed, by table. Raises what the lake's settings and ClickHouse raise, each time."""
_LedgersByPipeline = Mapping[str, Mapping[str, Ledger]]


def ask_together(
    clients: Clients, pool: Executor, ranges: Sequence[tuple[Pipeline, SliceRange]]
) -> list[PendingLedgers]:
    """Starts the statements, and returns an answer for each of the different pipelines.

    Each server gets one statement for all pipelines: one that does not answer costs one time-out.
    """
    questions = [_question(pipeline, slices) for pipeline, slices in ranges]
    by_server: dict[tuple[str, ...], tuple[Shard, list[LedgerQuestion]]] = {}
    for question in questions:
        if isinstance(question, LedgerQuestion):
            for shard in question.pipeline.clickhouse.parts:
                by_server.setdefault(shard.connections, (shard, []))[1].append(question)
    pending = {key: pool.submit(_ask, clients, *asking) for key, asking in by_server.items()}
    return [_answer(question, pending) for question in questions]


def _question(pipeline: Pipeline, slices: SliceRange) -> LedgerQuestion | SluiceError:
    try:
        return LedgerQuestion(pipeline, open_lake(pipeline).url, pipeline.targets, slices)
    except SluiceError as error:
        return error


def _ask(clients: Clients, shard: Shard, questions: Sequence[LedgerQuestion]) -> _LedgersByPipeline:
    """Returns the ledgers by pipeline and table."""
    names = [question.pipeline.name for question in questions]
    return dict(zip(names, ask_ledger(clients.of(shard), questions), strict=True))


def _answer(
    question: LedgerQuestion | SluiceError, pending: Mapping[tuple[str, ...], Future[_LedgersByPipeline]]
) -> PendingLedgers:
    def answer() -> LedgersByTable:
        if isinstance(question, SluiceError):
            raise question
        pipeline = question.pipeline
        shares = by_shard(
            pipeline.clickhouse.parts,
            question,
            lambda shard: pending[shard.connections].result()[pipeline.name],
        )
        return merged(pipeline, shares)

    return answer
