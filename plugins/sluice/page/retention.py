"""Retention's clock: the oldest hours that have not landed, and when Kafka may delete them. Pure; the facts
come from `sluice.page.retention_facts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.clients.kafka.topic_facts import TopicFacts
from sluice.page.pipeline_models import Deletion, Retention, TopicRetention
from sluice.slices import from_ms, iso
from sluice.state.status import UnitStatus
from sluice.watch.problems import LogStart
from sluice.watch.retention import FactsByTopic, threats

MOST_TOPICS = 50


@dataclass(frozen=True)
class RetentionFacts:
    """`unlanded` are the oldest of the `waiting` units that have not landed; `log_starts` those that the
    watch has stored, `errors` a line for each cluster that did not answer."""

    waiting: int
    unlanded: Sequence[UnitStatus]
    topics: FactsByTopic
    log_starts: Mapping[str, LogStart]
    errors: Sequence[str]


def retention_of(facts: RetentionFacts, now: datetime) -> Retention:
    """Returns the clock: units that have lost records first, then those that Kafka deletes next."""
    ends = {threat.unit: threat for threat in threats(facts.unlanded, facts.topics, facts.log_starts, now)}
    hours = []
    for status in facts.unlanded:
        end = ends.get(str(status.unit))
        hours.append(
            Deletion(
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
                place=end.place if end else "",
                at=iso(end.at) if end else "",
                by=end.by if end else "",
                seconds=int((end.at - now).total_seconds()) if end else None,
                records=status.offsets,
                gone=gone_of(status, facts.topics),
            )
        )
    return Retention(
        at=iso(now),
        waiting=facts.waiting,
        hours=sorted(hours, key=_urgency),
        topics=[_topic(topic_facts) for _, topic_facts in sorted(facts.topics.items())[:MOST_TOPICS]],
        errors=list(facts.errors),
    )


def _urgency(hour: Deletion) -> tuple[bool, bool, str, str, str]:
    return not hour.gone, not hour.at, hour.at, hour.slice, hour.cluster


def gone_of(status: UnitStatus, topics: FactsByTopic) -> int:
    """Returns how many offsets of the unit are before the log's start."""
    total = 0
    for r in status.ranges or ():
        facts = topics.get((status.unit.cluster, r.topic))
        partition = facts.partitions.get(r.partition) if facts else None
        if partition is not None:
            total += max(min(partition.start, r.until) - r.start, 0)
    return total


def _topic(facts: TopicFacts) -> TopicRetention:
    kept_ms, size = _bound(facts, "retention.ms"), _bound(facts, "retention.bytes")
    return TopicRetention(
        cluster=facts.cluster,
        topic=facts.topic,
        partitions=len(facts.partitions),
        kept_seconds=None if kept_ms is None else kept_ms // 1000,
        kept_bytes=size,
        oldest=_oldest(partition.first_stamp for partition in facts.partitions.values()),
        records=sum(partition.records for partition in facts.partitions.values()),
    )


def _bound(facts: TopicFacts, setting: str) -> int | None:
    """Returns None for a setting without a bound, which is -1 in Kafka."""
    number = facts.number(setting)
    return None if number is None or number < 0 else number


def _oldest(stamps: Iterable[int | None]) -> str:
    known_stamps = [stamp for stamp in stamps if stamp is not None]
    return iso(from_ms(min(known_stamps))) if known_stamps else ""
