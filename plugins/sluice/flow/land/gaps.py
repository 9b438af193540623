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

from sluice.clients.kafka.fetch import Hole
from sluice.clients.kafka.reader import TopicReader
from sluice.errors import Conservation, ExpiredMeanwhile
from sluice.flow.land.task.reports import Gap, SeenOffsets
from sluice.manifest import OffsetRange, TopicPartitionKey
from sluice.slices import Unit

NEAR = 20_000  # offsets between two holes that are read faster than another read begins


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


Holes = Mapping[Unit, Mapping[TopicPartitionKey, Sequence[Gap]]]


def explain(topics: TopicReader, holes: Holes, log_starts: Mapping[TopicPartitionKey, int]) -> None:
    """Checks that every hole of one cluster's units is explained, as the log is after the read.

    Raises: ExpiredMeanwhile when a log's start has passed a hole, Conservation when the consumer meets
        records that Spark did not bring, or when nothing explains why there are none.
    """
    by_partition: dict[TopicPartitionKey, list[tuple[Gap, Unit]]] = {}
    for unit, places in holes.items():
        for topic_partition, gaps in places.items():
            by_partition.setdefault(topic_partition, []).extend((gap, unit) for gap in gaps)
    for topic_partition, unit_gaps in by_partition.items():
        for gap, unit in unit_gaps:
            if log_starts[topic_partition] > gap.start:
                lost = min(log_starts[topic_partition], gap.until)
                raise ExpiredMeanwhile(unit.cluster, *topic_partition, unit.slice.id, gap.start, lost)
        ascending = sorted(unit_gaps, key=lambda hole: hole[0].start)
        for near in _neighbours(_left(topics, topic_partition, ascending)):
            _explain_by_reading(topics, topic_partition, near)


def _left(
    topics: TopicReader, topic_partition: TopicPartitionKey, holes: Sequence[tuple[Gap, Unit]]
) -> list[tuple[Gap, Unit]]:
    """Returns the gaps that headers do not explain. Which offsets are missing in a joined one is unknown."""
    exact = [hole for hole in holes if _is_exact(hole[0])]
    left = [hole for hole in holes if not _is_exact(hole[0])]
    untils = [gap.until for gap, _ in exact]
    ranges = [(gap.start, gap.until) for gap, _ in exact]
    for start, until in topics.left(*topic_partition, ranges) if ranges else ():
        for gap, unit in exact[bisect_right(untils, start) : bisect_left(untils, until) + 1]:
            left.append((Gap(max(start, gap.start), min(until, gap.until)), unit))
    return sorted(left, key=lambda hole: hole[0].start)


def _is_exact(gap: Gap) -> bool:
    return gap.missing == gap.until - gap.start


def _explain_by_reading(
    topics: TopicReader, topic_partition: TopicPartitionKey, holes: Sequence[tuple[Gap, Unit]]
) -> None:
    records = topics.records(*topic_partition, holes[0][0].start, holes[-1][0].until)
    offsets = (offset for offset, _ in records)
    holes_by_gap = without_record(offsets, [gap for gap, _ in holes])
    for (gap, unit), empty in zip(holes, holes_by_gap, strict=True):
        visible = gap.until - gap.start - sum(until - start for start, until in empty)
        if unexplained(gap, visible):
            raise refuse(unit, topic_partition, gap, visible)
    bare = topics.unhidden(*topic_partition, list(chain.from_iterable(holes_by_gap)))
    if bare is not None:
        unit = next(unit for gap, unit in holes if gap.start <= bare[0] < gap.until)
        raise refuse_bare(unit, topic_partition, bare)


def without_record(offsets: Iterable[int], gaps: Sequence[Gap]) -> list[list[Hole]]:
    """Returns for each of `gaps`, which are in order, its ranges without any of the ascending `offsets`."""
    holes_by_gap: list[list[Hole]] = [[] for _ in gaps]
    current, expected = 0, gaps[0].start
    for offset in offsets:
        while current < len(gaps) and offset >= gaps[current].until:
            current, expected = _close(holes_by_gap, gaps, current, expected)
        if current == len(gaps):
            break
        if offset > expected:
            holes_by_gap[current].append((expected, offset))
        expected = max(expected, offset + 1)
    while current < len(gaps):
        current, expected = _close(holes_by_gap, gaps, current, expected)
    return holes_by_gap


def _close(
    holes_by_gap: list[list[Hole]], gaps: Sequence[Gap], current: int, expected: int
) -> tuple[int, int]:
    """Returns the next gap's number and its first offset. The rest of the current one has no record."""
    if expected < gaps[current].until:
        holes_by_gap[current].append((expected, gaps[current].until))
    after = current + 1
    return after, gaps[after].start if after < len(gaps) else expected


def _neighbours(holes: Sequence[tuple[Gap, Unit]]) -> Iterator[list[tuple[Gap, Unit]]]:
    near: list[tuple[Gap, Unit]] = []
    for hole in holes:
        if near and hole[0].start - near[-1][0].until > NEAR:
            yield near
            near = []
        near.append(hole)
    if near:
        yield near


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


def refuse_bare(unit: Unit, topic_partition: TopicPartitionKey, hole: tuple[int, int]) -> Conservation:
    topic, partition = topic_partition
    where = f"offsets [{hole[0]}, {hole[1]}) of {unit.cluster}/{topic}/{partition}"
    return Conservation(
        f"slice {unit}: {where} hold no record, and neither compaction nor a transaction explains it: the "
        "broker has lost them; nothing was committed: inspect its log (an unclean leader election?), or, if "
        "the topic was compacted before, give it `compact` in cleanup.policy back until the slice has landed"
    )
