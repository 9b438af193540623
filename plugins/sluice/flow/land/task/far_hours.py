"""Bounds the event hours of a slice that are far from it: each is a file for each type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np

from sluice.flow.land import reject_reasons
from sluice.flow.land.task.parse import ParsedRecords
from sluice.flow.land.task.times import HOUR_MS, event_bounds
from sluice.slices import Slice

NEAR = timedelta(days=31)
MOST = 1_000


class FarHours:
    """Admits, in one task, all event hours that are near their slice, and the first MOST others of each.

    On a side where `max_early` or `max_late` is set, that setting is the bound, and no hour is far.
    """

    def __init__(
        self, slices: Sequence[Slice], max_early: timedelta | None, max_late: timedelta | None
    ) -> None:
        early, late = (NEAR if limit is None else None for limit in (max_early, max_late))
        self._first, self._last = event_bounds(slices, early, late)
        self._admitted: dict[int, set[int]] = {}

    def bounded(self, parsed: ParsedRecords, slices: np.ndarray) -> ParsedRecords:
        """Refuses rows of too many far hours. `slices` are those of all records that were parsed."""
        row_slices = slices[parsed.rows]
        far = (parsed.times < self._first[row_slices]) | (parsed.times > self._last[row_slices])
        if not far.any():
            return parsed
        hours = parsed.times // HOUR_MS
        good = ~far
        for row in np.flatnonzero(far).tolist():
            good[row] = self._admits(int(row_slices[row]), int(hours[row]))
        if good.all():
            return parsed
        refused = dict.fromkeys(parsed.rows[~good].tolist(), reject_reasons.TOO_MANY_HOURS)
        return replace(
            parsed,
            rows=parsed.rows[good],
            types=parsed.types[good],
            times=parsed.times[good],
            refused={**parsed.refused, **refused},
        )

    def _admits(self, slice_number: int, hour: int) -> bool:
        admitted = self._admitted.setdefault(slice_number, set())
        if hour not in admitted and len(admitted) < MOST:
            admitted.add(hour)
        return hour in admitted
