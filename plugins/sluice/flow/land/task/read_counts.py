"""Counts what a task saw of each partition and slice, and which offsets Spark did not bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sluice.clients.kafka.fetch import Hole
from sluice.flow.land.task.reports import Gap, SeenOffsets
from sluice.slices import Slice

MOST_GAPS = 1000

Explain = Callable[[str, int, list[Hole]], list[Hole]]
"""From a topic, a partition and offsets that were not brought to those of them that nothing explains."""


@dataclass
class _Count:
    first: int
    last: int
    records: int = 0
    gaps: list[np.ndarray] = field(default_factory=list)
    unparsed: Counter[str] = field(default_factory=Counter)
    rows: int | None = None
    rows_unparsed: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    long_numbers: bool = False
    erased: int = 0
    rows_erased: int = 0

    def add(self, offsets: np.ndarray) -> None:
        """Adds ascending offsets, all above those before."""
        ends = np.concatenate(([self.last], offsets))
        jumps = np.flatnonzero(np.diff(ends) > 1)
        if len(jumps):
            self.gaps.append(np.column_stack((ends[jumps] + 1, ends[jumps + 1])))
        self.records += len(offsets)
        self.last = int(offsets[-1])

    def holes(self) -> list[Hole]:
        return [(start, until) for part in self.gaps for start, until in part.tolist()]


class SeenRecords:
    """`arrays`: a record may hold any number of rows, so that these are counted beside it."""

    def __init__(self, arrays: bool = False) -> None:
        self._counts: dict[tuple[int, str, int], _Count] = {}
        self._rows = 0 if arrays else None

    def add(self, topic: str, partition: int, slices: np.ndarray, offsets: np.ndarray) -> None:
        """Adds records in the order of their offsets, and the slice's number of each."""
        for start, until in pairwise(runs_of(slices)):
            first = int(offsets[start])
            key = (int(slices[start]), topic, partition)
            count = self._counts.setdefault(key, _Count(first, first - 1, rows=self._rows))
            count.add(offsets[start:until])

    def refuse(self, topic: str, partition: int, slices: np.ndarray, refused: Mapping[int, str]) -> None:
        """Counts records that gave no row: the reason by position, and the slices of the records there."""
        for position, reason in refused.items():
            self._counts[int(slices[position]), topic, partition].unparsed[reason] += 1

    def rows(
        self,
        topic: str,
        partition: int,
        slices: np.ndarray,
        refused: Mapping[int, str],
        empty: Iterable[int],
    ) -> None:
        """Counts rows out of records that were arrays: the slice of each, the reasons of those that do not
        land by position, and the slices of records without a row."""
        numbers, counts = np.unique(slices, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._counts[number, topic, partition].rows += count
        for position, reason in refused.items():
            self._counts[int(slices[position]), topic, partition].rows_unparsed[reason] += 1
        for number in empty:
            self._counts[int(number), topic, partition].empty += 1

    def erase(self, topic: str, partition: int, records: np.ndarray, rows: np.ndarray) -> None:
        """Counts erased records, and erased rows of records that were arrays: the slice's number of each."""
        for number, count in zip(
            *(part.tolist() for part in np.unique(records, return_counts=True)), strict=True
        ):
            self._counts[number, topic, partition].erased += count
        for number, count in zip(
            *(part.tolist() for part in np.unique(rows, return_counts=True)), strict=True
        ):
            self._counts[number, topic, partition].rows_erased += count

    def long_number(self, slice_number: int, topic: str, partition: int) -> None:
        """Notes that a row of the slice may hold one."""
        self._counts[slice_number, topic, partition].long_numbers = True

    def report(
        self, cluster: str, slices: Sequence[Slice], explain: Explain | None = None
    ) -> tuple[SeenOffsets, ...]:
        """Returns what was seen. Offsets that `explain` explains are `hidden`, and no gaps."""
        return tuple(
            _seen(cluster, slices[number].id, topic, partition, count, explain)
            for (number, topic, partition), count in self._counts.items()
        )


def _seen(
    cluster: str, slice_id: str, topic: str, partition: int, c: _Count, explain: Explain | None
) -> SeenOffsets:
    holes = c.holes()
    left = explain(topic, partition, holes) if explain and holes else holes
    gaps = [Gap(*hole) for hole in left]
    hidden = sum(until - start for start, until in holes) - sum(gap.missing for gap in gaps)
    return SeenOffsets(
        cluster,
        slice_id,
        topic,
        partition,
        c.first,
        c.last,
        c.records,
        tuple(gaps) if len(gaps) <= MOST_GAPS else (join(gaps),),
        dict(c.unparsed),
        c.rows,
        dict(c.rows_unparsed),
        c.empty,
        c.long_numbers,
        hidden,
        c.erased,
        c.rows_erased,
    )


def runs_of(numbers: np.ndarray) -> list[int]:
    """Returns where runs of equal numbers begin, and the end of the last one."""
    return [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]


def join(gaps: Sequence[Gap]) -> Gap:
    """Returns one gap over all of `gaps`, which are in order: thousands of them need not travel one by
    one."""
    return Gap(gaps[0].start, gaps[-1].until, sum(gap.missing for gap in gaps))
