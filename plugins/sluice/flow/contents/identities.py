"""Which records a unit's files hold: each once, and each either landed or rejected. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sluice.flow.contents.read_rows import FileColumns
from sluice.manifest import Manifest, TopicPartitionKey

_ROW_BITS = 28  # a message holds fewer rows
WHOLE = (1 << _ROW_BITS) - 1  # stands for a record that was rejected as a whole


@dataclass(frozen=True)
class Fault:
    """What does not add up, in one partition or (without a place) in all of the unit."""

    expected: str
    seen: str
    place: TopicPartitionKey | None = None
    offset: int | None = None


@dataclass
class IdentityCounter:
    """Takes all rows of a unit, eight bytes for each; `reasons` of its rejected rows and records."""

    manifest: Manifest
    landed: Counter[TopicPartitionKey] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._keys: defaultdict[TopicPartitionKey, list[np.ndarray]] = defaultdict(list)

    def take(self, rows: FileColumns) -> None:
        numbers = rows.numbers or [0] * len(rows)
        if rows.reasons is not None:
            self.reasons.update(rows.reasons)
            rejected_whole = WHOLE if self.manifest.rows is not None else 0
            numbers = [
                rejected_whole if number is None else number
                for number in (rows.numbers or [None] * len(rows))
            ]
        keys_by_place: defaultdict[TopicPartitionKey, list[int]] = defaultdict(list)
        for place, offset, number in zip(
            zip(rows.topics, rows.partitions, strict=True), rows.offsets, numbers, strict=True
        ):
            keys_by_place[place].append((offset << _ROW_BITS) | (number or 0))
        for place, keys in keys_by_place.items():
            self._keys[place].append(np.array(keys, np.int64))
            if rows.reasons is None:
                self.landed[place] += len(keys)

    def faults(self) -> Iterator[Fault]:
        """Yields what does not add up, once the last row of the unit was taken."""
        records = 0
        for place, parts in sorted(self._keys.items()):
            keys = np.sort(np.concatenate(parts))
            yield from _twice(place, keys)
            yield from _gaps(place, keys)
            records += len(np.unique(keys >> _ROW_BITS))
        gone = sum(self.manifest.forgotten_by_reason().values())
        expected_records = self.manifest.read - self.manifest.empty - self.manifest.erased - gone
        if records != expected_records:
            yield Fault(f"{expected_records:,} records in its files", f"{records:,}")
        for reason in sorted({*self.reasons, *self.manifest.kept_by_reason()}):
            expected, seen = self.manifest.kept_by_reason().get(reason, 0), self.reasons[reason]
            if expected != seen:
                yield Fault(f"{expected:,} rejected as {reason!r}", f"{seen:,}")
        yield from self._partitions()

    def _partitions(self) -> Iterator[Fault]:
        """Older manifests do not count by partition."""
        for count in self.manifest.counts:
            rows = count.read - count.unparsed - count.erased if count.rows is None else count.rows
            expected, place = rows - count.rows_unparsed, (count.topic, count.partition)
            if expected != self.landed[place]:
                yield Fault(f"{expected:,} rows landed", f"{self.landed[place]:,}", place)


def _twice(place: TopicPartitionKey, keys: np.ndarray) -> Iterator[Fault]:
    repeated = keys[1:][np.diff(keys) == 0]
    if len(repeated):
        offset = int(repeated[0] >> _ROW_BITS)
        yield Fault("each record once", f"{len(repeated):,} more", place, offset)


def _gaps(place: TopicPartitionKey, keys: np.ndarray) -> Iterator[Fault]:
    """The rows of a record are numbered from 0 on; one that was rejected as a whole has none."""
    offsets, numbers = keys >> _ROW_BITS, keys & WHOLE
    first = np.ones(len(keys), bool)
    first[1:] = np.diff(offsets) != 0
    follows = np.zeros(len(keys), np.int64)
    follows[1:] = numbers[:-1] + 1
    right = np.where(
        first,
        (numbers == 0) | (numbers == WHOLE),
        (numbers == follows) | (np.diff(keys, prepend=keys[:1] - 1) == 0),
    )
    wrong = np.flatnonzero(~right)
    if len(wrong):
        offset = int(offsets[wrong[0]])
        yield Fault("rows numbered from 0 on", f"{len(wrong):,} that follow on none", place, offset)
