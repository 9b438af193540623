"""How Spark divides a slice: the plan is data, and can be printed before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sluice.manifest import OffsetRange


@dataclass(frozen=True, order=True)
class Read:
    """One Spark input partition: offsets `[start, until)`, at most `rows_per_read` of them."""

    cluster: str
    topic: str
    partition: int
    start: int
    until: int

    @property
    def offsets(self) -> int:
        return self.until - self.start


def read_count(ranges: Iterable[OffsetRange], rows_per_read: int) -> int:
    """Returns into how many reads the largest partition of the slice is divided; 0 for a slice without
    offsets."""
    return max((_pieces(r, rows_per_read) for r in ranges), default=0)


def reads(ranges: Iterable[OffsetRange], cluster: str, rows_per_read: int) -> tuple[Read, ...]:
    """Returns every range in pieces of at most `rows_per_read` offsets, as even as Spark makes them.

    The division is Spark's own under `maxRecordsPerPartition` (KafkaOffsetRangeCalculator): what remains
    is divided by the pieces that remain, rounded down.
    """
    return tuple(
        Read(cluster, r.topic, r.partition, start, until)
        for r in ranges
        for start, until in _divide(r.start, r.until, _pieces(r, rows_per_read))
    )


def _pieces(r: OffsetRange, rows_per_read: int) -> int:
    return -(-r.offsets // rows_per_read)


def _divide(start: int, until: int, pieces: int) -> Iterator[tuple[int, int]]:
    for left in range(pieces, 0, -1):
        size = (until - start) // left
        yield start, start + size
        start += size
