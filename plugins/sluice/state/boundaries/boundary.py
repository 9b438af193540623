"""Where in each partition of a topic its slices are cut: at one instant, and at all of them as columns.

A year of hours in 64 partitions is a few arrays."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pendulum


class FoundBy(StrEnum):
    """How a partition's offset was found."""

    RECORD = "record"
    """The first record stamped at or after the instant, as Kafka's offsets-for-times gives it."""
    END = "end"
    """No record was that late: the end of the log (the last stable offset under read_committed)."""
    LOG_START = "log_start"
    """The look-up gave the log start, and older records had expired: the true offset lies below."""
    SCAN = "scan"
    """The look-up gave a record stamped in the future: found by reading on from there."""
    CLAMPED = "clamped"
    """The answer contradicted a neighbour that was stored before, whose offset it took over."""
    NEW = "new"
    """The partition was not there when the instant was resolved: it counts as its log start."""
    GROUP = "group"
    """What a consumer group had committed: the first boundary of what Sluice has taken over from it."""


CODES = tuple(FoundBy)
CODE = {found_by: code for code, found_by in enumerate(CODES)}


@dataclass(frozen=True)
class PartitionBoundary:
    """`log_start` is the partition's when the boundary was stored.

    `floor` equals `offset` unless records had expired before: then the true boundary was anywhere in
    `[floor, offset]`.
    """

    offset: int
    found_by: FoundBy
    log_start: int
    floor: int


@dataclass(frozen=True)
class Boundary:
    cluster: str
    topic: str
    uuid: str
    instant: pendulum.DateTime
    partitions: Mapping[int, PartitionBoundary]


UNKNOWN = -1


@dataclass(frozen=True)
class PartitionColumn:
    """One partition's boundaries; row i belongs to instant i of the topic.

    `offsets` is UNKNOWN where the stored boundary does not have the partition. `codes` say by `CODES` how
    each offset was found. `first_start` is the log start when the partition was first seen: what UNKNOWN
    counts as.
    """

    first_start: int
    offsets: array[int]
    floors: array[int]
    log_starts: array[int]
    codes: array[int]

    @classmethod
    def unknown(cls, first_start: int, rows: int) -> PartitionColumn:
        starts = array("q", [first_start]) * rows
        codes = array("b", [CODE[FoundBy.NEW]]) * rows
        return cls(first_start, array("q", [UNKNOWN]) * rows, starts, starts, codes)

    def __getitem__(self, row: int) -> PartitionBoundary:
        offset = self.offset(row)
        return PartitionBoundary(offset, CODES[self.codes[row]], self.log_starts[row], self.floors[row])

    def offset(self, row: int) -> int:
        stored = self.offsets[row]
        return self.first_start if stored == UNKNOWN else stored

    def knows(self, row: int) -> bool:
        return self.offsets[row] != UNKNOWN

    def joined(self, other: PartitionColumn, order: Sequence[int] | None) -> PartitionColumn:
        """Returns the rows of both, in `order` (indexes into mine followed by the other's; None: as they
        are)."""

        def join(mine: array[int], others: array[int]) -> array[int]:
            both = mine + others
            return both if order is None else array(both.typecode, [both[row] for row in order])

        return PartitionColumn(
            self.first_start,
            join(self.offsets, other.offsets),
            join(self.floors, other.floors),
            join(self.log_starts, other.log_starts),
            join(self.codes, other.codes),
        )


@dataclass(frozen=True)
class TopicBoundaries:
    """All boundaries of one topic id; `instants` are seconds since the epoch, ascending."""

    cluster: str
    topic: str
    uuid: str
    instants: array[int]
    columns: Mapping[int, PartitionColumn]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.cluster, self.topic, self.uuid

    def row(self, instant: int) -> int | None:
        """Returns the row of `instant`, or None when it is not stored."""
        row = bisect_left(self.instants, instant)
        return row if row < len(self.instants) and self.instants[row] == instant else None

    def nearest(self, instant: int) -> int:
        """Returns the row of the last stored instant at or before `instant`, else the first."""
        return max(bisect_right(self.instants, instant) - 1, 0)

    def largest_before(self, partition: int, instant: int) -> int:
        """Returns the largest stored offset at an earlier instant, or 0."""
        row = bisect_left(self.instants, instant) - 1
        column = self.columns.get(partition)
        return 0 if row < 0 or column is None else column.offset(row)

    def merged(self, other: TopicBoundaries) -> TopicBoundaries:
        """Merges mine and the other's, which holds none of my instants and was stored after mine."""
        rows, added = len(self.instants), len(other.instants)
        instants = self.instants + other.instants
        in_order = not rows or not added or self.instants[-1] < other.instants[0]
        order = None if in_order else sorted(range(rows + added), key=instants.__getitem__)
        if order is not None:
            instants = array("q", [instants[row] for row in order])
        starts = {p: column.first_start for part in (other, self) for p, column in part.columns.items()}
        columns = {
            partition: self._column(partition, first).joined(other._column(partition, first), order)
            for partition, first in sorted(starts.items())
        }
        return TopicBoundaries(self.cluster, self.topic, self.uuid, instants, columns)

    def _column(self, partition: int, first_start: int) -> PartitionColumn:
        return self.columns.get(partition) or PartitionColumn.unknown(first_start, len(self.instants))
