"""Look-ups of many instants in many partitions: pure bookkeeping over batches of questions.

Kafka answers an instant with the first record stamped at or after it, and that record's timestamp s. So
the same record answers every instant up to s, and after a "none" every later instant has none too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

NONE = -1

Question = Mapping[int, int]
"""Partition to timestamp in milliseconds."""
Reply = Mapping[int, tuple[int, int]]
"""Partition to (offset, timestamp) of the record found; the offset is NONE when there is none."""


@dataclass
class PartitionLookUp:
    """Answers row by row of the instants; `offsets[row]` is NONE where no record is that late."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    timestamps: array[int] = field(default_factory=lambda: array("q"))

    def take(self, row: int, answer: tuple[int, int], instants: Sequence[int]) -> None:
        """Fills `row` and every later instant that the same record answers."""
        offset, timestamp = answer
        last = len(instants) if offset == NONE else max(bisect_right(instants, timestamp), row + 1)
        count = last - len(self.offsets)
        self.offsets.extend([offset] * count)
        self.timestamps.extend([timestamp] * count)


def look_up(
    partitions: Sequence[int],
    instants: Sequence[int],
    ask: Callable[[Sequence[Question]], Sequence[Reply]],
    width: int,
) -> dict[int, PartitionLookUp]:
    """Every instant (milliseconds, ascending) in every partition, `width` questions at a time."""
    found = {partition: PartitionLookUp() for partition in partitions}
    while True:
        first = {p: len(done.offsets) for p, done in found.items() if len(done.offsets) < len(instants)}
        if not first:
            return found
        questions = [
            {p: instants[row + step] for p, row in first.items() if row + step < len(instants)}
            for step in range(width)
        ]
        for step, reply in enumerate(ask([question for question in questions if question])):
            for partition, answer in reply.items():
                if len(found[partition].offsets) == first[partition] + step:
                    found[partition].take(first[partition] + step, answer, instants)
