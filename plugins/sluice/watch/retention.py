"""When Kafka will delete an hour that has not landed: by age, by size, and by how its log moves. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.config.pipeline import Pipeline
from sluice.manifest import OffsetRange
from sluice.slices import from_ms, utc, words_of
from sluice.state.status import UnitStatus
from sluice.watch.problems import LogStart, Problem, ProblemKind, ProblemSource

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
