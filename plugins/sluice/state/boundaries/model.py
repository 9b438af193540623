"""`Boundaries`: everything the boundary log says, as an immutable value with pure questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pendulum

from sluice.errors import SluiceError
from sluice.manifest import Loss, OffsetRange
from sluice.slices import Slice
from sluice.state.boundaries.boundary import UNKNOWN, Boundary, PartitionColumn, TopicBoundaries
from sluice.topic_patterns import TopicPatterns

Listed = Mapping[str, Mapping[TopicPatterns, frozenset[int]]]
"""By cluster and patterns the starts (seconds since the epoch) of the slices that were resolved by them: all
topics that matched have both boundaries of such a slice, and no other topic will match there."""


@dataclass(frozen=True)
class Era:
    """A topic's id from an instant (seconds since the epoch) on; None: from the first boundary on."""

    uuid: str
    since: int | None = None


@dataclass(frozen=True)
class LogEntry:
    """What one writer adds to the log at once: boundaries by topic, newly accepted topic ids, and of
    clusters that did not answer the first instant (seconds since the epoch) at which they were asked for.
    `listed`: slices whose topics it completes."""

    length: timedelta
    blocks: tuple[TopicBoundaries, ...]
    accepted: Mapping[tuple[str, str], Era] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    listed: Listed = field(default_factory=dict)


@dataclass(frozen=True)
class Boundaries:
    """The state after `entries` entries of the log. The slice length is the first entry's."""

    entries: int = 0
    length: timedelta | None = None
    blocks: Mapping[tuple[str, str, str], TopicBoundaries] = field(default_factory=dict)
    eras: Mapping[tuple[str, str], tuple[Era, ...]] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    listed: Listed = field(default_factory=dict)

    def with_entry(self, entry: LogEntry) -> Boundaries:
        """Returns the state with one more entry. Raises SluiceError when it names a topic id that was not
        accepted."""
        blocks, eras = dict(self.blocks), dict(self.eras)
        for name, era in entry.accepted.items():
            eras[name] = (*eras.get(name, ()), era)
        for block in entry.blocks:
            name = (block.cluster, block.topic)
            eras.setdefault(name, (Era(block.uuid),))
            if block.uuid not in {era.uuid for era in eras[name]}:
                raise SluiceError(
                    f"boundary log, entry {self.entries}: topic {block.cluster}/{block.topic} has the id "
                    f"{block.uuid}, which was never accepted: restore the log from a copy"
                )
            earlier = blocks.get(block.key)
            blocks[block.key] = block if earlier is None else earlier.merged(block)
        asked = {c: min(at, self.asked.get(c, at)) for c, at in entry.asked.items()}
        length = self.length or entry.length
        listed = _joined(self.listed, entry.listed)
        return Boundaries(self.entries + 1, length, blocks, eras, {**self.asked, **asked}, listed)

    def uuid(self, cluster: str, topic: str) -> str | None:
        """Returns the topic id that stands now, or None when no boundary of the topic is stored."""
        eras = self.eras.get((cluster, topic))
        return eras[-1].uuid if eras else None

    def stored(self, cluster: str, topic: str) -> TopicBoundaries | None:
        """Returns the boundaries of the topic id that stands now."""
        uuid = self.uuid(cluster, topic)
        return None if uuid is None else self.blocks.get((cluster, topic, uuid))

    def log_start(self, cluster: str, topic: str, partition: int) -> int:
        """Returns the highest log start that was seen of a partition of the topic id that stands now; 0 of
        one that no boundary has."""
        block = self.stored(cluster, topic)
        column = None if block is None else block.columns.get(partition)
        return 0 if column is None else max(column.log_starts, default=0)

    def offsets(self, cluster: str, topic: str, instant: datetime) -> Boundary | None:
        """Returns the boundary at `instant`, where a slice that starts there begins; None when not
        resolved."""
        seconds = int(instant.timestamp())
        block, closed = self._era(cluster, topic, seconds)
        row = _row(block, closed, seconds)
        if block is None or row is None:
            return None
        partitions = {number: column[row] for number, column in block.columns.items()}
        return Boundary(cluster, topic, block.uuid, pendulum.from_timestamp(seconds), partitions)

    def missing(self, slices: Iterable[Slice], cluster: str, topic: str) -> list[int]:
        """Instants (seconds since the epoch, ascending) to look up before all slices are resolved."""
        instants: set[int] = set()
        for slice_ in slices:
            start, end = int(slice_.start.timestamp()), int(slice_.end.timestamp())
            block, closed = self._era(cluster, topic, start)
            instants.update(at for at in (start, end) if _row(block, closed, at) is None)
        return sorted(instants)

    def instants(self, cluster: str) -> frozenset[int]:
        """Returns every instant (seconds since the epoch) at which a topic of the cluster has a boundary."""
        return frozenset().union(*(b.instants for b in self.blocks.values() if b.cluster == cluster))

    def topics(self, cluster: str) -> tuple[str, ...]:
        """Returns every topic of the cluster that has a boundary, sorted."""
        return tuple(sorted(topic for of, topic in self.eras if of == cluster))

    def has(self, cluster: str, topic: str, start: int) -> bool:
        """Returns whether both boundaries of the slice that begins at `start` are stored for the topic."""
        block, _ = self._era(cluster, topic, start)
        return block is not None and None not in (block.row(start), block.row(start + self._seconds))

    def lists(self, cluster: str, start: int, patterns: TopicPatterns | None = None) -> bool:
        """Returns whether the slice that begins at `start` was resolved by these patterns, or by any."""
        listed = self.listed.get(cluster, {})
        chosen = listed.values() if patterns is None else [listed.get(patterns, frozenset())]
        return any(start in starts for starts in chosen)

    def newest_listed(self, cluster: str) -> int | None:
        """Returns the start of the newest slice that was resolved by patterns; None without any."""
        return max((max(s) for s in self.listed.get(cluster, {}).values() if s), default=None)

    def oldest_listed(self, cluster: str) -> int | None:
        """Returns the start of the oldest slice that was resolved by patterns; None without any."""
        return min((min(s) for s in self.listed.get(cluster, {}).values() if s), default=None)

    def stays_without(self, cluster: str, topic: str, start: int) -> bool:
        """Returns whether the slice that begins at `start` was resolved by patterns that name the topic, when
        it was not there: the slice has nothing of it, whenever the topic comes."""
        listed = self.listed.get(cluster, {}).items()
        named = any(start in starts and patterns.matches(topic) for patterns, starts in listed)
        return named and not self.has(cluster, topic, start)

    def gone_since(self, cluster: str, topic: str) -> int | None:
        """Returns the end of the newest slice behind the topic's last boundary that stays without it; None
        where there is none: as far as is known, the topic was there all the time."""
        stored = self.stored(cluster, topic)
        if stored is None or not len(stored.instants):
            return None
        starts = (at for starts in self.listed.get(cluster, {}).values() for at in starts)
        behind = (at for at in starts if at >= stored.instants[-1])
        newest = max((at for at in behind if self.stays_without(cluster, topic, at)), default=None)
        return None if newest is None else newest + self._seconds

    def passes(self, cluster: str, topic: str, instant: int) -> bool:
        """Returns whether the slices on both sides of the instant stay without the topic."""
        sides = (instant - self._seconds, instant)
        return all(self.stays_without(cluster, topic, start) for start in sides)

    def standstill(self, cluster: str, topic: str, instant: int) -> tuple[int, int]:
        """Returns the first and the last instant that are one with `instant` for the topic, because all
        slices between them stay without it."""
        first = last = instant
        while self.stays_without(cluster, topic, first - self._seconds):
            first -= self._seconds
        while self.stays_without(cluster, topic, last):
            last += self._seconds
        return first, last

    def behind(self, cluster: str, topic: str, asked: Iterable[int], instants: frozenset[int]) -> set[int]:
        """Returns those of its cluster's `instants` at which the topic has no boundary, although it has an
        earlier one, or gets it now that it is `asked` for others: the pipeline file did not name it when they
        were resolved."""
        stored = self.stored(cluster, topic)
        known = {*asked, *(stored.instants if stored else ())}
        first = min(known, default=None)
        return {at for at in instants - known if first is not None and at > first}

    def ranges(self, slice_: Slice, cluster: str, topics: Iterable[str]) -> tuple[OffsetRange, ...] | None:
        """Returns what the slice is: one range per partition, by topic and partition; None when not resolved.

        A partition that neither boundary knew is left out; it has no offsets in the slice.
        """
        ranges: list[OffsetRange] = []
        for topic in topics:
            pair = self._pair(slice_, cluster, topic)
            if pair is None:
                return None
            block, start, end = pair
            # By the million for a year of a wide topic: it asks the columns' arrays themselves.
            for number, column in block.columns.items():
                since, until = column.offsets[start], column.offsets[end]
                if since != UNKNOWN or until != UNKNOWN:
                    first = column.first_start
                    edges = (first if since == UNKNOWN else since, first if until == UNKNOWN else until)
                    ranges.append(OffsetRange(topic, block.uuid, number, *edges))
        return tuple(ranges)

    def expired(self, slice_: Slice, cluster: str, topics: Iterable[str]) -> tuple[Loss, ...]:
        """Returns what had expired before the slice was first resolved: at most these offsets, hours unknown.

        Empty for a slice that is not resolved.
        """
        return tuple(loss for topic in topics for loss in self._uncertain(slice_, cluster, topic))

    def span(self) -> tuple[pendulum.DateTime, pendulum.DateTime] | None:
        """Returns the earliest and the latest instant with a stored boundary of any topic, or None."""
        edges = [(b.instants[0], b.instants[-1]) for b in self.blocks.values() if len(b.instants)]
        if not edges:
            return None
        first, last = min(edge[0] for edge in edges), max(edge[1] for edge in edges)
        return pendulum.from_timestamp(first), pendulum.from_timestamp(last)

    @property
    def clusters(self) -> frozenset[str]:
        """Every cluster that the log knows, also those that the pipeline no longer has."""
        return frozenset({block.cluster for block in self.blocks.values()} | self.asked.keys())

    def begin(self, cluster: str) -> pendulum.DateTime | None:
        """Returns the first instant at which the cluster was asked for, whether it answered or not; None:
        never."""
        instants = [b.instants[0] for b in self.blocks.values() if b.cluster == cluster and len(b.instants)]
        instants += [self.asked[cluster]] if cluster in self.asked else []
        return pendulum.from_timestamp(min(instants)) if instants else None

    def end(self, cluster: str) -> pendulum.DateTime | None:
        """Returns the last instant with a stored boundary of the cluster; None without any."""
        instants = [b.instants[-1] for b in self.blocks.values() if b.cluster == cluster and len(b.instants)]
        return pendulum.from_timestamp(max(instants)) if instants else None

    @property
    def _seconds(self) -> int:
        """The slice length; 0 of a log without entries, which has no slices."""
        return 0 if self.length is None else int(self.length.total_seconds())

    def _uncertain(self, slice_: Slice, cluster: str, topic: str) -> Iterator[Loss]:
        pair = self._pair(slice_, cluster, topic)
        if pair is None:
            return
        block, start, end = pair
        for number, column in block.columns.items():
            if _is_new(column, start, end):
                yield Loss(topic, number, 0, column.first_start, exact=False)
            elif column.knows(start) and column.floors[start] < column.offsets[start]:
                yield Loss(topic, number, column.floors[start], column.offsets[start], exact=False)

    def _pair(self, slice_: Slice, cluster: str, topic: str) -> tuple[TopicBoundaries, int, int] | None:
        start, end = int(slice_.start.timestamp()), int(slice_.end.timestamp())
        block, closed = self._era(cluster, topic, start)
        rows = _row(block, closed, start), _row(block, closed, end)
        if block is None or rows[0] is None or rows[1] is None:
            return None
        return block, rows[0], rows[1]

    def _era(self, cluster: str, topic: str, start: int) -> tuple[TopicBoundaries | None, bool]:
        """Returns the boundaries that a slice beginning at `start` uses, and whether their topic id is
        gone."""
        eras = self.eras.get((cluster, topic), ())
        for number in reversed(range(len(eras))):
            era = eras[number]
            if era.since is None or era.since <= start:
                return self.blocks.get((cluster, topic, era.uuid)), number < len(eras) - 1
        return None, False


def _joined(mine: Listed, others: Listed) -> Listed:
    joined = {cluster: dict(listed) for cluster, listed in mine.items()}
    for cluster, listed in others.items():
        known = joined.setdefault(cluster, {})
        for patterns, starts in listed.items():
            known[patterns] = known.get(patterns, frozenset()) | starts
    return joined


def _row(block: TopicBoundaries | None, closed: bool, instant: int) -> int | None:
    """A topic id that is gone cannot be asked any more: it stands still where it was last seen."""
    if block is None or not len(block.instants):
        return None
    return block.nearest(instant) if closed else block.row(instant)


def _is_new(column: PartitionColumn, start: int, end: int) -> bool:
    return column.first_start > 0 and not column.knows(start) and column.knows(end)
