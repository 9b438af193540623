"""Keeps how far a pipeline was behind Kafka, by the hour: Kafka knows it only at the moment it is asked.

`_history/lag.json` has a line for each of the last `MOST` hours in which somebody asked: of each value the
highest that was seen in the hour. The watch writes it. It is no evidence of anything.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sluice.clients.lake.base import Lake, update_object
from sluice.slices import HOUR
from sluice.stored_json import Second, Whole, decode_stored

KEY = "_history/lag.json"
MOST = 93 * 24
"""Hours that are kept: three months."""
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


_SAMPLES = msgspec.json.Decoder(tuple[LagSample, ...])


def read_lag(lake: Lake) -> tuple[LagSample, ...]:
    """Returns the hours that are known, the oldest first. Raises SluiceError for bytes that are none."""
    stored = lake.read(KEY)
    return _decoded(lake, None if stored is None else stored.data)


def note_lag(lake: Lake, new: LagSample) -> None:
    """Keeps a sample, by compare-and-set; nothing is written where the hour has seen as much before."""
    update_object(lake, KEY, lambda data: _encoded(with_sample(_decoded(lake, data), new)))


def with_sample(samples: Iterable[LagSample], new: LagSample) -> tuple[LagSample, ...]:
    """Returns the samples with the new one, of its hour the highest of each value. Pure."""
    samples_by_hour = {sample.hour: sample for sample in samples}
    samples_by_hour[new.hour] = _highest(samples_by_hour.get(new.hour), new)
    return tuple(samples_by_hour[hour] for hour in sorted(samples_by_hour)[-MOST:])


def _highest(old: LagSample | None, new: LagSample) -> LagSample:
    if old is None:
        return LagSample(new.hour, new.records, new.held, new.seconds)
    ages = [one.seconds for one in (old, new) if one.seconds is not None]
    return LagSample(
        new.hour, max(old.records, new.records), max(old.held, new.held), max(ages) if ages else None
    )


def _encoded(samples: Iterable[LagSample]) -> bytes:
    lines = (msgspec.json.encode(one).decode() for one in samples)
    return ("[\n" + ",\n".join(lines) + "\n]\n").encode()


def _decoded(lake: Lake, data: bytes | None) -> tuple[LagSample, ...]:
    if data is None:
        return ()
    place = f"{lake.url}/{KEY}"
    return decode_stored(
        _SAMPLES, data, lambda error: f"{place} holds no lag ({error}): delete it, the watch begins anew"
    )
