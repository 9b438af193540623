"""What a shipment has come to: exactly what Kafka has acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sluice.config.event import Event
from sluice.safe_text import Say
from sluice.ship.in_flight import Acknowledged


class ShipmentEnd(StrEnum):
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class BatchState(StrEnum):
    SHIPPED = "shipped"
    BEFORE = "shipped before"
    BEGUN = "begun"  # the rest is still to be shipped


@dataclass(frozen=True)
class BatchReport:
    """One source. Lines up to `line` are acknowledged, those up to `resumed_after` to an earlier publish."""

    source: str
    batch: str | None
    state: BatchState
    line: int
    resumed_after: int = 0


@dataclass(frozen=True)
class ShipReport:
    """`no_time`: events whose time is missing or not understood; `time_refused`: those whose time the broker
    would refuse (more than an hour ahead, by default). Both got the time of the line before them, or at the
    start of a source that of its first line with a time; `stamped_now` of them that of now, because no such
    line was there. `no_key`: events without the field that is the key. `gaps`: places where a log's rest
    could not be found.

    `events` were handed over; of them `acknowledged` are in Kafka, and `partitions` says where.
    """

    cluster: str
    topic: str
    end: ShipmentEnd
    events: int
    bytes: int
    acknowledged: int
    unacknowledged: int
    no_time: int
    time_refused: int
    stamped_now: int
    no_key: int
    gaps: int
    seconds: float
    partitions: Mapping[int, Acknowledged] = field(default_factory=dict)
    batches: Sequence[BatchReport] = ()


def untimed(report: ShipReport, event: Event) -> str | None:
    """Says that the pipeline file and the lines do not go together: none of them has a time."""
    time = event.time
    if time.record or not report.events == report.no_time == report.stamped_now > 0:
        return None
    location = f"the field {time.field} ({time.format})" + (" of an array's elements" if event.arrays else "")
    return (
        f"no line has a time in {location}: all {report.events:,} records have the time of now, and are "
        "not in their events' hours; correct event.time or event.rows in the pipeline file, and publish "
        "the lines again (a file with --again)"
    )


_SECONDS = 2.0


@dataclass
class ShipProgress:
    """Says a line every two seconds, with the rates since the last one; nothing where nothing happens."""

    place: str
    say: Say
    clock: Callable[[], float] = time.monotonic
    _then: tuple[float, int, int, int] = field(default=(0.0, 0, 0, 0), init=False)

    def __post_init__(self) -> None:
        self._then = (self.clock(), 0, 0, 0)

    def update(self, events: int, size: int, unacknowledged: int) -> None:
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
