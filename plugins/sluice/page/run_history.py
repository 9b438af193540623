"""The history of runs with what they moved, out of Airflow's runs and the lake's timings. Pure.

A landing and a load are timed with the run's id; the steps around them belong to the one run that was under
way when they began.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import Field

from sluice.page.airflow_runs import BUSY, WELL, WRONG, DagRunView
from sluice.page.models import Model
from sluice.safe_text import visible
from sluice.slices import HOUR, Slice, SliceRange, iso, utc
from sluice.state.notes import Timing

MOST_RUNS = 100
_COMMAND = re.compile(r"[0-9a-f]{32}")
"""The token of a `sluice run`."""
_ALL = "repair", "reload", "reland"


class StepAmount(Model):
    """What a run did in one step, all batches together; `table` of a load."""

    step: str
    table: str
    units: int
    rows: int
    bytes: int
    seconds: float


class MovedByRun(Model):
    """What a run moved: records landed with the bytes of their files, rows loaded of all tables, and how long
    the two took, all batches together. `steps` has every step."""

    landed: int
    bytes: int
    loaded: int
    land_seconds: float
    load_seconds: float
    steps: list[StepAmount]


class RunRecord(Model):
    """One run of the hourly or the backfill DAG, or of `sluice run` (`dag_id` empty). `start` and `end` are
    the edges of its range; `user` who triggered it, empty for the scheduler."""

    dag_id: str
    run_id: str
    kind: str
    state: str
    user: str
    started: str
    ended: str
    seconds: float | None
    start: str
    end: str
    mode: str
    tables: list[str]
    moved: MovedByRun


class Throughput(Model):
    """By hour in which the steps began: records a second landed and rows a second loaded, while they ran."""

    starts: list[int]
    land: list[float | None]
    load: list[float | None]


class Runs(Model):
    """The newest first, the first `len(runs)` of `count`."""

    runs: list[RunRecord]
    count: int
    throughput: Throughput


@dataclass(frozen=True)
class AirflowRun:
    """`start` and `end` are the edges of its range, None where its parameters name none."""

    dag_id: str
    run_id: str
    kind: str
    state: str
    user: str
    started: datetime | None
    ended: datetime | None
    start: datetime | None
    end: datetime | None
    mode: str
    tables: tuple[str, ...]


def records_of_runs(
    runs: Sequence[AirflowRun], timings: Sequence[Timing], within: SliceRange | None = None
) -> list[RunRecord]:
    """Returns the runs and the commands that have left timings, the newest first. With `within`, of the
    commands those that were under way then: timings are kept by day."""
    timings_by_run = _by_run(runs, timings)
    records = [_record(run, timings_by_run.get(run.run_id, [])) for run in runs]
    run_ids = {run.run_id for run in runs}
    commands = [
        _command(name, steps)
        for name, steps in timings_by_run.items()
        if name not in run_ids and (within is None or _overlaps(steps, within))
    ]
    return sorted([*records, *commands], key=lambda record: record.started or "~", reverse=True)[:MOST_RUNS]


def _by_run(runs: Sequence[AirflowRun], timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    run_ids = {run.run_id for run in runs}
    timings_by_run: dict[str, list[Timing]] = {}
    for timing in timings:
        name = timing.run or _under_way(runs, timing)
        if name in run_ids or _COMMAND.fullmatch(name):
            timings_by_run.setdefault(name, []).append(timing)
    return timings_by_run


def _under_way(runs: Iterable[AirflowRun], timing: Timing) -> str:
    """Returns the id of the only run that was at work when the step began; empty where there were two or
    none."""
    at = _start(timing)
    names = [
        run.run_id
        for run in runs
        if run.started is not None and run.started <= at and (run.ended is None or at <= run.ended)
    ]
    return names[0] if len(names) == 1 else ""


def _record(run: AirflowRun, steps: Sequence[Timing]) -> RunRecord:
    seconds = None
    if run.started is not None and run.ended is not None:
        seconds = round((run.ended - run.started).total_seconds(), 1)
    return RunRecord(
        dag_id=run.dag_id,
        run_id=run.run_id,
        kind=run.kind,
        state=run.state,
        user=visible(run.user),
        started=iso(run.started),
        ended=iso(run.ended),
        seconds=seconds,
        start=iso(run.start),
        end=iso(run.end),
        mode=visible(run.mode),
        tables=[visible(table) for table in run.tables],
        moved=moved_by(steps),
    )


def _command(token: str, steps: Sequence[Timing]) -> RunRecord:
    """Returns the record of a `sluice run`, which has left nothing but its steps."""
    started, ended = min(map(_start, steps)), _end(steps)
    loads = [step for step in steps if step.step == "load"]
    return RunRecord(
        dag_id="",
        run_id=token,
        kind="command",
        state="",
        user="",
        started=iso(started),
        ended=iso(ended),
        seconds=round((ended - started).total_seconds(), 1),
        start=min(step.start for step in steps),
        end=max(step.until for step in steps),
        mode=steps[0].mode,
        tables=sorted({step.table for step in loads}) if steps[0].mode in _ALL else [],
        moved=moved_by(steps),
    )


def _start(step: Timing) -> datetime:
    return utc(datetime.fromisoformat(step.started))


def _end(steps: Iterable[Timing]) -> datetime:
    """Returns when the last of the steps ended."""
    return max(_start(step) + timedelta(seconds=step.seconds) for step in steps)


def _overlaps(steps: Sequence[Timing], slices: SliceRange) -> bool:
    return min(map(_start, steps)) < slices.end and _end(steps) >= slices.start


def moved_by(steps: Sequence[Timing]) -> MovedByRun:
    landed, loaded = ([step for step in steps if step.step == name] for name in ("land", "load"))
    return MovedByRun(
        landed=sum(step.rows for step in landed),
        bytes=sum(step.bytes for step in landed),
        loaded=sum(step.rows for step in loaded),
        land_seconds=round(sum(step.seconds for step in landed), 1),
        load_seconds=round(sum(step.seconds for step in loaded), 1),
        steps=amounts_of(steps),
    )


def amounts_of(steps: Iterable[Timing]) -> list[StepAmount]:
    """Returns the amounts of each step and table, in the order in which they first ended."""
    timings_by_step: dict[tuple[str, str], list[Timing]] = {}
    for step in steps:
        timings_by_step.setdefault((step.step, step.table), []).append(step)
    return [
        StepAmount(
            step=name,
            table=table,
            units=sum(timing.units for timing in timings),
            rows=sum(timing.rows for timing in timings),
            bytes=sum(timing.bytes for timing in timings),
            seconds=round(sum(timing.seconds for timing in timings), 1),
        )
        for (name, table), timings in timings_by_step.items()
    ]


def throughput_of(timings: Iterable[Timing], start: datetime, end: datetime) -> Throughput:
    """Returns rows a second of landings and of loads, by the hour in which they began."""
    sums: dict[tuple[int, str], tuple[int, float]] = {}
    hour = int(HOUR.total_seconds())
    for timing in timings:
        at = int(_start(timing).timestamp())
        if timing.step in ("land", "load") and start.timestamp() <= at < end.timestamp():
            rows, seconds = sums.get((at - at % hour, timing.step), (0, 0.0))
            sums[at - at % hour, timing.step] = rows + timing.rows, seconds + timing.seconds
    starts = sorted({at for at, _ in sums})
    rates = {key: round(rows / seconds, 1) if seconds > 0 else None for key, (rows, seconds) in sums.items()}
    land, load = ([rates.get((at, step)) for at in starts] for step in ("land", "load"))
    return Throughput(starts=starts, land=land, load=load)


class StepProgress(Model):
    """Of `batches` batches, those in which a step is done, under way or failed."""

    step: str
    done: int
    running: int
    failed: int
    batches: int


class ProgressView(Model):
    """`share` is how much of the run is done, from 0 to 1: it moves with each step of each batch. `did` is
    what the run did, once it has ended."""

    dag_id: str
    run_id: str
    state: str
    started: str
    ended: str
    tasks: dict[str, int]
    slices: int
    slices_done: int
    phase: str
    share: float
    steps: list[StepProgress]
    did: list[StepAmount] = Field(default_factory=list)


# How far a run is: each batch is landed, loaded into each table, verified and published. Pure.
_GROUP = "batch."
_ORDER = ("land", "load", "verify", "publish")
# Of the bar, for the batches that are cut; and as much as is shown before Airflow says that the run is over.
_CUT, _NEARLY = 0.02, 0.99
_BEGUN = 0.5  # of a step that is under way


def step_counts(run: DagRunView, steps: Iterable[str]) -> list[StepProgress]:
    """Returns the counts of each step, in the order of the DAG. `steps` are the names of a batch's tasks,
    without the group's; a count's is `land`, `load <task>` for each table, `verify` or `publish`."""
    batches = len(run.batches or ())
    counts = []
    for step in sorted(steps, key=_place):
        states = [task.state for task in run.tasks if task.task_id == _GROUP + step and task.map_index >= 0]
        done = batches if run.state == "success" else sum(state in WELL for state in states)
        counts.append(
            StepProgress(
                step=step.replace("load.", "load ", 1),
                done=done,
                running=sum(state in BUSY for state in states),
                failed=sum(state in WRONG for state in states),
                batches=batches,
            )
        )
    return counts


def share_done(run: DagRunView, counts: Sequence[StepProgress]) -> float:
    """Returns how much of the run is done, from 0 to 1: each step of a batch counts alike, and half while it
    is under way. It is 1 only when the run has succeeded."""
    if run.state == "success":
        return 1.0
    total = sum(step.batches for step in counts)
    if not total:
        return 0.0
    done = sum(step.done + _BEGUN * step.running for step in counts)
    return round(min(_CUT + (1 - _CUT) * done / total, _NEARLY), 3)


def _place(step: str) -> tuple[int, str]:
    kind = step.partition(".")[0]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER), step


class StepRun(Model):
    """The steps of one run over the slice; `seconds` are from the begin of the first to the end of the last.
    `run` is that of Airflow or of a command, empty where nothing says it."""

    run: str
    started: str
    seconds: float
    steps: list[Timing]


# The steps over an hour by the run that they are of. Pure.
#
# A landing and a load are timed with the run's id. A step without one belongs to the run whose steps it
# stands among: a `resolve` goes before a landing, every other step follows one. A run of a DAG verifies each
# batch, and its whole range at the end; hourly runs verify hours again that they do not touch otherwise.
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


def _run(part: Sequence[Timing]) -> StepRun:
    return StepRun(
        run=visible(part[0].run),
        started=part[0].started,
        seconds=round((_end(part) - _start(part[0])).total_seconds(), 3),
        steps=list(part),
    )
