"""Counts what a task saw of each partition and slice, and which offsets Spark did not bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sluice.landing.reports import Gap, Seen
from sluice.slices import Slice

MOST_GAPS = 1000


@dataclass
class _Count:
    first: int
    last: int
    records: int = 0
    gaps: list[Gap] = field(default_factory=list)
    unparsed: Counter[str] = field(default_factory=Counter)

    def add(self, offsets: np.ndarray) -> None:
        """Ascending offsets, all above those before."""
        ends = np.concatenate(([self.last], offsets))
        jumps = np.flatnonzero(np.diff(ends) > 1)
        self.gaps += (Gap(int(ends[i]) + 1, int(ends[i + 1])) for i in jumps)
        if len(self.gaps) > MOST_GAPS:
            self.gaps = [join(self.gaps)]
        self.records += len(offsets)
        self.last = int(offsets[-1])


class SeenRecords:
    def __init__(self) -> None:
        self._counts: dict[tuple[int, str, int], _Count] = {}

    def add(
        self, topic: str, partition: int, slices: np.ndarray, offsets: np.ndarray, refused: Mapping[int, str]
    ) -> None:
        """Records in the order of their offsets: the slice's number of each, and the reasons by position."""
        edges = [0, *(np.flatnonzero(np.diff(slices)) + 1).tolist(), len(slices)]
        for start, until in pairwise(edges):
            first = int(offsets[start])
            key = (int(slices[start]), topic, partition)
            self._counts.setdefault(key, _Count(first, first - 1)).add(offsets[start:until])
        for position, reason in refused.items():
            self._counts[int(slices[position]), topic, partition].unparsed[reason] += 1

    def report(self, cluster: str, slices: Sequence[Slice]) -> tuple[Seen, ...]:
        return tuple(
            Seen(
                cluster,
                slices[number].id,
                topic,
                partition,
                c.first,
                c.last,
                c.records,
                tuple(c.gaps),
                dict(c.unparsed),
            )
            for (number, topic, partition), c in self._counts.items()
        )


def join(gaps: Sequence[Gap]) -> Gap:
    """One gap over all of `gaps`, which are in order: thousands of them need not travel one by one."""
    return Gap(gaps[0].start, gaps[-1].until, sum(gap.missing for gap in gaps))
