"""Which offsets Kafka leaves without a record on purpose: what compaction removed, and what transactions
leave behind (markers, aborted records). Any other missing offset is a lost record.

Batches' headers say it; their records are not read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from kafka import TopicPartition

from sluice.clients.kafka.fetch import FETCH_BYTES, FetchAdmin, Fetched
from sluice.clients.kafka.record_batch import StoredBatch

Hole = tuple[int, int]
"""Offsets `[from, until)` without a record."""

_JUMP_BYTES = 64 << 10
# As many such fetches as one of FETCH_BYTES takes as long.
_WORTH = 16


def not_hidden(fetch: Callable[[int, int], Fetched], holes: Sequence[Hole]) -> list[Hole]:
    """Returns what of the holes, which are in order, is neither a marker nor, with `read_committed`, aborted.

    `fetch` gives the batches from an offset on, of some bytes. Between holes that lie far apart it jumps.
    """
    left: list[Hole] = []
    number, most = 0, _JUMP_BYTES
    while number < len(holes):
        at = holes[number][0]
        fetched = fetch(at, most)
        if not fetched.batches:  # the end of what can be read
            return joined([*left, *holes[number:]])
        reach = fetched.batches[-1].until
        hidden = [(batch.start, batch.until) for batch in fetched.hidden_batches]
        while number < len(holes) and holes[number][1] <= reach:
            left += without(holes[number], hidden)
            number += 1
        if number < len(holes) and holes[number][0] < reach:
            start, until = holes[number]
            left += without((start, reach), hidden)
            holes = [*holes[:number], (reach, until), *holes[number + 1 :]]
        near = number < len(holes) and holes[number][0] - reach < _WORTH * (reach - at)
        most = FETCH_BYTES if near else _JUMP_BYTES
    return joined(left)


def without(hole: Hole, hidden: Sequence[Hole]) -> Iterator[Hole]:
    """Yields the hole less the `hidden` offsets, which are in order."""
    at, until = hole
    for start, end in hidden[bisect_right(hidden, at, key=itemgetter(1)) :]:
        if start >= until:
            break
        if at < start:
            yield at, start
        at = max(at, end)
    if at < until:
        yield at, until


def joined(holes: Iterable[Hole]) -> list[Hole]:
    """Merges holes that follow each other without a gap."""
    merged: list[Hole] = []
    for start, until in holes:
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, until))
    return merged


class BatchAdmin(FetchAdmin):
    """Also reads batches as they are stored: no consumer shows markers, or that a record was aborted."""

    def left(self, place: TopicPartition, holes: Sequence[Hole], isolation: str) -> list[Hole]:
        """Returns what of the holes, which are in order, neither markers nor aborted records explain."""
        return not_hidden(lambda offset, most: self.fetch(place, offset, isolation, most), holes)

    def unhidden(self, place: TopicPartition, holes: Iterable[Hole]) -> Hole | None:
        """Returns the first of the holes, which are in order, that nothing explains; None when all are
        explained.

        Only the right to read is needed, unless a hole is not in transactions' batches.
        """
        bare = self._outside_transactions(place, holes)
        return None if bare is None or self.compacted(place.topic) else bare

    def _outside_transactions(self, place: TopicPartition, holes: Iterable[Hole]) -> Hole | None:
        """Returns the first hole of which an offset is neither in a transaction's batch nor in a control
        batch."""
        stored: deque[StoredBatch] = deque()
        for hole in holes:
            offset, until = hole
            while offset < until:
                while stored and stored[0].until <= offset:
                    stored.popleft()
                if not stored:
                    stored.extend(self.fetch(place, offset, "read_uncommitted").batches)
                if not stored or stored[0].start > offset or not _of_transaction(stored[0]):
                    return hole
                offset = stored[0].until
        return None


def _of_transaction(batch: StoredBatch) -> bool:
    return batch.transactional or batch.control
