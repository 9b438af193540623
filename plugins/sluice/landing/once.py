"""Tells records that were shipped twice: `sluice publish` names a batch and a line in a header.

Within one read of one slice the first of each line lands, and later ones go to `_rejected/`. A line without a
key goes to the same partition each time, and a publish that was killed goes on with its last seconds: so
second copies are in the same read, or at the edge of two.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sluice.landing.headers import from_json, last_values
from sluice.landing.reasons import SHIPPED_TWICE
from sluice.pipeline import Event


@dataclass
class Lines:
    """A set of numbers as ranges `[start, end]`, ascending: lines come in runs."""

    _starts: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    def add(self, line: int) -> bool:
        """False when it is there already."""
        at = bisect_right(self._starts, line) - 1
        if at >= 0 and line <= self._ends[at]:
            return False
        if at >= 0 and line == self._ends[at] + 1:
            self._ends[at] = line
            self._join(at)
        else:
            self._starts.insert(at + 1, line)
            self._ends.insert(at + 1, line)
            self._join(at + 1)
        return True

    def _join(self, at: int) -> None:
        if at + 1 < len(self._starts) and self._starts[at + 1] == self._ends[at] + 1:
            self._ends[at] = self._ends.pop(at + 1)
            del self._starts[at + 1]


class Once:
    """One per task. Without `batch` in the pipeline's `event` it refuses nothing."""

    def __init__(self, event: Event) -> None:
        self._header = None if event.batch is None else event.batch.header
        self._seen: dict[tuple[int, bytes], Lines] = {}

    def refused(self, headers: pa.StringArray, slices: np.ndarray) -> dict[int, str]:
        """The positions of records whose batch and line came before, in the slice that each is of.

        `headers` are as Spark hands them over.
        """
        if self._header is None or headers.null_count == len(headers):
            return {}
        names = last_values(from_json(headers), self._header).to_pylist()
        return {
            position: SHIPPED_TWICE
            for position, (name, number) in enumerate(zip(names, slices.tolist(), strict=True))
            if name is not None and not self._first(name, number)
        }

    def _first(self, name: bytes, number: int) -> bool:
        batch, _, line = name.rpartition(b":")
        if not batch or not line.isdigit():
            return True  # another program's header: nothing is known of it
        return self._seen.setdefault((number, batch), Lines()).add(int(line))
