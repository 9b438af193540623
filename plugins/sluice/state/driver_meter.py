"""What the driver of a landing has counted, handed over through the lake to the task that waits for it.

`_timings/<day>-drivers.ndjson` has a line for each driver that ended on that UTC day, also where it failed.
As with all timings, it is no evidence of anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
import pendulum

from sluice.clients.lake.base import Lake, update_object
from sluice.errors import LakeUnavailable, SluiceError
from sluice.metrics import meter
from sluice.metrics.meter import Metered
from sluice.metrics.table import METRICS
from sluice.slices import SliceRange, utc
from sluice.state.notes import TIMINGS
from sluice.stored_json import readable_lines


@dataclass(frozen=True)
class DriverMeter:
    """Of the driver that landed `[start, until)`, of one `cluster` only where one was named."""

    start: str
    until: str
    cluster: str
    ended: Annotated[datetime, msgspec.Meta(tz=True)]
    metered: Metered


_DECODER = msgspec.json.Decoder(DriverMeter)


def key_of(day: date) -> str:
    return f"{TIMINGS}{day:%Y-%m-%d}-drivers.ndjson"


@contextmanager
def handing_over(lake: Lake, slices: SliceRange, cluster: str) -> Iterator[None]:
    """Hands over what is counted inside, also when that fails. Raises what the lake raises."""
    try:
        yield
    except SluiceError:
        with suppress(LakeUnavailable):  # the error that stopped the landing is the one to raise
            _hand_over(lake, slices, cluster, meter.take())
        raise
    _hand_over(lake, slices, cluster, meter.take())


def _hand_over(lake: Lake, slices: SliceRange, cluster: str, metered: Metered) -> None:
    if not (metered.counts or metered.times):
        return
    ended = datetime.now(UTC)
    start, until = slices.start.isoformat(), slices.end.isoformat()
    driver_meter = DriverMeter(start, until, cluster, ended, metered)
    line = msgspec.json.encode(driver_meter) + b"\n"
    update_object(lake, key_of(ended.date()), lambda data: (data or b"") + line)


def handed_over(lake: Lake, slices: SliceRange, cluster: str, since: datetime) -> Metered:
    """Returns what drivers of the range have handed over since an instant. Metrics that this Sluice does not
    have, because another version counted them, and lines that it cannot read are left out."""
    began, today = utc(since), pendulum.now("UTC").date()
    days = [began.date() + timedelta(days=number) for number in range((today - began.date()).days + 1)]
    meters = [
        one.metered
        for one in (one for day in days for one in _of_day(lake, day))
        if (one.start, one.until, one.cluster) == (slices.start.isoformat(), slices.end.isoformat(), cluster)
        and one.ended >= began
    ]
    return Metered(
        tuple(count for one in meters for count in one.counts if count[0] in METRICS),
        tuple(time for one in meters for time in one.times if time[0] in METRICS),
    )


def _of_day(lake: Lake, day: date) -> list[DriverMeter]:
    stored = lake.read(key_of(day))
    return [] if stored is None else list(readable_lines(_DECODER, stored.data))
