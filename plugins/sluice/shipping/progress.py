"""The line that says how far a shipment is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_SECONDS = 2.0


@dataclass
class Progress:
    """Says a line every two seconds, with the rates since the last one; nothing where nothing happens."""

    place: str
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _then: tuple[float, int, int, int] = field(default=(0.0, 0, 0, 0), init=False)

    def __post_init__(self) -> None:
        self._then = (self.clock(), 0, 0, 0)

    def look(self, events: int, size: int, unacknowledged: int) -> None:
        """`size` in bytes; the first three are those since the start."""
        then, events_then, size_then, waiting_then = self._then
        seconds = self.clock() - then
        if seconds < _SECONDS or (events, unacknowledged) == (events_then, waiting_then) == (events, 0):
            return
        self._then = (then + seconds, events, size, unacknowledged)
        rate, speed = (events - events_then) / seconds, (size - size_then) / seconds / 1e6
        self.say(
            f"published {events:,} rows, {size / 1e6:,.1f} MB, to {self.place}: {rate:,.0f} rows/s, "
            f"{speed:,.1f} MB/s, {unacknowledged:,} unacknowledged"
        )
