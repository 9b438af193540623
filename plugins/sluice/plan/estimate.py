"""How long a run will take, from how long earlier steps took. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from statistics import median

import numpy as np

from sluice.plan.plan import PlannedWork
from sluice.state.notes import COMMAND, Timing

STARTUP = "start-up"
_MOST_RUNS = 20
STEPS = ("land", "load", "verify", "publish")


@dataclass(frozen=True)
class Rate:
    """A step takes `fixed` seconds a batch, and so many for each unit and each row."""

    fixed: float
    per_unit: float
    per_row: float

    def seconds(self, units: int, rows: int) -> float:
        return self.fixed + units * self.per_unit + rows * self.per_row if units else 0.0


def rate_of(timings: Sequence[Timing]) -> Rate:
    """Returns the non-negative rate with the smallest relative errors over `timings`, of which there is at
    least one.

    Solves every choice of parameters that may differ from zero, and keeps the best non-negative solution.
    """
    took = np.array([max(t.seconds, 1e-3) for t in timings])
    facts = np.array([[1.0, t.units, t.rows] for t in timings])
    weighted, target = facts / took[:, None], np.ones(len(took))
    best, smallest = np.zeros(3), np.inf
    for count in (1, 2, 3):
        for chosen in combinations(range(3), count):
            part = weighted[:, chosen]
            solved = np.linalg.lstsq(part, target, rcond=None)[0]
            error = float(((part @ solved - target) ** 2).sum())
            # A further parameter must reduce the error clearly: any would fit two runs exactly.
            if (solved >= 0).all() and error < smallest * 0.9:
                best, smallest = np.zeros(3), error
                best[list(chosen)] = solved
    return Rate(*map(float, best))


def rates(timings: Iterable[Timing]) -> dict[str, Rate]:
    """Returns rates by step; the loads of one batch into several tables, one after another, count as one."""
    batch_timings: dict[tuple[str, ...], Timing] = {}
    for number, timing in enumerate(timings):
        batch = (timing.start, timing.until, timing.run) if timing.run else (str(number),)
        earlier = batch_timings.get((timing.step, *batch))
        units = timing.units if earlier is None else max(timing.units, earlier.units)
        seconds = timing.seconds + (earlier.seconds if earlier else 0)
        rows = timing.rows + (earlier.rows if earlier else 0)
        batch_timings[timing.step, *batch] = replace(timing, units=units, rows=rows, seconds=seconds)
    by_step: dict[str, list[Timing]] = {}
    for timing in batch_timings.values():
        by_step.setdefault(timing.step, []).append(timing)
    return {step: _with_start(step_timings) for step, step_timings in by_step.items()}


def _with_start(timings: Sequence[Timing]) -> Rate:
    """Returns the rate without what starting took, and that again for each batch. However few rows a batch
    has, its application has to start: no rate over rows or units says so."""
    starts = [timing.before + timing.starting for timing in timings if timing.before + timing.starting > 0]
    rate = rate_of([replace(timing, seconds=timing.seconds - timing.starting) for timing in timings])
    return replace(rate, fixed=rate.fixed + median(starts)) if starts else rate


@dataclass(frozen=True)
class TimeEstimate:
    """Seconds by step for a whole range; `unknown` steps have work but were never timed."""

    seconds: Mapping[str, float]
    unknown: tuple[str, ...]

    def with_startup(self, seconds: float | None) -> TimeEstimate:
        """Returns it with what a run takes beside its steps; nothing does where no step has work."""
        if seconds is None or not self.seconds:
            return self
        return replace(self, seconds={**self.seconds, STARTUP: seconds})

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def __str__(self) -> str:
        if self.unknown:
            return f"unknown: no earlier run of this pipeline has timed {', '.join(self.unknown)}"
        steps = ", ".join(f"{step} {duration_text(took)}" for step, took in self.seconds.items() if took >= 1)
        return f"about {duration_text(self.total)}" + (f" ({steps})" if steps else "")


@dataclass(frozen=True)
class WholeRun:
    """A run that ended well: its id, and when it began and ended. Of that it `waited` some seconds for
    records on their way."""

    run: str
    began: datetime
    ended: datetime
    waited: float = 0.0


def startup_of(runs: Iterable[WholeRun], timings: Sequence[Timing]) -> float | None:
    """Returns the seconds that a run takes beside its steps, the median of the newest: processes that start,
    and a scheduler that looks around. None where no run has moved anything. `runs`: the newest first."""
    beside = []
    for run in runs:
        steps = [step for step in timings if step.step != COMMAND and _is_of(step, run)]
        if any(step.run == run.run for step in steps):
            took = (run.ended - run.began).total_seconds() - run.waited
            beside.append(max(took - sum(step.before + step.seconds for step in steps), 0.0))
        if len(beside) == _MOST_RUNS:
            break
    return median(beside) if beside else None


def _is_of(step: Timing, run: WholeRun) -> bool:
    began = datetime.fromisoformat(step.started)
    return step.run == run.run or (not step.run and run.began <= began <= run.ended)


def whole_commands(timings: Iterable[Timing]) -> list[WholeRun]:
    """Returns each `sluice run` that ended well, the newest first."""
    found = []
    for note in timings:
        if note.step == COMMAND and note.state == "success":
            began = datetime.fromisoformat(note.started)
            found.append(WholeRun(note.run, began, began + timedelta(seconds=note.seconds)))
    return sorted(found, key=lambda run: run.began, reverse=True)


def estimate_time(work: PlannedWork, rate_by_step: Mapping[str, Rate]) -> TimeEstimate:
    """Returns what the range will take at the rates of earlier runs, once its boundaries are resolved."""
    seconds: dict[str, float] = {}
    unknown = []
    for step in STEPS:
        amounts = [(units, rows) for units, rows in work.amounts(step) if units]
        if amounts and step not in rate_by_step:
            unknown.append(step)
        elif amounts:
            seconds[step] = sum(rate_by_step[step].seconds(units, rows) for units, rows in amounts)
    return TimeEstimate(seconds, tuple(unknown))


def duration_text(seconds: float) -> str:
    """Formats seconds: `40 s`, `3 min 20 s`, `5 h 10 min`."""
    whole_seconds = max(round(seconds), 0)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60} min {whole_seconds % 60} s"
    return f"{whole_seconds // 3600} h {whole_seconds % 3600 // 60} min"
