"""Records read = offsets in range − explained gaps, for every partition of a unit.

Offsets that no task brought, and that the headers of their batches do not call a marker or aborted, are read
a second time: a plain consumer seeks to them. A gap is explained when the consumer meets no record there
either, the log's start is not behind it, and Kafka leaves such offsets out on purpose: a compaction removed
the records, or the offsets belong to transactions (markers, aborted records). On any other topic the broker
has lost them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from sluice.clients.kafka.fetch import MissingOffsets
from sluice.clients.kafka.topic_facts import TopicReader
from sluice.errors import Conservation, ExpiredMeanwhile
from sluice.flow.land.task.reports import Gap, SeenOffsets
from sluice.manifest import OffsetRange, TopicPartitionKey
from sluice.slices import Unit


def gaps_of(
    unit: Unit, left: Iterable[OffsetRange], seen: Iterable[SeenOffsets]
) -> dict[TopicPartitionKey, list[Gap]]:
    """Returns by (topic, partition) the offsets in range that no task has read.

    Raises Conservation when an offset was read twice, or one from outside the range.
    """
    seen_by_partition: dict[TopicPartitionKey, list[SeenOffsets]] = {}
    for part in seen:
        seen_by_partition.setdefault((part.topic, part.partition), []).append(part)
    gaps_by_partition = {}
    for r in left:
        parts = sorted(seen_by_partition.pop((r.topic, r.partition), []), key=lambda part: part.first)
        gaps = list(_gaps(unit, r, parts))
        if gaps:
            gaps_by_partition[r.topic, r.partition] = gaps
    for parts in seen_by_partition.values():
        raise Conservation(
            _message(unit, parts[0].topic, parts[0].partition, parts[0].first, "not asked for")
        )
    return gaps_by_partition


def _gaps(unit: Unit, r: OffsetRange, parts: Sequence[SeenOffsets]) -> Iterator[Gap]:
    expected = r.start
    for part in parts:
        if part.first < expected or part.last >= r.until:
            raise Conservation(
                _message(unit, r.topic, r.partition, part.first, "brought twice or not asked for")
            )
        if part.first > expected:
            yield Gap(expected, part.first)
        yield from part.gaps
        missing = sum(gap.missing for gap in part.gaps)
        if part.records + part.hidden + missing != part.last - part.first + 1:
            raise Conservation(_message(unit, r.topic, r.partition, part.first, "counted wrong"))
        expected = part.last + 1
    if expected < r.until:
        yield Gap(expected, r.until)


def _message(unit: Unit, topic: str, partition: int, offset: int, what: str) -> str:
    return (
        f"slice {unit}: offset {offset} of {unit.cluster}/{topic}/{partition} was {what} by Spark's Kafka "
        "source: nothing was committed; land the slice again and report it if it happens twice"
    )


NEAR = 20_000  # offsets between two gaps that are read faster than another read begins

UnitGap = tuple[Gap, Unit]


def explain(
    topics: TopicReader,
    gaps: Mapping[Unit, Mapping[TopicPartitionKey, Sequence[Gap]]],
    log_starts: Mapping[TopicPartitionKey, int],
) -> None:
    """Checks that every gap of one cluster's units is explained, as the log is after the read.

    Raises: ExpiredMeanwhile when a log's start has passed a gap, Conservation when the consumer meets
        records that Spark did not bring, or when nothing explains why there are none.
    """
    by_partition: dict[TopicPartitionKey, list[UnitGap]] = {}
    for unit, partitions in gaps.items():
        for topic_partition, partition_gaps in partitions.items():
            by_partition.setdefault(topic_partition, []).extend((gap, unit) for gap in partition_gaps)
    for topic_partition, unit_gaps in by_partition.items():
        for gap, unit in unit_gaps:
            if log_starts[topic_partition] > gap.start:
                lost = min(log_starts[topic_partition], gap.until)
                raise ExpiredMeanwhile(unit.cluster, *topic_partition, unit.slice.id, gap.start, lost)
        for near in _neighbours(_left(topics, topic_partition, sorted(unit_gaps, key=_start))):
            _explain_by_reading(topics, topic_partition, near)


def _start(unit_gap: UnitGap) -> int:
    return unit_gap[0].start


def _left(
    topics: TopicReader, topic_partition: TopicPartitionKey, unit_gaps: Sequence[UnitGap]
) -> list[UnitGap]:
    """Returns the gaps that headers do not explain. Which offsets are missing in a joined one is unknown."""
    exact = [(gap, unit) for gap, unit in unit_gaps if gap.missing == gap.until - gap.start]
    left = [(gap, unit) for gap, unit in unit_gaps if gap.missing != gap.until - gap.start]
    untils = [gap.until for gap, _ in exact]
    ranges = [(gap.start, gap.until) for gap, _ in exact]
    for start, until in topics.left(*topic_partition, ranges) if ranges else ():
        for gap, unit in exact[bisect_right(untils, start) : bisect_left(untils, until) + 1]:
            left.append((Gap(max(start, gap.start), min(until, gap.until)), unit))
    return sorted(left, key=_start)


def _neighbours(unit_gaps: Sequence[UnitGap]) -> Iterator[list[UnitGap]]:
    near: list[UnitGap] = []
    for gap, unit in unit_gaps:
        if near and gap.start - near[-1][0].until > NEAR:
            yield near
            near = []
        near.append((gap, unit))
    if near:
        yield near


def _explain_by_reading(
    topics: TopicReader, topic_partition: TopicPartitionKey, unit_gaps: Sequence[UnitGap]
) -> None:
    records = topics.records(*topic_partition, unit_gaps[0][0].start, unit_gaps[-1][0].until)
    empty_by_gap = without_record((offset for offset, _ in records), [gap for gap, _ in unit_gaps])
    for (gap, unit), empty in zip(unit_gaps, empty_by_gap, strict=True):
        visible = gap.until - gap.start - sum(until - start for start, until in empty)
        if unexplained(gap, visible):
            raise refuse(unit, topic_partition, gap, visible)
    bare = topics.unhidden(*topic_partition, list(chain.from_iterable(empty_by_gap)))
    if bare is not None:
        unit = next(unit for gap, unit in unit_gaps if gap.start <= bare[0] < gap.until)
        raise refuse_bare(unit, topic_partition, bare)


def without_record(offsets: Iterable[int], gaps: Sequence[Gap]) -> list[list[MissingOffsets]]:
    """Returns for each of `gaps`, which are in order, its ranges without any of the ascending `offsets`."""
    ascending = iter(offsets)
    offset = next(ascending, None)
    empty_by_gap = []
    for gap in gaps:
        empty, expected = [], gap.start
        while offset is not None and offset < gap.until:
            if offset > expected:
                empty.append((expected, offset))
            expected = max(expected, offset + 1)
            offset = next(ascending, None)
        if expected < gap.until:
            empty.append((expected, gap.until))
        empty_by_gap.append(empty)
    return empty_by_gap


def unexplained(gap: Gap, visible: int) -> bool:
    """Returns whether a second read of the gap, with `visible` records, differs from the first."""
    return visible != gap.until - gap.start - gap.missing


def refuse(unit: Unit, topic_partition: TopicPartitionKey, gap: Gap, visible: int) -> Conservation:
    topic, partition = topic_partition
    read = gap.until - gap.start - gap.missing
    return Conservation(
        f"slice {unit}: in offsets [{gap.start}, {gap.until}) of {unit.cluster}/{topic}/{partition} Spark "
        f"read {read} records and a plain consumer {visible}: nothing was committed; land the slice again"
    )


def refuse_bare(unit: Unit, topic_partition: TopicPartitionKey, gap: tuple[int, int]) -> Conservation:
    topic, partition = topic_partition
    where = f"offsets [{gap[0]}, {gap[1]}) of {unit.cluster}/{topic}/{partition}"
    return Conservation(
        f"slice {unit}: {where} hold no record, and neither compaction nor a transaction explains it: the "
        "broker has lost them; nothing was committed: inspect its log (an unclean leader election?), or, if "
        "the topic was compacted before, give it `compact` in cleanup.policy back until the slice has landed"
    )
