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
    """Returns the range and what is before it that `expected_rows` goes by."""
    return SliceRange.widen(max(slices.start - BACK, FIRST), slices.end, slices.length)


def expected_rows(slices: SliceRange, noted: Summaries) -> list[int | None]:
    """Returns rows in all tables of each slice, None without an earlier day. A slice that is not complete
    says nothing of later ones."""
    whole = with_history(slices)
    step, first = int(whole.length.total_seconds()), int(whole.start.timestamp())
    known: dict[int, int] = {}
    for number, name in enumerate(ids_of(whole)):
        units = noted.of(name)
        if units and all(unit.state in DONE for unit in units.values()):
            known[first + number * step] = sum(unit.rows for unit in units.values())
    starts = range(int(slices.start.timestamp()), int(slices.end.timestamp()), step)
    found = (expected(at, known) for at in starts)
    return [None if one is None else round(one.count) for one in found]
