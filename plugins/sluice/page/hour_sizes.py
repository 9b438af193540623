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
    amounts: dict[int, Amount] = {}
    first, step = int(slices.start.timestamp()), int(slices.length.total_seconds())
    for number, name in enumerate(ids_of(slices)):
        units = noted.of(name)
        if units and all(unit.seal for unit in units.values()):
            amounts[first + number * step] = _amount(units)
    return amounts


def _amount(units: Units) -> Amount:
    return Amount(sum(unit.read for unit in units.values()), sum(unit.bytes for unit in units.values()))


def sizes_of(slices: SliceRange, landed: Mapping[int, Amount], timings: Sequence[Timing]) -> list[HourSize]:
    """Returns the sizes of `slices`, the newest first. `landed` may begin weeks earlier: expected counts are
    computed from it."""
    records_by_start = {at: amount.records for at, amount in landed.items()}
    habit = habit_of(records_by_start, int(slices.end.timestamp()))
    land, load = _batches(timings, "land"), _batches(timings, "load")
    sizes = []
    for slice_ in reversed(list(slices)):
        at = int(slice_.start.timestamp())
        usual, amount = expected(at, records_by_start, habit), landed.get(at)
        sizes.append(
            HourSize(
                slice=slice_.id,
                records=records_by_start.get(at),
                bytes=amount.bytes if amount else None,
                yesterday=records_by_start.get(at - DAY),
                week_ago=records_by_start.get(at - WEEK),
                expected=round(usual.count) if usual else None,
                low=None if usual is None or usual.low is None else round(usual.low),
                high=None if usual is None or usual.high is None else round(usual.high),
                land_rates=_rates(land, at),
                load_rates=_rates(load, at),
            )
        )
    return sizes[:MOST_HOURS]


def _rates(batches: Sequence[_Batch], at: int) -> tuple[float | None, float | None, float | None]:
    """Returns the rates of the slice, of the one a day before, and of the one a week before."""
    return _rate(batches, at), _rate(batches, at - DAY), _rate(batches, at - WEEK)


def _rate(batches: Sequence[_Batch], at: int) -> float | None:
    """Returns the rate of the last batch that held the slice; `batches` are the newest first."""
    return next((batch.rate for batch in batches if batch.start <= at < batch.until), None)


def _batches(timings: Iterable[Timing], step: str) -> list[_Batch]:
    """Returns a step's batches, the newest first; the loads of a run into several tables are one."""
    batches: dict[tuple[str, str, str], _Batch] = {}
    for step_timing in (timing for timing in timings if timing.step == step):
        key = (step_timing.start, step_timing.until, step_timing.run)
        before = batches.pop(key, None)
        rows, seconds = (before.rows, before.seconds) if before else (0, 0.0)
        batches[key] = _Batch(
            _at(step_timing.start),
            _at(step_timing.until),
            rows + step_timing.rows,
            seconds + step_timing.seconds,
        )
    return list(reversed(batches.values()))


def _at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
