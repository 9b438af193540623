"""Problems of the ClickHouse server that loads: quorum errors, queue, parts, disks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.clients.clickhouse.errors import TOO_MANY_PARTS, rule_of
from sluice.config.pipeline import Pipeline
from sluice.watch.problems import Problem, ProblemKind, ProblemSource

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
