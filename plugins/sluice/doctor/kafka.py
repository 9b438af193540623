"""What a pipeline needs of its topics: rights, retention, time stamps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

import pendulum

from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.config.pipeline import Cluster, Pipeline
from sluice.doctor.check import Area, Check, fail, ok, warn
from sluice.errors import PartitionMissing, TopicRecreated
from sluice.slices import HOUR, ceil, from_ms
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.outside import accept_command, outside, outside_words
from sluice.topic_patterns import TopicPatterns

_NEEDED = frozenset({"READ", "DESCRIBE"})
_FOR_EVER = timedelta(days=36_600)
MOST_NAMES = 20
_HOUR_MS = int(HOUR.total_seconds() * 1000)


def topic_checks(pipeline: Pipeline, facts: TopicFacts, since: datetime, now: datetime) -> Iterator[Check]:
    """Yields every check of one topic; `since` is the beginning of the range that shall be filled."""
    yield _availability(facts)
    yield _rights(facts)
    yield _expired(pipeline, facts, since, now)
    if facts.settings:
        yield _retention(pipeline, facts, since, now)
        yield from _bytes(pipeline, facts, now)
        yield _stamps(facts)
        yield from _compacted(facts)
    else:
        remedy = f"grant DescribeConfigs on it: {_acl(facts, 'DescribeConfigs')}"
        yield warn(Area.KAFKA, _place(facts), "its settings (retention, time stamps) may not be seen", remedy)


def boundary_checks(pipeline: Pipeline, facts: TopicFacts, boundaries: Boundaries) -> Iterator[Check]:
    """Yields what the stored boundaries say of the topic: whether a run reads it at all, and what it leaves
    out. Nothing where none is stored. Raises TopicRecreated and PartitionMissing, as a run does."""
    stored = boundaries.stored(facts.cluster, facts.topic)
    if stored is None:
        return
    if stored.uuid != facts.uuid:
        if boundaries.gone_since(facts.cluster, facts.topic) is not None:
            return  # the next slice takes it for the new topic that it is
        accept = accept_command(pipeline, boundaries, facts.cluster, facts.topic, pendulum.now("UTC"))
        raise TopicRecreated(facts.cluster, facts.topic, stored.uuid, facts.uuid, accept)
    if gone := stored.columns.keys() - facts.partitions.keys():
        raise PartitionMissing(facts.cluster, facts.topic, min(gone))
    log_starts = {number: partition.start for number, partition in facts.partitions.items()}
    words = outside_words(outside(boundaries, facts.cluster, facts.topic, log_starts))
    if words:
        finding, _, remedy = words.rpartition("; ")
        yield warn(Area.KAFKA, _place(facts), finding, remedy)


def matching_check(
    cluster: Cluster, patterns: TopicPatterns, matching: Sequence[str], known: Collection[str]
) -> Check:
    """Says how many topics match, and which of them no slice has yet."""
    if not matching:
        remedy = "create one, grant the right to describe it, or correct `topics`"
        return (warn if cluster.named else fail)(
            Area.KAFKA, cluster.cluster, f"no topic matches {patterns}", remedy
        )
    new = [topic for topic in matching if topic not in known]
    more = f" and {len(new) - MOST_NAMES:,} more" if len(new) > MOST_NAMES else ""
    listed = f"; new, from the next slice on: {', '.join(new[:MOST_NAMES])}{more}" if new else ""
    noun = "topic matches" if len(matching) == 1 else "topics match"
    return ok(Area.KAFKA, cluster.cluster, f"{len(matching):,} {noun} {patterns}{listed}")


def _availability(facts: TopicFacts) -> Check:
    records = sum(p.records for p in facts.partitions.values())
    size = f"{len(facts.partitions)} partitions, {facts.replicas} replicas, {records:,} offsets"
    if facts.offline:
        remedy = "start its brokers, then run this again"
        return fail(Area.KAFKA, _place(facts), f"{facts.offline} of {size} have no leader", remedy)
    return ok(Area.KAFKA, _place(facts), size)


def _rights(facts: TopicFacts) -> Check:
    lacking = sorted(_NEEDED - facts.rights) if facts.rights is not None else []
    if lacking:
        commands = "; ".join(_acl(facts, operation.title()) for operation in lacking)
        return fail(Area.KAFKA, _place(facts), f"the user has no right to {' and '.join(lacking)}", commands)
    silent = [n for n, p in facts.partitions.items() if p.records and p.first_stamp is None]
    if silent:
        remedy = "check that its leader serves fetches, and max.message.bytes"
        return warn(Area.KAFKA, _place(facts), f"partition {silent[0]} gave no record within 10 s", remedy)
    proof = "DESCRIBE and READ" if facts.rights is not None else "a record could be read"
    return ok(Area.KAFKA, _place(facts), f"rights: {proof}")


def _expired(pipeline: Pipeline, facts: TopicFacts, since: datetime, now: datetime) -> Check:
    """A log that begins above 0 has lost what was older than its first record."""
    first = {n: _complete_from(p, now) for n, p in facts.partitions.items() if p.start > 0}
    late = {number: at for number, at in first.items() if at > since}
    if not late:
        return ok(Area.KAFKA, _place(facts), f"nothing since {_at(since)} has expired")
    number, at = max(late.items(), key=lambda item: item[1])
    begin = ceil(at, pipeline.slice)
    remedy = f"begin at {_at(begin)}, or set `on_expired: land_rest` to land what is left"
    finding = (
        f"records before {_at(at)} are gone (partition {number} begins at offset "
        f"{facts.partitions[number].start:,}), and the range begins at {_at(since)}"
    )
    report = warn if pipeline.on_expired == "land_rest" else fail
    return report(Area.KAFKA, _place(facts), finding, remedy)


def _complete_from(partition: PartitionFacts, now: datetime) -> datetime:
    return now if partition.first_stamp is None else from_ms(partition.first_stamp)


def _retention(pipeline: Pipeline, facts: TopicFacts, since: datetime, now: datetime) -> Check:
    kept_ms = facts.number("retention.ms")
    if kept_ms is None or not 0 <= kept_ms < _FOR_EVER // timedelta(milliseconds=1):
        return ok(Area.KAFKA, _place(facts), "retention.ms: records are never deleted")
    kept = timedelta(milliseconds=kept_ms)
    finding = f"retention.ms keeps records for {_words(kept)}"
    if since < now - kept:
        retention_ms = int(((now - since) + pipeline.lookback).total_seconds() * 1000)
        remedy = (
            f"the range begins {_words(now - since)} ago, fill it at once, or {_alter(facts, retention_ms)}"
        )
        return warn(Area.KAFKA, _place(facts), finding, remedy)
    if kept < 2 * pipeline.lookback:
        retention_ms = int(4 * pipeline.lookback.total_seconds() * 1000)
        remedy = f"an outage of {_words(kept)} loses records ({_words(pipeline.lookback)} are made up for): "
        return warn(Area.KAFKA, _place(facts), finding, remedy + _alter(facts, retention_ms))
    return ok(Area.KAFKA, _place(facts), finding)


def _bytes(pipeline: Pipeline, facts: TopicFacts, now: datetime) -> Iterator[Check]:
    """`retention.bytes` counts per partition: how long that lasts follows from what arrived until now."""
    limit = facts.number("retention.bytes")
    if limit is None or limit < 0:
        return
    lasting = [s for s in (lasts(p, limit, now) for p in facts.partitions.values()) if s is not None]
    if not lasting:
        yield ok(Area.KAFKA, _place(facts), f"retention.bytes is {limit:,} per partition")
        return
    shortest = min(lasting)
    finding = f"retention.bytes ({limit:,} per partition) lasts for about {_words(shortest)} at today's rate"
    if shortest < 2 * pipeline.lookback:
        yield warn(
            Area.KAFKA, _place(facts), finding, f"raise it to {limit * 4:,}, or to -1 and use retention.ms"
        )
    else:
        yield ok(Area.KAFKA, _place(facts), finding)


def lasts(partition: PartitionFacts, limit: int, now: datetime) -> timedelta | None:
    """For how long `limit` bytes hold a partition's records, at the rate of those that are there."""
    if not partition.bytes or partition.first_stamp is None:
        return None
    seconds = (now - from_ms(partition.first_stamp)).total_seconds()
    if seconds <= 0:
        return None  # its stamp says nothing of when it came
    return timedelta(seconds=min(limit / partition.bytes * seconds, _FOR_EVER.total_seconds()))


def _stamps(facts: TopicFacts) -> Check:
    if facts.settings.get("message.timestamp.type") == "LogAppendTime":
        remedy = "events published later land in the hour of their arrival; CreateTime keeps their own hour"
        return warn(Area.KAFKA, _place(facts), "message.timestamp.type is LogAppendTime", remedy)
    ahead = facts.number("message.timestamp.after.max.ms")
    if ahead is not None and ahead > _HOUR_MS:
        remedy = "set it to 3600000: a producer whose clock is wrong makes every look-up of an hour a scan"
        return warn(
            Area.KAFKA, _place(facts), "message.timestamp.after.max.ms lets records be in the future", remedy
        )
    return ok(Area.KAFKA, _place(facts), "time stamps: CreateTime")


def _compacted(facts: TopicFacts) -> Iterator[Check]:
    if "compact" in facts.settings.get("cleanup.policy", ""):
        remedy = "records with the same key vanish before their hour is landed: use cleanup.policy=delete"
        yield warn(Area.KAFKA, _place(facts), "cleanup.policy compacts it", remedy)


def _place(facts: TopicFacts) -> str:
    return f"{facts.cluster}/{facts.topic}"


def _at(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%MZ}"


def _words(length: timedelta) -> str:
    return pendulum.duration(seconds=int(length.total_seconds())).in_words()


def _alter(facts: TopicFacts, retention_ms: int) -> str:
    return (
        f"kafka-configs --alter --entity-type topics --entity-name {facts.topic} "
        f"--add-config retention.ms={retention_ms}"
    )


def _acl(facts: TopicFacts, operation: str) -> str:
    return f"kafka-acls --add --allow-principal User:… --operation {operation} --topic {facts.topic}"
