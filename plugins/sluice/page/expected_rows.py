"""How many rows each slice is expected to have, from the summaries of earlier weeks. Pure."""

from __future__ import annotations

from datetime import timedelta

from sluice.page.history import ids_of
from sluice.slices import FIRST, SliceRange
from sluice.state.months import Summaries
from sluice.state.unit_state import DONE
from sluice.watch.expected import DAYS_NEEDED, expected

BACK = timedelta(days=DAYS_NEEDED)


def with_history(slices: SliceRange) -> SliceRange:
    """Returns the range with the weeks before it that `expected_rows` reads."""
    return SliceRange.widen(max(slices.start - BACK, FIRST), slices.end, slices.length)


def expected_rows(slices: SliceRange, noted: Summaries) -> list[int | None]:
    """Returns the expected rows of each slice, in all tables; None without an earlier day. Slices that are
    not complete do not count for later ones."""
    history = with_history(slices)
    step, first = int(history.length.total_seconds()), int(history.start.timestamp())
    rows_by_start: dict[int, int] = {}
    for number, name in enumerate(ids_of(history)):
        units = noted.of(name)
        if units and all(unit.state in DONE for unit in units.values()):
            rows_by_start[first + number * step] = sum(unit.rows for unit in units.values())
    starts = range(int(slices.start.timestamp()), int(slices.end.timestamp()), step)
    usual = (expected(at, rows_by_start) for at in starts)
    return [None if expectation is None else round(expectation.count) for expectation in usual]
