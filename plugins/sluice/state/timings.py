"""How long steps took: written by every run into the lake, read for estimates and for the slice's page.

`_timings/<day>.ndjson` holds one line per step of a batch, of the steps that began on that UTC day, in the
order in which they ended; so the newest are found without a listing. `sluice run` and the DAGs write it
through the same call, `record`. It is no evidence of anything: what is done is in manifests and ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
import pendulum

from sluice.clients.lake.base import Lake, update_object
from sluice.slices import SliceRange, utc
from sluice.stored_json import Seconds, Whole, readable_lines

TIMINGS = "_timings/"


@dataclass(frozen=True)
class Timing:
    """One step over one batch `[start, until)` of slices, which did something.

    `units` are the (slice, cluster) pairs that it handled, `rows` and `bytes` what it moved (records read,
    rows loaded, records verified), `table` is a load's target, `started` an ISO 8601 instant in UTC. A
    landing was submitted `before` seconds before it began, and of `seconds` Spark took `starting` to start.
    """

    step: str
    start: str
    until: str
    started: str
    seconds: Seconds
    units: Whole
    rows: Whole
    bytes: Whole = 0
    table: str = ""
    mode: str = ""
    run: str = ""
    before: Seconds = 0.0
    starting: Seconds = 0.0


_DECODER = msgspec.json.Decoder(Timing)


def key_of(day: date) -> str:
    return f"{TIMINGS}{day:%Y-%m-%d}.ndjson"


def record(lake: Lake, timing: Timing) -> None:
    """Appends one line to its day, by compare-and-set. Raises what the lake raises."""
    key = key_of(date.fromisoformat(timing.started[:10]))
    line = msgspec.json.encode(timing) + b"\n"
    update_object(lake, key, lambda data: (data or b"") + line)


@contextmanager
def timed(
    lake: Lake, step: str, slices: SliceRange, **fields: Any
) -> Iterator[Callable[[Mapping[str, float]], None]]:
    """Times what is inside; the call that it hands out gives the counts (units, rows, bytes) at the end, of
    a landing with `before` and `starting`.

    Without that call, or when a step fails or finds nothing to do (no units), nothing is recorded.
    """
    started = pendulum.now("UTC")
    counts: dict[str, Any] = {}
    yield counts.update
    if counts.get("units"):
        record(lake, _timing(step, slices, started, pendulum.now("UTC"), **counts, **fields))


def _timing(step: str, slices: SliceRange, started: datetime, ended: datetime, **fields: Any) -> Timing:
    return Timing(
        step=step,
        start=slices.start.isoformat(),
        until=slices.end.isoformat(),
        started=utc(started).isoformat(timespec="milliseconds"),
        seconds=round((ended - started).total_seconds(), 3),
        **fields,
    )


def of_day(lake: Lake, day: date) -> list[Timing]:
    """Returns the day's timings in the order in which they ended; a line of a newer Sluice keeps its known
    fields, and one that cannot be read is left out."""
    stored = lake.read(key_of(day))
    if stored is None:
        return []
    return list(readable_lines(_DECODER, stored.data, lambda one: (one.start, one.until, one.started)))


def newest(lake: Lake, now: datetime, count: int = 300, days: int = 30) -> list[Timing]:
    """Returns at least the newest `count` timings of the last `days` days, oldest first, where there are as
    many."""
    timings: list[Timing] = []
    for back in range(days):
        timings = of_day(lake, (utc(now) - timedelta(days=back)).date()) + timings
        if len(timings) >= count:
            break
    return timings
