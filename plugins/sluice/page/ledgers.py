"""The ledgers of many pipelines for one answer: a statement for each ClickHouse server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future

from sluice.clients.lake.open import open_lake
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.page.client_pool import Clients
from sluice.slices import SliceRange
from sluice.state.ledger import Ledger, LedgerQuestion, ask_ledger
from sluice.state.shard_ledgers import by_shard, merged

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
