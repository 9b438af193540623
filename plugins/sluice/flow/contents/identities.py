"""Which records a unit's files hold: each once, and each either landed or rejected. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sluice.flow.contents.read_rows import FileColumns
from sluice.manifest import Manifest, TopicPartitionKey

WHOLE = 1 << 62
"""Stands for a record that was rejected as a whole: no number of a row, which is an Int32."""


@dataclass(frozen=True)
class Fault:
    """What does not add up, in one partition or (without a place) in all of the unit."""

    expected: str
    seen: str
    place: TopicPartitionKey | None = None
    offset: int | None = None


@dataclass(frozen=True)
class PartitionRows:
    """The rows of a partition, sorted by offset and number. `first`: of its record; `again`: as the one
    before."""

    offsets: np.ndarray
    numbers: np.ndarray
    first: np.ndarray
    again: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> PartitionRows:
        offsets, numbers = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.lexsort((numbers, offsets))
        offsets, numbers = offsets[order], numbers[order]
        first = np.ones(len(offsets), bool)
        first[1:] = offsets[1:] != offsets[:-1]
        again = ~first
        again[1:] &= numbers[1:] == numbers[:-1]
        return cls(offsets, numbers, first, again)


@dataclass
class IdentityCounter:
    """Takes all rows of a unit, nine bytes for each, and 16 where messages are arrays; `reasons` of its
    rejected rows and records."""

    manifest: Manifest
    landed: Counter[TopicPartitionKey] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._parts: defaultdict[TopicPartitionKey, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)

    def take(self, rows: FileColumns) -> None:
        self.reasons.update(rows.reasons or ())
        positions_by_place: defaultdict[TopicPartitionKey, list[int]] = defaultdict(list)
        for position, place in enumerate(zip(rows.topics, rows.partitions, strict=True)):
            positions_by_place[place].append(position)
        offsets, numbers = np.array(rows.offsets, np.int64), self._numbers(rows)
        for place, positions in positions_by_place.items():
            self._parts[place].append((offsets[positions], numbers[positions]))
            if rows.reasons is None:
                self.landed[place] += len(positions)

    def _numbers(self, rows: FileColumns) -> np.ndarray:
        missing = WHOLE if rows.reasons is not None and self.manifest.rows is not None else 0
        given = rows.numbers or [None] * len(rows)
        numbers = np.array([missing if number is None else number for number in given], np.int64)
        return numbers if numbers.any() else numbers.astype(np.int8)

    def faults(self) -> Iterator[Fault]:
        """Yields what does not add up, once the last row of the unit was taken."""
        records = 0
        for place, parts in sorted(self._parts.items()):
            rows = PartitionRows.of(parts)
            yield from _twice(place, rows)
            yield from _gaps(place, rows, self._erased_rows(place))
            records += int(rows.first.sum())
        gone = sum(self.manifest.forgotten_by_reason().values())
        expected_records = self.manifest.read - self.manifest.empty - self.manifest.erased - gone
        if records != expected_records:
            yield Fault(f"{expected_records:,} records in its files", f"{records:,}")
        for reason in sorted({*self.reasons, *self.manifest.kept_by_reason()}):
            expected, seen = self.manifest.kept_by_reason().get(reason, 0), self.reasons[reason]
            if expected != seen:
                yield Fault(f"{expected:,} rejected as {reason!r}", f"{seen:,}")
        yield from self._partitions()

    def _erased_rows(self, place: TopicPartitionKey) -> int:
        """Returns how many rows of records may be missing: others keep their numbers."""
        counts = [c.rows_erased for c in self.manifest.counts if (c.topic, c.partition) == place]
        return counts[0] if counts else self.manifest.rows_erased

    def _partitions(self) -> Iterator[Fault]:
        """Older manifests do not count by partition."""
        for count in self.manifest.counts:
            rows = count.read - count.unparsed - count.erased if count.rows is None else count.rows
            expected, place = rows - count.rows_unparsed, (count.topic, count.partition)
            if expected != self.landed[place]:
                yield Fault(f"{expected:,} rows landed", f"{self.landed[place]:,}", place)


def _twice(place: TopicPartitionKey, rows: PartitionRows) -> Iterator[Fault]:
    repeated = np.flatnonzero(rows.again)
    if len(repeated):
        yield Fault("each record once", f"{len(repeated):,} more", place, int(rows.offsets[repeated[0]]))


def _gaps(place: TopicPartitionKey, rows: PartitionRows, erased: int) -> Iterator[Fault]:
    """The rows of a record are numbered from 0 on, and `erased` ones leave gaps; one that was rejected as a
    whole has no number."""
    before = np.concatenate(([-1], rows.numbers[:-1]))
    before[rows.first] = -1
    missing = np.where(rows.again, 0, rows.numbers - before - 1)
    missing[rows.first & (rows.numbers == WHOLE)] = 0
    wrong = np.flatnonzero(missing)
    if (missing < 0).any() or missing.sum(dtype=float) > erased:
        offset = int(rows.offsets[wrong[0]])
        yield Fault("rows numbered from 0 on", f"{len(wrong):,} that follow on none", place, offset)
