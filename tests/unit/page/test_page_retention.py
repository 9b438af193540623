"""Retention's clock: what Kafka deletes next of what has not landed, and what it has deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.manifest import OffsetRange
from sluice.page.retention import RetentionFacts, retention_of
from sluice.slices import to_ms
from sluice.state.status import UnitStatus
from tests.support.page_world import START, missing, unit

NOW = START.add(hours=30)
DAY_MS = str(86_400_000)


def topic(settings: dict[str, str], *partitions: PartitionFacts) -> dict:
    known = TopicFacts("dc1", "t", 1, 0, None, settings, dict(enumerate(partitions)))
    return {("dc1", "t"): known}


def waiting(hour: int, *ranges: tuple[int, int]) -> UnitStatus:
    own = tuple(OffsetRange("t", "u", number, *edges) for number, edges in enumerate(ranges))
    return replace(missing(unit(hour)), ranges=own)


def clock(found: list[UnitStatus], topics: dict, **more: object):
    return retention_of(
        RetentionFacts(more.get("count", len(found)), found, topics, {}, more.get("errors", ())), NOW
    )


def test_the_hour_that_goes_next_comes_first_but_for_what_has_gone():
    stamp = to_ms(START.add(hours=6))
    topics = topic(
        {"retention.ms": DAY_MS, "retention.bytes": "-1"},
        PartitionFacts(150, 900, stamp, 7),
        PartitionFacts(0, 900, stamp + 1, 7),
    )
    # Hour 5: 50 of partition 0 are before the log's start. Hours 8 and 9 end in 2 and 3 hours.
    found = clock(
        [waiting(9, (400, 500), (0, 9)), waiting(5, (100, 200), (0, 0)), waiting(8, (300, 400), (0, 0))],
        topics,
    )
    assert [(h.slice[11:13], h.gone, h.records, h.seconds, h.by) for h in found.hours] == [
        ("15", 50, 100, None, ""),
        ("18", 0, 100, 7200, "retention.ms"),
        ("19", 0, 109, 10800, "retention.ms"),
    ]
    assert found.hours[1].at == (NOW + timedelta(hours=2)).isoformat()
    assert found.hours[1].place == "dc1/t/0"
    (own,) = found.topics
    assert (own.kept_seconds, own.kept_bytes, own.partitions, own.records) == (86_400, None, 2, 1650)
    assert own.oldest == "2026-11-20T16:00:00+00:00"


def test_a_topic_without_a_bound_threatens_nothing():
    found = clock(
        [waiting(0, (0, 5))],
        topic({"retention.ms": "-1"}, PartitionFacts(0, 9)),
        count=7,
        errors=("dc2: no answer",),
    )
    (hour,) = found.hours
    assert (hour.at, hour.by, hour.seconds, hour.gone) == ("", "", None, 0)
    assert (found.waiting, found.errors, found.topics[0].kept_seconds, found.topics[0].oldest) == (
        7,
        ["dc2: no answer"],
        None,
        "",
    )


def test_nothing_waits():
    found = clock([], {})
    assert (found.hours, found.topics, found.waiting) == ([], [], 0)
