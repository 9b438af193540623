"""The ledgers of many pipelines for one answer: a statement for each ClickHouse server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from sluice.clickhouse.client import Client
from sluice.clickhouse.shards import Servers
from sluice.errors import SluiceError
from sluice.lake.open import open_lake
from sluice.load.ledger import Ledger, Question, ask_ledger
from sluice.load.shares import by_shard, merged
from sluice.page.clients import Clients
from sluice.pipeline import Pipeline
from sluice.slices import SliceRange

Ledgers = Mapping[str, Ledger]
Answer = Callable[[], Ledgers]
"""Waits for what is committed, by table. Raises what the lake's settings and ClickHouse raise, each time."""
_Found = dict[str, dict[str, Ledger]]


@dataclass(frozen=True)
class _Asked:
    """One pipeline's question, and whom it goes to."""

    question: Question
    servers: Servers


def ask_together(
    clients: Clients, pool: Executor, wanted: Sequence[tuple[Pipeline, SliceRange]]
) -> list[Answer]:
    """An answer for each of the different pipelines; the statements are on their way when this returns."""
    asked = [_asked(clients, pipeline, slices) for pipeline, slices in wanted]
    together: dict[int, tuple[Client, list[Question]]] = {}
    for one in asked:
        for server in one.servers if isinstance(one, _Asked) else ():
            if server.client is not None:
                together.setdefault(id(server.client), (server.client, []))[1].append(one.question)
    found = {key: pool.submit(_ask, *asking) for key, asking in together.items()}
    return [_answer(one, found) for one in asked]


def _asked(clients: Clients, pipeline: Pipeline, slices: SliceRange) -> _Asked | SluiceError:
    try:
        question = Question(pipeline, open_lake(pipeline).url, pipeline.targets, slices)
        return _Asked(question, clients.servers(pipeline))
    except SluiceError as error:
        return error


def _ask(client: Client, questions: Sequence[Question]) -> _Found:
    """By pipeline and table."""
    names = [question.pipeline.name for question in questions]
    return dict(zip(names, ask_ledger(client, questions), strict=True))


def _answer(asked: _Asked | SluiceError, found: Mapping[int, Future[_Found]]) -> Answer:
    def answer() -> Ledgers:
        if isinstance(asked, SluiceError):
            raise asked
        pipeline = asked.question.pipeline
        shares = by_shard(asked.servers, asked.question, lambda c: found[id(c)].result()[pipeline.name])
        return merged(pipeline, shares)

    return answer
