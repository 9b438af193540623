"""Reads lake, Kafka and ClickHouse for the watch. The error of a source that does not answer is kept."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import TOO_MANY_PARTS, rule_of
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import render
from sluice.clients.kafka.topic_facts import open_inquiry
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import KafkaUnavailable, Unavailable
from sluice.flow.choose_backlog import ask_oldest, backlog_before, seen_backlog
from sluice.flow.forget import forgotten_first
from sluice.flow.verify.verdict import Verdict, read_verdict
from sluice.manifest import Manifest
from sluice.plan.backlog import Backlog
from sluice.plan.due import FirstForgotten
from sluice.plan.lag import Lag, ask_topics, lag_of, older_unread
from sluice.slices import SliceRange, Unit, floor
from sluice.state.additions import Addition, additions_in
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import creations, gone
from sluice.state.field_changes import UnitChange, changes_of
from sluice.state.manifests import read_manifests
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import Ledgers, UnitStatus, statuses
from sluice.state.system_tables import read_claims
from sluice.state.units import units_of
from sluice.watch.expected import RowHistory, read_history
from sluice.watch.problems import Problem, ProblemKind, ProblemSource
from sluice.watch.retention import FactsByTopic

log = logging.getLogger(__name__)

_ERRORS_OF_SECONDS = 900
T = TypeVar("T")
Silent = dict[ProblemSource, list[str]]
"""The errors of sources that do not answer: several clusters, or tries, may have one each."""


@dataclass(frozen=True)
class Observation:
    """What one run of the watch has read. `silent`: why a source did not answer, by source.

    Without ClickHouse `statuses` holds only units that have not landed: the state of the others is unknown.
    `older` is what is not complete of the hours before `slices`, by the summaries alone without ClickHouse.
    `oldest` holds the first units of it that are left in Kafka, which deletes these first, those that it lost
    before, and those of which only the lake says that they have landed. `changes` are those of the fields of
    events in `slices`, `added` the columns that loads have added for them. `landed` are the manifests of
    `slices`, `rows` what they and the weeks before them brought. `forgets`: what the lake is about to forget
    first.
    """

    slices: SliceRange
    boundaries: Boundaries
    statuses: tuple[UnitStatus, ...]
    lag: Lag
    topics: FactsByTopic
    verdict: Verdict
    server: ServerFacts | None
    older: Backlog = field(default_factory=Backlog)
    oldest: tuple[UnitStatus, ...] = ()
    silent: Mapping[ProblemSource, str] = field(default_factory=dict)
    changes: tuple[UnitChange, ...] = ()
    added: tuple[Addition, ...] = ()
    landed: Mapping[Unit, Manifest] = field(default_factory=dict)
    rows: RowHistory = field(default_factory=RowHistory)
    forgets: FirstForgotten | None = None

    @property
    def lag_records(self) -> int | None:
        """Records in Kafka that are not landed, or None when a cluster did not answer."""
        return None if self.lag.errors else sum(p.records for p in self.lag.partitions)

    def unavailable(self) -> list[Problem]:
        return [Problem(ProblemKind.UNAVAILABLE, str(source), why) for source, why in self.silent.items()]


def watched_range(pipeline: Pipeline, now: datetime) -> SliceRange:
    """Returns the `lookback` of complete slices, not before `start`: the range of each hourly run."""
    end = floor(now, pipeline.slice)
    start = floor(end - pipeline.lookback, pipeline.slice)
    if pipeline.start is not None:
        start = min(max(start, floor(pipeline.start, pipeline.slice)), end)
    return SliceRange(start, end, pipeline.slice)


def observe(pipeline: Pipeline, lake: Lake, now: datetime) -> Observation:
    """Reads everything that the watch judges, and changes nothing. Raises LakeUnavailable."""
    slices = watched_range(pipeline, now)
    silent: Silent = defaultdict(list)
    surveyed_backlog = _unless_silent(
        ProblemSource.CLICKHOUSE, silent, lambda: seen_backlog(pipeline, lake, slices.start)
    )
    older = backlog_before(pipeline, lake, slices.start) if surveyed_backlog is None else surveyed_backlog
    inquiry = ask_oldest(pipeline, lake, older, slices, now)
    boundaries, mute, lost = inquiry.boundaries, inquiry.mute, inquiry.lost
    units = units_of(pipeline, slices, boundaries)
    answering = pipeline.model_copy(update={"kafka": [c for c in pipeline.kafka if c.cluster not in mute]})
    ledgers, server = _clickhouse(pipeline, lake, slices, silent)
    manifests = read_manifests(lake, units)
    all_statuses = statuses(pipeline, units, boundaries, manifests, ledgers or {}, now, lost)
    known_statuses = all_statuses if ledgers is not None else [s for s in all_statuses if s.manifest is None]
    oldest = statuses(pipeline, (*inquiry.oldest, *inquiry.landed), boundaries, inquiry.landed, {}, now, lost)
    updated_backlog = older.seen(status for status in oldest if status.manifest is not None)
    unread = older_unread(pipeline, lake, slices.start, boundaries, updated_backlog)
    topics_now, errors = ask_topics(answering) if answering.kafka else ({}, [])
    errors = [*mute.values(), *errors]
    silent[ProblemSource.KAFKA] += errors
    return Observation(
        slices=slices,
        boundaries=boundaries,
        statuses=tuple(known_statuses),
        lag=lag_of(all_statuses, topics_now, errors, now, boundaries, unread),
        topics=_topics(answering, [*oldest, *known_statuses], silent),
        verdict=read_verdict(lake),
        server=server,
        older=older.seen(oldest),
        oldest=tuple(oldest),
        silent=_reasons(silent),
        changes=tuple(changes_of(lake, manifests, manifests, log.info)),
        added=tuple(additions_in(lake, slices)),
        landed=manifests,
        rows=read_history(pipeline, lake, slices, boundaries, manifests),
        forgets=forgotten_first(pipeline, lake, boundaries, now),
    )


def _clickhouse(
    pipeline: Pipeline, lake: Lake, slices: SliceRange, silent: Silent
) -> tuple[Ledgers | None, ServerFacts | None]:
    def ask() -> tuple[Ledgers, ServerFacts]:
        with connect_shards(pipeline) as servers:
            clients = [(server.shard.name, server.reached) for server in servers]
            ledgers = ledgers_of(servers, pipeline, lake.url, slices)
            tables = [target.table for target in pipeline.targets]
            facts = joined(
                [
                    (n, server_facts(c, tables, read_claims(c, pipeline, lake.url, tables).own))
                    for n, c in clients
                ]
            )
            remedies: dict[str, str] = {}
            for _, client in clients if facts.missing else ():
                remedies |= creations(client, pipeline, gone(client, tables))
            return ledgers, replace(facts, remedies=remedies)

    return _unless_silent(ProblemSource.CLICKHOUSE, silent, ask) or (None, None)


def server_facts(client: Client, tables: Sequence[str], own: Collection[str]) -> ServerFacts:
    """Reads one server's errors and disks, which of the tables it lacks, and queues and parts of the
    pipeline's `own`. Raises what the client raises."""
    parameters = {"tables": sorted(own)}
    recent = {"codes": list(WATCHED), "seconds": _ERRORS_OF_SECONDS}
    return ServerFacts(
        address=client.address,
        errors=tuple(ServerErrorCount(*row) for row in client.rows(render("watch/errors"), recent)),
        queues=tuple(tuple(row) for row in client.rows(render("watch/queue"), parameters)),
        parts=tuple(tuple(row) for row in client.rows(render("watch/parts"), parameters)),
        disks=tuple(Disk(*row) for row in client.rows(render("watch/disks"))),
        missing=tuple((table, client.address) for table in gone(client, tables)),
    )


def _topics(pipeline: Pipeline, unit_statuses: Sequence[UnitStatus], silent: Silent) -> FactsByTopic:
    """Settings and log of the topics that still have something to land: only those can lose it."""
    waiting = {
        (status.unit.cluster, r.topic)
        for status in unit_statuses
        if status.manifest is None
        for r in status.ranges or ()
        if r.offsets
    }
    topics: FactsByTopic = {}
    for cluster in pipeline.kafka:
        waiting_topics = [topic for topic in cluster.topics if (cluster.cluster, topic) in waiting]
        if waiting_topics:

            def ask(
                cluster: Cluster = cluster, waiting_topics: Sequence[str] = waiting_topics
            ) -> FactsByTopic:
                with open_inquiry(cluster) as inquiry:
                    return {(cluster.cluster, topic): inquiry.facts(topic) for topic in waiting_topics}

            topics = {**topics, **(_unless_silent(ProblemSource.KAFKA, silent, ask) or {})}
    return topics


def _reasons(silent: Silent) -> dict[ProblemSource, str]:
    """Returns each source that has an error, with all its different ones."""
    return {source: "; ".join(dict.fromkeys(errors)) for source, errors in silent.items() if errors}


def _unless_silent(source: ProblemSource, silent: Silent, ask: Callable[[], T]) -> T | None:
    """Returns what `ask` answers; None when the source is unavailable, which is noted in `silent`.

    Raises: LakeUnavailable.
    """
    try:
        return ask()
    except Unavailable as error:
        expected = KafkaUnavailable if source is ProblemSource.KAFKA else Unavailable
        if not isinstance(error, expected):
            raise
        silent[source].append(str(error))
        return None


# Problems of the ClickHouse server that loads: quorum errors, queue, parts, disks. Pure.
# What a load meets when replicas or Keeper are in trouble.
# https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
WATCHED = {
    242: "a replicated table is read-only",
    TOO_MANY_PARTS: "too many parts",
    285: "too few live replicas for the quorum",
    286: "an earlier write has not reached its quorum",
    319: "whether an insert reached its quorum is unknown",
    999: "Keeper does not answer",
}
_SERVER = (ProblemSource.CLICKHOUSE,)


@dataclass(frozen=True)
class ServerErrorCount:
    """A row of system.errors: how often since the server's start, and the last time's message."""

    code: int
    name: str
    count: int
    message: str


@dataclass(frozen=True)
class Disk:
    """Bytes."""

    name: str
    free: int
    total: int


@dataclass(frozen=True)
class ServerFacts:
    """`errors` of the last few minutes only; `queues` and `parts` by table (`database.table`).

    `queues` are entries of system.replication_queue, `parts` the largest number in one partition; `missing`
    are targets that are not there, each with the address of the server, and `remedies` what creates them.
    """

    address: str
    errors: tuple[ServerErrorCount, ...] = ()
    queues: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    disks: tuple[Disk, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    remedies: Mapping[str, str] = field(default_factory=dict)


def joined(facts: Sequence[tuple[str, ServerFacts]]) -> ServerFacts:
    """Returns the servers of all shards (each with the shard's name) as one: counts added, the fullest
    partition."""
    if len(facts) == 1:
        return facts[0][1]
    parts: dict[str, int] = {}
    queues: dict[str, int] = {}
    errors: dict[int, ServerErrorCount] = {}
    for _, shard_facts in facts:
        for table, entries in shard_facts.queues:
            queues[table] = queues.get(table, 0) + entries
        for table, most in shard_facts.parts:
            parts[table] = max(parts.get(table, 0), most)
        for error in shard_facts.errors:
            before = errors[error.code].count if error.code in errors else 0
            errors[error.code] = replace(error, count=before + error.count)
    return ServerFacts(
        address=", ".join(shard_facts.address for _, shard_facts in facts),
        errors=tuple(errors.values()),
        queues=tuple(queues.items()),
        parts=tuple(parts.items()),
        disks=tuple(
            replace(d, name=f"{shard}: {d.name}") for shard, shard_facts in facts for d in shard_facts.disks
        ),
        missing=tuple(target for _, shard_facts in facts for target in shard_facts.missing),
    )


def meaning_of(error: ServerErrorCount) -> str:
    """Returns what the error says of the server. Of a code that has two causes the message says which one:
    then it is what the loader says, too."""
    rule = rule_of(error.code, error.message)
    if error.code == TOO_MANY_PARTS and rule is not None:
        return rule.remedy
    return WATCHED.get(error.code, error.name)


def server_problems(pipeline: Pipeline, facts: ServerFacts) -> Iterator[Problem]:
    bounds = pipeline.alarms
    for table, address in facts.missing:
        message = f"{address} has no such table; {facts.remedies[table]}"
        yield Problem(ProblemKind.TABLE, f"table {table}", message, _SERVER)
    for error in facts.errors:
        meaning = meaning_of(error)
        message = f"{meaning} ({error.name}, {error.count:,} times since its start): {error.message}"
        yield Problem(ProblemKind.SERVER_ERROR, f"{facts.address}, code {error.code}", message, _SERVER)
    for table, entries in facts.queues:
        if entries > bounds.queue:
            message = f"{entries:,} entries wait in system.replication_queue, the bound is {bounds.queue:,}"
            yield Problem(ProblemKind.QUEUE, f"table {table}", message, _SERVER)
    for table, parts in facts.parts:
        if parts > bounds.parts:
            message = (
                f"{parts:,} active parts in one partition, the bound is {bounds.parts:,}: merges are behind"
            )
            yield Problem(ProblemKind.PARTS, f"table {table}", message, _SERVER)
    for disk in facts.disks:
        if disk.total and disk.free < bounds.disk_free * disk.total:
            message = f"{disk.free / disk.total:.1%} of {disk.total >> 30:,} GiB are free: give it more room"
            yield Problem(ProblemKind.DISK, f"{facts.address}, disk {disk.name}", message, _SERVER)
