"""Reads lake, Kafka and ClickHouse for the watch. The error of a source that does not answer is kept."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import TOO_MANY_PARTS, rule_of
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import render
from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts, each_known, open_inquiry
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import KafkaUnavailable, Unavailable
from sluice.flow.choose_backlog import ask_oldest, backlog_before, seen_backlog
from sluice.flow.forget import forgotten_first
from sluice.flow.verify.read_lake import read_all
from sluice.flow.verify.verdict import Verdict, read_verdict
from sluice.manifest import Manifest, OffsetRange
from sluice.plan.backlog import Backlog
from sluice.plan.due import FirstForgotten
from sluice.plan.lag import Lag, ask_topics, lag_of, older_unread
from sluice.slices import SliceRange, Unit, floor, from_ms, utc, words_of
from sluice.state.additions import Addition, additions_in
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import creations, gone
from sluice.state.field_changes import UnitChange, changes_of
from sluice.state.held import Held, still_held
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import Ledgers, UnitStatus, statuses
from sluice.state.system_tables import read_claims
from sluice.state.units import units_of
from sluice.watch.expected import RowHistory, read_history
from sluice.watch.problems import LogStart, Problem, ProblemKind, ProblemSource

# When Kafka will delete an hour that has not landed: by age, by size, and by how its log moves.

FOR_EVER_SECONDS = 100 * 366 * 86_400
_OVER = 2
"""How often `alarms.retention` has to be left before a problem is over. Between two moves of a log start its
pace falls to half, and the next move doubles it again: a problem would be over, and new, with each move."""

FactsByTopic = Mapping[tuple[str, str], TopicFacts]
"""By (cluster, topic)."""


@dataclass(frozen=True)
class Threat:
    """The first partition of a unit that loses records, and when that may begin."""

    unit: str
    place: str
    at: datetime
    by: str


def threats(
    statuses: Iterable[UnitStatus], topics: FactsByTopic, earlier: Mapping[str, LogStart], now: datetime
) -> Iterator[Threat]:
    """For each resolved and unlanded unit the earliest deletion of one of its offsets."""
    for status in statuses:
        if status.manifest is not None or not status.ranges:
            continue
        unit_threats = [
            Threat(str(status.unit), f"{status.unit.cluster}/{r.topic}/{r.partition}", at, by)
            for r in status.ranges
            if r.offsets and (status.unit.cluster, r.topic) in topics
            for at, by in _ends(status, r, topics[status.unit.cluster, r.topic], earlier, now)
        ]
        if unit_threats:
            yield min(unit_threats, key=lambda threat: threat.at)


def _ends(
    status: UnitStatus, r: OffsetRange, facts: TopicFacts, earlier: Mapping[str, LogStart], now: datetime
) -> Iterator[tuple[datetime, str]]:
    partition = facts.partitions.get(r.partition)
    if partition is None or partition.start > r.start:
        return  # it has expired already: that is a problem of its own
    kept_ms = facts.number("retention.ms")
    if (
        kept_ms is not None
        and kept_ms >= 0
        and (at := _after(status.unit.slice.start, kept_ms / 1000)) is not None
    ):
        yield at, "retention.ms"
    if (at := _by_size(partition, facts.number("retention.bytes"), r.start, now)) is not None:
        yield at, "retention.bytes"
    name = f"{facts.cluster}/{facts.topic}/{r.partition}"
    if (at := _by_movement(partition, earlier.get(name), r.start, now)) is not None:
        yield at, "the log start's movement"


def _by_size(partition: PartitionFacts, limit: int | None, offset: int, now: datetime) -> datetime | None:
    """Records are taken for equally large, and to come as fast as those that are there."""
    if limit is None or limit < 0 or not partition.bytes or not partition.records:
        return None
    if partition.first_stamp is None:
        return None
    seconds = (now - from_ms(partition.first_stamp)).total_seconds()
    rate = partition.bytes / seconds if seconds > 0 else 0.0
    behind = partition.bytes * (partition.end - offset) / partition.records
    return _after(now, max(limit - behind, 0) / rate) if rate else None


def _by_movement(
    partition: PartitionFacts, earlier: LogStart | None, offset: int, now: datetime
) -> datetime | None:
    """Whole segments go at once: the pace is what went between two moves, over all the time since."""
    start = seen_at(earlier, partition.start, now)
    if start.before is None:
        return None
    first, since = start.before
    seconds = now.timestamp() - since
    rate = (start.offset - first) / seconds if seconds > 0 else 0.0
    return _after(now, (offset - start.offset) / rate) if rate > 0 else None


def _after(instant: datetime, seconds: float) -> datetime | None:
    """Returns None beyond what a date can hold: settings may say 2^63 ms, and a first record may be stamped
    -1."""
    return instant + timedelta(seconds=seconds) if seconds < FOR_EVER_SECONDS else None


def seen_at(earlier: LogStart | None, offset: int, now: datetime) -> LogStart:
    """Returns what is known of a log start that is now at `offset`."""
    if earlier is not None and earlier.offset == offset:
        return earlier
    at = int(utc(now).timestamp())
    if earlier is None:
        return LogStart(offset, at)
    return LogStart(offset, at, moved=True, before=(earlier.offset, earlier.at) if earlier.moved else None)


def retention(
    pipeline: Pipeline,
    statuses: Iterable[UnitStatus],
    topics: FactsByTopic,
    earlier: Mapping[str, LogStart],
    now: datetime,
    raised: Collection[str] = (),
) -> Iterator[Problem]:
    """Hours that Kafka deletes within `alarms.retention`; of those whose problem is in `raised`, by its key,
    within _OVER times as long."""
    bound = pipeline.alarms.retention
    if bound is None:
        return
    for threat in threats(statuses, topics, earlier, now):
        problem = _problem(pipeline, threat, now)
        if threat.at - now <= (_OVER * bound if problem.key in raised else bound):
            yield problem


def _problem(pipeline: Pipeline, threat: Threat, now: datetime) -> Problem:
    """ClickHouse says which hours before `lookback` are not complete."""
    hour = threat.unit.split("/")[0]
    run = pipeline.command("run", *words_of(hour))
    message = (
        f"Kafka will delete hour {hour} in {_left(threat.at - now)} "
        f"({threat.place}, by {threat.by}): `{run}` lands it now, or raise the retention"
    )
    sources = (ProblemSource.KAFKA, ProblemSource.LAKE, ProblemSource.CLICKHOUSE)
    return Problem(ProblemKind.RETENTION, f"slice {threat.unit}", message, sources)


def log_starts(
    now_at: Mapping[str, int], earlier: Mapping[str, LogStart], now: datetime
) -> dict[str, LogStart]:
    """Returns what the next run of the watch needs, by `cluster/topic/partition`."""
    moved = {name: seen_at(earlier.get(name), offset, now) for name, offset in now_at.items()}
    return {**earlier, **moved}


def _left(length: timedelta) -> str:
    """`3 h 10 min`."""
    minutes = max(int(length.total_seconds()) // 60, 0)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


log = logging.getLogger(__name__)

_ERRORS_OF_SECONDS = 900
T = TypeVar("T")
Silent = dict[ProblemSource, list[str]]
"""The errors of sources that do not answer: several clusters, or tries, may have one each."""


@dataclass(frozen=True)
class Observation:
    """What one run of the watch has read. `silent`: why a source did not answer, by source.

    Of a unit whose manifest cannot be read, which is an anomaly, nothing is known.
    Without ClickHouse `statuses` holds only units that have not landed: the state of the others is unknown.
    `older` is what is not complete of the hours before `slices`, by the summaries alone without ClickHouse.
    `oldest` holds the first units of it that are left in Kafka, which deletes these first, those that it lost
    before, and those of which only the lake says that they have landed. `changes` are those of the fields of
    events in `slices`, `added` the columns that loads have added for them. `landed` are the manifests of
    `slices`, `rows` what they and the weeks before them brought. `forgets`: what the lake is about to forget
    first; `held`: what checks hold out of a table.
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
    held: tuple[Held, ...] = ()

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
    if pipeline.since is not None:
        start = min(max(start, floor(pipeline.since, pipeline.slice)), end)
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
    manifests, unreadable = read_all(lake, units)
    readable = [unit for unit in units if unit not in unreadable]
    all_statuses = statuses(pipeline, readable, boundaries, manifests, ledgers or {}, now, lost)
    known_statuses = all_statuses if ledgers is not None else [s for s in all_statuses if s.manifest is None]
    oldest = statuses(pipeline, (*inquiry.oldest, *inquiry.landed), boundaries, inquiry.landed, {}, now, lost)
    updated_backlog = older.seen(status for status in oldest if status.manifest is not None)
    unread = older_unread(pipeline, lake, slices.start, boundaries, updated_backlog)
    topics_now, errors = ask_topics(answering, boundaries) if answering.kafka else ({}, [])
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
        held=tuple(still_held(pipeline, lake, slices, known_statuses)),
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
        waiting_topics = sorted(t for of, t in waiting if of == cluster.cluster and cluster.reads(t))
        if waiting_topics:

            def ask(
                cluster: Cluster = cluster, waiting_topics: Sequence[str] = waiting_topics
            ) -> FactsByTopic:
                with open_inquiry(cluster) as inquiry:
                    facts = each_known(cluster, waiting_topics, inquiry.facts)
                    return {(cluster.cluster, topic): found for topic, found in facts.items()}

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
