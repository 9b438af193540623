"""How large and how fast each of the last hours was, against the day and the week before, and against what
was expected. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.page.history import ids_of
from sluice.page.pipeline_models import HourSize
from sluice.slices import SliceRange
from sluice.state.months import Summaries, Units
from sluice.state.timings import Timing
from sluice.watch.expected import DAY, expected, habit_of

MOST_HOURS = 48
WEEK = 7 * DAY


@dataclass(frozen=True)
class Amount:
    """What landed of a slice: records, and bytes of its files."""

    records: int
    bytes: int


@dataclass(frozen=True)
class _Batch:
    """One step over `[start, until)` in seconds since the epoch."""

    start: int
    until: int
    rows: int
    seconds: float

    @property
    def rate(self) -> float | None:
        return self.rows / self.seconds if self.seconds > 0 else None


def landed_amounts(slices: SliceRange, noted: Summaries) -> dict[int, Amount]:
    """Returns the amounts by the slice's start, of slices that every cluster has landed."""
    found: dict[int, Amount] = {}
    first, step = int(slices.start.timestamp()), int(slices.length.total_seconds())
    for number, name in enumerate(ids_of(slices)):
        units = noted.of(name)
        if units and all(unit.seal for unit in units.values()):
            found[first + number * step] = _amount(units)
    return found


def _amount(units: Units) -> Amount:
    return Amount(sum(one.read for one in units.values()), sum(one.bytes for one in units.values()))


def sizes_of(shown: SliceRange, landed: Mapping[int, Amount], timings: Sequence[Timing]) -> list[HourSize]:
    """`landed` may begin weeks before `shown`: what is expected comes from there. The newest slice first."""
    known = {at: one.records for at, one in landed.items()}
    habit = habit_of(known, int(shown.end.timestamp()))
    land, load = _batches(timings, "land"), _batches(timings, "load")
    found = []
    for slice_ in reversed(list(shown)):
        at = int(slice_.start.timestamp())
        usual, own = expected(at, known, habit), landed.get(at)
        found.append(
            HourSize(
                slice=slice_.id,
                records=known.get(at),
                bytes=own.bytes if own else None,
                yesterday=known.get(at - DAY),
                week_ago=known.get(at - WEEK),
                expected=round(usual.count) if usual else None,
                low=None if usual is None or usual.low is None else round(usual.low),
                high=None if usual is None or usual.high is None else round(usual.high),
                land_rates=_rates(land, at),
                load_rates=_rates(load, at),
            )
        )
    return found[:MOST_HOURS]


def _rates(batches: Sequence[_Batch], at: int) -> tuple[float | None, float | None, float | None]:
    """Of the slice, of the one a day before, and of the one a week before."""
    return _rate(batches, at), _rate(batches, at - DAY), _rate(batches, at - WEEK)


def _rate(batches: Sequence[_Batch], at: int) -> float | None:
    """Returns the rate of the last batch that held the slice; `batches` are the newest first."""
    return next((one.rate for one in batches if one.start <= at < one.until), None)


def _batches(timings: Iterable[Timing], step: str) -> list[_Batch]:
    """Returns a step's batches, the newest first; the loads of a run into several tables are one."""
    found: dict[tuple[str, str, str], _Batch] = {}
    for one in (timing for timing in timings if timing.step == step):
        key = (one.start, one.until, one.run)
        before = found.pop(key, None)
        rows, seconds = (before.rows, before.seconds) if before else (0, 0.0)
        found[key] = _Batch(_at(one.start), _at(one.until), rows + one.rows, seconds + one.seconds)
    return list(reversed(found.values()))


def _at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
