"""The steps over an hour by the run that they are of. Pure.

A landing and a load are timed with the run's id. A step without one belongs to the run whose steps it stands
among: a `resolve` goes before a landing, every other step follows one. A run of a DAG verifies each batch,
and its whole range at the end; hourly runs verify hours again that they do not touch otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sluice.page.run_models import StepRun, TimingRow
from sluice.safe_text import visible
from sluice.slices import Slice, utc
from sluice.state.timings import Timing

GAP = timedelta(minutes=15)
"""Longer without a step: another attempt, or another run."""
_FIRST = "resolve"
_OFTEN = {"verify": 2}
"""How often a run does a step over one slice and table, where that is more than once."""


def step_runs(slice_: Slice, timings: Iterable[Timing]) -> list[StepRun]:
    """Returns the steps of batches that hold the slice: the newest run first, the steps of each in the order
    in which they began. A run that went on after GAP has an entry for each part."""
    steps = sorted((t for t in timings if _holds(t, slice_)), key=lambda timing: timing.started)
    parts: list[list[Timing]] = []
    for number, timing in enumerate(steps):
        run = timing.run or _run_of(steps, number)
        part = _part_of(parts, run, timing)
        if part is None and not timing.run and timing.step != _FIRST:
            run, part = "", _part_of(parts, "", timing)
        if part is None:
            part = []
            parts.append(part)
        part.append(replace(timing, run=run))
    return [_run(part) for part in reversed(parts)]


def _part_of(parts: Sequence[list[Timing]], run: str, timing: Timing) -> list[Timing] | None:
    """Returns the last part of the run where the step may belong to it. A step with a run's id always may."""
    last = next((part for part in reversed(parts) if part[0].run == run), None)
    if last is None or _start(timing) - _end(last) > GAP:
        return None
    return last if timing.run or not _has_all(last, timing) else None


def _has_all(part: Sequence[Timing], timing: Timing) -> bool:
    """Returns whether the part already has the step as often as a run does it."""
    done = sum((step.step, step.table) == (timing.step, timing.table) for step in part)
    return done >= (_OFTEN.get(timing.step, 1) if part[0].run else 1)


def _holds(timing: Timing, slice_: Slice) -> bool:
    start, until = (utc(datetime.fromisoformat(text)) for text in (timing.start, timing.until))
    return start <= slice_.start and slice_.end <= until


def _run_of(steps: Sequence[Timing], number: int) -> str:
    """Returns the run of the nearest step with a run's id, after a `resolve`, else before; empty where the
    steps between are more than GAP apart, or none has an id."""
    reached = steps[number]
    for neighbour in steps[number + 1 :] if reached.step == _FIRST else reversed(steps[:number]):
        early, late = sorted((reached, neighbour), key=lambda each: each.started)
        if _start(late) - _end([early]) > GAP:
            return ""
        if neighbour.run:
            return neighbour.run
        reached = neighbour
    return ""


def _start(timing: Timing) -> datetime:
    return utc(datetime.fromisoformat(timing.started))


def _end(part: Iterable[Timing]) -> datetime:
    return max(_start(timing) + timedelta(seconds=timing.seconds) for timing in part)


def _run(part: Sequence[Timing]) -> StepRun:
    return StepRun(
        run=visible(part[0].run),
        started=part[0].started,
        seconds=round((_end(part) - _start(part[0])).total_seconds(), 3),
        steps=[TimingRow.model_validate(timing, from_attributes=True) for timing in part],
    )
