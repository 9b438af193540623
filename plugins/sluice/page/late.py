"""Events that came late: by the slice that brought them and their own hour, and by their delay. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from sluice.page.pipeline_models import LateCell, LateDelay, LateTable
from sluice.slices import HOUR, floor
from sluice.state.status import UnitStatus

DELAYS = (0, 1, 2, 3, 6, 12, 24, 48, 168, 744)
"""Edges of the histogram, in whole hours between the event's hour and the slice that brought it; the first
bin is of events that came in their own hour, the last has no end."""

_HOUR_SECONDS = int(HOUR.total_seconds())


def late_table(statuses: Iterable[UnitStatus], most: int = 48) -> LateTable:
    """Returns the rows whose own hour is before the slice that brought them, by both, for the newest `most`
    event hours: all before them are one, `older`. The histogram counts every row of the landed hours."""
    rows: Counter[tuple[str, str]] = Counter()
    delays: Counter[int] = Counter()
    arrivals: dict[str, None] = {}
    for status in statuses:
        slice_id, arrival = status.unit.slice.id, floor(status.unit.slice.start, HOUR)
        arrivals[slice_id] = None
        for file in status.manifest.files if status.manifest else ():
            delays[_bin(_hours_late(file.hour, arrival))] += file.rows
            if file.hour < f"{arrival:%Y-%m-%dT%H}":
                rows[slice_id, file.hour] += file.rows
    return _table(arrivals, rows, delays, most)


def _table(
    arrivals: Iterable[str], rows: Counter[tuple[str, str]], delays: Counter[int], most: int
) -> LateTable:
    events = sorted({event for _, event in rows})
    older, events = set(events[:-most]), events[-most:]
    cells: Counter[tuple[str, str]] = Counter()
    for (arrival, event), count in rows.items():
        cells[arrival, "older" if event in older else event] += count
    brought = {arrival for arrival, _ in cells}
    return LateTable(
        arrivals=[arrival for arrival in arrivals if arrival in brought],
        events=(["older"] if older else []) + events,
        cells=[LateCell(arrival=a, event=e, rows=n) for (a, e), n in sorted(cells.items())],
        most=max(cells.values(), default=0),
        delays=_histogram(delays),
    )


def _hours_late(hour: str, arrival: datetime) -> int:
    """`hour` is an event hour as a file has it, `2026-11-20T10`. An event before its time is not late."""
    event = datetime.fromisoformat(f"{hour}:00+00:00")  # pendulum would take ten times as long
    return max(int(arrival.timestamp() - event.timestamp()) // _HOUR_SECONDS, 0)


def _bin(hours: int) -> int:
    return max(edge for edge in DELAYS if edge <= hours)


def _histogram(delays: Counter[int]) -> list[LateDelay]:
    """Returns no bins where nothing has landed."""
    ends = (*DELAYS[1:], None)
    return (
        [
            LateDelay(hours=first, until=end, rows=delays[first])
            for first, end in zip(DELAYS, ends, strict=True)
        ]
        if delays
        else []
    )
