"""Keeps how far a pipeline was behind Kafka, by the hour: Kafka knows it only at the moment it is asked.

`_history/lag-2026-11.json` has a line for each hour in which somebody asked: of each value the highest that
was seen in the hour. The watch writes it.
"""

from __future__ import annotations

import msgspec

from sluice.clients.lake.base import Lake
from sluice.slices import HOUR, Slice, SliceRange, from_seconds
from sluice.state.notes import MonthlyNotes
from sluice.stored_json import Second, Whole

_SECONDS = int(HOUR.total_seconds())


class LagSample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`at` in seconds since the epoch; `records` of all partitions that are not landed, of which `held` wait
    behind open transactions. `seconds` since the end of the newest landed slice, of the partition that is
    furthest behind; None where nothing has landed, or nothing is behind."""

    at: Second
    records: Whole
    held: Whole
    seconds: Whole | None

    @property
    def hour(self) -> int:
        return self.at - self.at % _SECONDS


LagMonth = dict[str, LagSample]
LAG = MonthlyNotes[LagSample]("_history/lag-", LagMonth, "holds no lag", "delete it, the watch begins anew")


def read_lag(lake: Lake, slices: SliceRange) -> tuple[LagSample, ...]:
    """Returns the hours that are known of the range's months, the oldest first. Raises SluiceError for bytes
    that are none."""
    return tuple(sample for _, sample in sorted(LAG.read(lake, slices).items()))


def note_lag(lake: Lake, new: LagSample) -> None:
    """Keeps a sample; nothing is written where the hour has seen as much before."""
    hour = Slice(from_seconds(new.hour))
    LAG.add(lake, {hour.id: LagSample(new.hour, new.records, new.held, new.seconds)}, _highest)


def _highest(old: LagMonth, new: LagMonth) -> LagMonth:
    """Returns the notes with the new ones, of each value the highest."""
    month = dict(old)
    for hour, sample in new.items():
        known = old.get(hour, sample)
        ages = [one.seconds for one in (known, sample) if one.seconds is not None]
        month[hour] = LagSample(
            sample.at,
            max(known.records, sample.records),
            max(known.held, sample.held),
            max(ages, default=None),
        )
    return month
