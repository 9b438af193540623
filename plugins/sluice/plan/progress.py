"""How far a long run has come, as one line: hours, rows, rate and the time that is left. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.plan.estimate import TimeEstimate, duration_text
from sluice.plan.modes import AGAIN
from sluice.plan.plan import PlannedWork, UnitsAndRows, has_work
from sluice.safe_text import Say
from sluice.slices import SliceRange
from sluice.state.months import seal_of
from sluice.state.row_balance import balance_of
from sluice.state.status import UnitStatus
from sluice.state.survey import survey
from sluice.state.unit_state import UnitState


@dataclass(frozen=True)
class Pace:
    """Batches are landed, then loaded. `estimate` weighs the two, and what comes after them."""

    work: PlannedWork
    estimate: TimeEstimate

    def line(self, landed: int, loaded: int, elapsed: float, failed: Mapping[int, UnitsAndRows]) -> str:
        """Formats the progress after so many batches, in `elapsed` seconds. `failed`: by the number of a
        batch that was done in part, the units and rows that are done."""
        over = enumerate(self.work.load[:loaded])
        units, rows = _sum(tuple(failed.get(number, amount) for number, amount in over))
        parts = [
            f"{units:,} of {self.work.units:,} units and {rows:,} of {self.work.rows:,} rows done",
            f"{rows / max(elapsed, 0.001):,.0f} rows/s",
        ]
        seconds_left = self.left(landed, loaded, elapsed)
        if seconds_left is not None:
            parts.append(_about(seconds_left))
        return ", ".join(parts)

    def left(self, landed: int, loaded: int, elapsed: float) -> float | None:
        """Returns the seconds left; done work corrects the estimate. None while there is no estimate."""
        done = self._weight("land", self.work.land[:landed]) + self._weight("load", self.work.load[:loaded])
        total = self._weight("land", self.work.land) + self._weight("load", self.work.load)
        after = sum(self.estimate.seconds.get(step, 0.0) for step in ("verify", "publish"))
        if done:
            return (total - done) * elapsed / done + after
        return None if self.estimate.unknown else total + after

    def _weight(self, step: str, amounts: tuple[UnitsAndRows, ...]) -> float:
        """Seconds where the step was timed before; else a guess that serves to compare batches."""
        units, rows = _sum(amounts)
        if step in self.estimate.unknown or step not in self.estimate.seconds:
            return units * 0.01 + rows * 1e-5
        all_units, all_rows = _sum(self.work.land if step == "land" else self.work.load)
        share = (units + rows / 1000) / ((all_units + all_rows / 1000) or 1)
        return self.estimate.seconds[step] * share


@dataclass
class BatchProgress:
    """Prints what happens to each batch, and the run's progress since this object was created."""

    pace: Pace
    say: Say
    clock: Callable[[], float] = time.monotonic
    _loaded: int = field(default=0, init=False)
    _parts: dict[int, UnitsAndRows] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def __call__(self, number: int, what: str, landed: int) -> None:
        """After `landed` batches were landed."""
        line = self.pace.line(landed, self._loaded, self.clock() - self._started, self._parts)
        self.say(f"batch {number + 1} of {len(self.pace.work.batches)}: {what}; {line}")

    def done(self, part: UnitsAndRows | None) -> None:
        """Notes that the next batch is loaded, or only `part` of it."""
        if part is not None:
            self._parts[self._loaded] = part
        self._loaded += 1


def _sum(amounts: tuple[UnitsAndRows, ...]) -> UnitsAndRows:
    return sum(units for units, _ in amounts), sum(rows for _, rows in amounts)


ReadStatuses = Callable[[Pipeline, SliceRange], Sequence[UnitStatus]]


@dataclass
class RangeProgress:
    """Keeps the first survey: rate and time left are computed from the progress since then."""

    pipeline: Pipeline
    slices: SliceRange
    read: ReadStatuses = survey
    tables: Collection[str] | None = None
    clock: Callable[[], float] = time.monotonic
    _first: tuple[float, int] | None = field(default=None, init=False)

    def line(self) -> str:
        """Returns how much is complete now, or the error of the survey: the run itself goes on."""
        try:
            statuses = self.read(self.pipeline, self.slices)
        except SluiceError as error:
            return f"how far it is cannot be seen: {error}"
        now, done = self.clock(), sum(status.state.done for status in statuses)
        if self._first is None:
            self._first = (now, done)
        elapsed, newly = now - self._first[0], done - self._first[1]
        return progress_line(self.pipeline, statuses, done, elapsed, newly, self.tables)


@dataclass
class RedoneProgress:
    """Progress of a run that lands or loads complete units again: counts those that have another manifest or
    other commits than in `first`, the survey before the run."""

    pipeline: Pipeline
    slices: SliceRange
    mode: str
    first: Sequence[UnitStatus]
    read: ReadStatuses = survey
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._started = self.clock()
        self._to_redo = [status for status in self.first if has_work(status, self.mode)]

    def line(self) -> str:
        """Returns how much is done again now, or the error of the survey: the run itself goes on."""
        try:
            now = {status.unit: status for status in self.read(self.pipeline, self.slices)}
        except SluiceError as error:
            return f"how far it is cannot be seen: {error}"
        pairs = [(status, now[status.unit]) for status in self._to_redo if status.unit in now]
        landed = sum(after.manifest is not None and _id(after) != _id(before) for before, after in pairs)
        done = sum(after.state.done and seal_of(after) != seal_of(before) for before, after in pairs)
        parts = [f"{done:,} of {len(self._to_redo):,} units loaded again"]
        parts += [f"{landed:,} landed"] if self.mode in AGAIN else []
        if 0 < done < len(self._to_redo):
            parts.append(_about((len(self._to_redo) - done) * (self.clock() - self._started) / done))
        return ", ".join(parts)


def _id(status: UnitStatus) -> str:
    return status.manifest.id if status.manifest else ""


def progress_line(
    pipeline: Pipeline,
    statuses: Sequence[UnitStatus],
    done: int,
    elapsed: float,
    newly_done: int,
    tables: Collection[str] | None = None,
) -> str:
    """Formats the progress. `newly_done` units became complete within `elapsed` seconds; with a choice of
    `tables`, in these."""
    landed = sum(status.manifest is not None for status in statuses)
    over = sum(status.state is not UnitState.NOT_OVER for status in statuses)
    line = f"{done:,} of {over:,} units complete, {landed:,} landed"
    if tables is not None:
        line = f"{done:,} of {over:,} units loaded into {', '.join(sorted(tables))}, {landed:,} landed"
    else:
        line += f", {balance_of(pipeline, statuses).loaded:,} rows loaded"
    return f"{line}, {_about((over - done) * elapsed / newly_done)}" if newly_done and done < over else line


def _about(seconds: float) -> str:
    return f"about {duration_text(seconds)} left"
