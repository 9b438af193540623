"""Kafka as the source of a landing's records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Protocol

import pendulum

from sluice.clients.kafka.fetch import Hole
from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import probe_cluster
from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import ExpiredMeanwhile, SluiceError
from sluice.flow.land.commit import Draft, Refusal, commit_again, commit_each
from sluice.flow.land.conservation import refuse, refuse_bare, unexplained
from sluice.flow.land.expiry import refuse_compacted, starts_now
from sluice.flow.land.manifest_draft import Landed, draft
from sluice.flow.land.newly_rejected import NotReplaced, or_refusal
from sluice.flow.land.read import Accounted, Gaps
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.task.reports import Gap, SeenOffsets
from sluice.flow.land.task.task import Task
from sluice.manifest import Manifest, TopicPartitionKey
from sluice.safe_text import Say
from sluice.slices import Unit


@dataclass(frozen=True)
class KafkaSource:
    """`old`: the manifests of units that have landed. A `reland` of this `token` replaces them,
    unless there is a `refusal`."""

    pipeline: Pipeline
    lake: Lake
    old: Mapping[Unit, Manifest]
    mode: str
    token: str
    say: Say
    topics_of: TopicsOf
    refusal: Refusal | None = None

    def reading(self, task: Task, run: ReadGroup) -> Task:
        return task

    def account(
        self, reads: Sequence[UnitRead], gaps: Gaps, seen: Mapping[Unit, Sequence[SeenOffsets]]
    ) -> Mapping[Unit, Accounted]:
        """Raises ExpiredMeanwhile, TopicRecreated, KafkaUnavailable."""
        self._explain(reads, gaps)
        return {r.unit: self._accounted(r, gaps, seen.get(r.unit, ())) for r in reads}

    def _accounted(self, read: UnitRead, gaps: Gaps, seen: Sequence[SeenOffsets]) -> Accounted:
        missing = sum(gap.missing for partition_gaps in gaps[read.unit].values() for gap in partition_gaps)
        return Accounted(tuple(seen), missing + sum(part.hidden for part in seen))

    def _explain(self, reads: Sequence[UnitRead], gaps: Gaps) -> None:
        for cluster in dict.fromkeys(read.unit.cluster for read in reads):
            ranges = {r for read in reads if read.unit.cluster == cluster for r in read.left if r.offsets}
            # Asked also without holes: a topic that was recreated meanwhile has another id, and is refused.
            starts = starts_now(self.pipeline, cluster, ranges, self.topics_of)
            holes = {unit: places for unit, places in gaps.items() if places and unit.cluster == cluster}
            if holes:
                self.say(f"{cluster}: a second read of {_count(holes):,} offsets that hold no record")
                with self.topics_of(self.pipeline.cluster(cluster)) as topics:
                    explain(topics, holes, starts)

    def check(self, landed: Sequence[Landed]) -> None:
        """Raises CompactedAway."""
        refuse_compacted(self.pipeline, landed, self.old, self.topics_of)

    def answers(self, cluster: str) -> bool:
        return probe_cluster(self.pipeline.cluster(cluster), self.topics_of) is None

    def replaced(self, reads: Sequence[UnitRead]) -> SluiceError | None:
        return None

    def commit(self, landed: Sequence[Landed]) -> list[Manifest | NotReplaced]:
        now, grace = pendulum.now("UTC"), self.pipeline.success_grace
        drafts = [partial(draft, self.pipeline.name, unit, grace, self.token, now) for unit in landed]
        if self.mode == "reland":
            return each_if_slow(self._replace, drafts)
        return [*commit_each(self.lake, drafts)]

    def _replace(self, draft: Draft) -> Manifest | NotReplaced:
        return or_refusal(lambda: commit_again(self.lake, draft, self.refusal))


def _count(holes: Gaps) -> int:
    return sum(gap.missing for places in holes.values() for gaps in places.values() for gap in gaps)


# The second read of offsets that Spark did not bring, and that its tasks could not explain.
#
# What batches' headers do not call a marker or aborted, a plain consumer seeks to, and reads on. A hole is
# explained when it meets no record there either, the log's start is not behind the hole, and
# Kafka leaves such offsets out on purpose: a compaction removed the records, or the offsets belong to
# transactions (markers, aborted records). On any other topic the broker has lost them.
NEAR = 20_000  # offsets between two holes that are read faster than another read begins


class Consumer(Protocol):
    """What `sluice.clients.kafka.topics.Topics` offers."""

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]: ...

    def left(self, topic: str, partition: int, holes: Sequence[Hole]) -> list[Hole]: ...

    def unhidden(self, topic: str, partition: int, holes: Iterable[Hole]) -> Hole | None: ...


Holes = Mapping[Unit, Mapping[TopicPartitionKey, Sequence[Gap]]]


def explain(topics: Consumer, holes: Holes, log_starts: Mapping[TopicPartitionKey, int]) -> None:
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
    topics: Consumer, topic_partition: TopicPartitionKey, holes: Sequence[tuple[Gap, Unit]]
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
    topics: Consumer, topic_partition: TopicPartitionKey, holes: Sequence[tuple[Gap, Unit]]
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
