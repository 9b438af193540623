"""Counts when within their slice records were stamped, in TWELFTHS equal parts of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sluice.flow.land.task.reports import SeenTimes
from sluice.manifest import TWELFTHS
from sluice.slices import Slice


class RecordTimes:
    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices
        self._starts = np.array([int(slice_.start.timestamp()) * 1000 for slice_ in slices], np.int64)
        self._part = max(int(slices[0].length.total_seconds()) * 1000 // TWELFTHS, 1) if slices else 1
        self._counts = np.zeros(len(slices) * TWELFTHS, np.int64)

    def add(self, slices: np.ndarray, times: np.ndarray) -> None:
        """Adds records: the slice's number and the stamp (ms) of each. A stamp outside its slice, as a record
        has that is not in the order of the stamps, counts at the nearer end."""
        parts = np.clip((times - self._starts[slices]) // self._part, 0, TWELFTHS - 1)
        self._counts += np.bincount(slices * TWELFTHS + parts, minlength=len(self._counts))

    def report(self, cluster: str) -> tuple[SeenTimes, ...]:
        """Returns the slices that have records."""
        rows = self._counts.reshape(-1, TWELFTHS).tolist()
        return tuple(
            SeenTimes(cluster, slice_.id, tuple(counts))
            for slice_, counts in zip(self._slices, rows, strict=True)
            if any(counts)
        )
