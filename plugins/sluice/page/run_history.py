"""The history of runs with what they moved, out of Airflow's runs and the lake's timings. Pure.

Every step is timed with the id of its run: what others did over the same hours, or meanwhile, is not what the
run did. A step without one, of an earlier Sluice or of `sluice verify`, is nobody's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter

from pydantic import Field

from sluice.page.airflow_runs import ACTIVE, BUSY, CANCELLED, DagRunView
from sluice.page.models import FailedTry, Model
from sluice.page.run_outcome import cancelled_while
from sluice.safe_text import visible
from sluice.slices import HOUR, Slice, SliceRange, iso, utc
from sluice.state.notes import COMMAND, Timing

MOST_RUNS = 100
_COMMAND = re.compile(r"[0-9a-f]{32}")
"""The token of a `sluice run`."""
_ALL = "repair", "reload", "reland"
RUNNING = "running"
LONGEST = timedelta(days=1)
MOST_WHY = 600
MOST_SPELLS = 5


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

    @property
    def steps_that_move(self) -> bool:
        return any(step.step in ("land", "load") for step in self.steps)


class EarlierLoad(Model):
    """A run that had loaded hours of another one's range before that began, the last of them `at`; the rest
    as of a RunRecord."""

    dag_id: str
    run_id: str
    kind: str
    user: str
    at: str


class Worked(Model):
    start: str
    end: str


class RunRecord(Model):
    """One run of the hourly or the backfill DAG, or of `sluice run` (`dag_id` empty). `start` and `end` are
    the edges of its range, of an hourly one with all the hours that it goes back to; `worked` are the spells
    of it that had work to do, where that is not all of it; `user` who triggered it, empty for the scheduler.

    `why` says what stopped it, or why it moved nothing; `failed` is the try whose log has the error, where it
    is one of Airflow. `before`: who had done the hours of a run that had nothing to do."""

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
    worked: list[Worked] = Field(default_factory=list)
    why: str = ""
    failed: FailedTry | None = None
    before: list[EarlierLoad] = Field(default_factory=list)


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
    """`start` and `end` are the edges of its range, None where its parameters name none; `batches` that it
    has cut, None where it has not come so far; `worked` their spells; `failed` its first task that failed
    for good, or was at work when the run was cancelled by `ended_by`."""

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
    batches: int | None = None
    worked: tuple[tuple[datetime, datetime], ...] = ()
    failed: FailedTry | None = None
    ended_by: str = ""
    dry: bool = False

    @property
    def why(self) -> str:
        """Returns what stopped it, or why it had nothing to do; empty where it is under way, or did it."""
        if self.dry and self.state == "success":
            return "A dry run: the log of its task plan has what it would do."
        if self.state == "success" and self.batches == 0:
            return "Nothing to do: every hour of it was complete."
        if self.state == CANCELLED:
            step = self.failed.task_id.removeprefix(_GROUP) if self.failed else ""
            return cancelled_while(visible(self.ended_by), step)
        if self.state != "failed":
            return ""
        if self.failed is None:
            return "No task of it failed: it took too long, or somebody ended it."
        return f"Stopped in {step_name(self.failed.task_id)}"


def step_name(task_id: str) -> str:
    """Returns `load a.b` for the task `batch.load.a.b`."""
    return task_id.removeprefix(_GROUP).replace("load.", "load ", 1)


def records_of_runs(
    runs: Sequence[AirflowRun],
    timings: Sequence[Timing],
    within: SliceRange | None = None,
    now: datetime | None = None,
) -> list[RunRecord]:
    """Returns the runs and the commands that have left timings, the newest first. With `within`, of the
    commands those that were under way then: timings are kept by day. A command without an end is lost after
    `LONGEST`, as far as it is known what time it is."""
    timings_by_run = _by_run(runs, timings)
    records = [_record(run, timings_by_run.get(run.run_id, [])) for run in runs]
    run_ids = {run.run_id for run in runs}
    commands = [
        _command(name, steps, now)
        for name, steps in timings_by_run.items()
        if name not in run_ids and (within is None or _overlaps(steps, within))
    ]
    every = sorted([*records, *commands], key=lambda record: record.started or "~", reverse=True)
    return [with_earlier(record, every, timings) for record in every[:MOST_RUNS]]


_MOST_EARLIER = 3


def with_earlier(record: RunRecord, records: Sequence[RunRecord], timings: Iterable[Timing]) -> RunRecord:
    """Returns the record; of a run that ended well and moved nothing with who had loaded its hours before, as
    far as `timings` say it, the newest first."""
    if record.state != "success" or record.moved.steps_that_move or not record.start:
        return record
    first, end = (utc(datetime.fromisoformat(text)) for text in (record.start, record.end))
    known = {one.run_id: one for one in records}
    last_loads: dict[str, str] = {}
    for timing in timings:
        start, until = _span(timing)
        touches = timing.step == "load" and start < end and first < until
        if touches and timing.run in known and timing.started < record.started:
            last_loads[timing.run] = max(last_loads.get(timing.run, ""), timing.started)
    newest = sorted(last_loads.items(), key=itemgetter(1), reverse=True)[:_MOST_EARLIER]
    earlier = [
        EarlierLoad(
            dag_id=known[name].dag_id, run_id=name, kind=known[name].kind, user=known[name].user, at=at
        )
        for name, at in newest
    ]
    return record.model_copy(update={"before": earlier})


def _span(timing: Timing) -> tuple[datetime, datetime]:
    start, until = (utc(datetime.fromisoformat(text)) for text in (timing.start, timing.until))
    return start, until


def _by_run(runs: Sequence[AirflowRun], timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    run_ids = {run.run_id for run in runs}
    timings_by_run: dict[str, list[Timing]] = {}
    for timing in timings:
        if timing.run in run_ids or _COMMAND.fullmatch(timing.run):
            timings_by_run.setdefault(timing.run, []).append(timing)
    return timings_by_run


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
        worked=_worked(run),
        why=run.why,
        failed=None if run.state == CANCELLED else run.failed,
    )


def _worked(run: AirflowRun) -> list[Worked]:
    if run.worked == ((run.start, run.end),):
        return []
    return [Worked(start=iso(start), end=iso(end)) for start, end in run.worked[:MOST_SPELLS]]


def _command(token: str, steps: Sequence[Timing], now: datetime | None) -> RunRecord:
    """Returns the record of a command: of `sluice run` as it has noted itself, of another by its steps."""
    started, ended = min(map(_start, steps)), _end(steps)
    loads = [step for step in steps if step.step == "load"]
    by_steps = RunRecord(
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
    notes = [step for step in steps if step.step == COMMAND]
    return _as_noted(by_steps, notes[-1], now) if notes else by_steps


def _as_noted(record: RunRecord, note: Timing, now: datetime | None) -> RunRecord:
    """Returns the record with what the command has noted of itself: who, how it ended, and how long it
    took."""
    running = note.state == RUNNING
    if running and now is not None and now - _start(note) > LONGEST:
        note = replace(note, state="lost", error="It has noted no end: it was killed, or its machine ended.")
    return record.model_copy(
        update={
            "state": visible(note.state),
            "user": visible(note.user),
            "started": iso(_start(note)),
            "ended": "" if running else iso(_end([note])),
            "seconds": None if running else round(note.seconds, 1),
            "start": note.start,
            "end": note.until,
            "tables": [visible(note.table)] if note.table else record.tables,
            "why": visible(note.error, MOST_WHY),
        }
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
        loaded=sum(step.rows - step.rejected for step in loaded),
        land_seconds=round(sum(step.seconds for step in landed), 1),
        load_seconds=round(sum(step.seconds for step in loaded), 1),
        steps=amounts_of(steps),
    )


def amounts_of(steps: Iterable[Timing]) -> list[StepAmount]:
    """Returns the amounts of each step and table, in the order in which they first ended. What is landed or
    loaded adds up; an hour that is verified again, in another try or at the run's end, is the same hour."""
    timings_by_step: dict[tuple[str, str], list[Timing]] = {}
    for step in (one for one in steps if one.step != COMMAND):
        timings_by_step.setdefault((step.step, step.table), []).append(step)
    return [
        StepAmount(
            step=name,
            table=table,
            units=sum(timing.units for timing in counted),
            rows=sum(timing.rows - timing.rejected for timing in counted),
            bytes=sum(timing.bytes for timing in counted),
            seconds=round(sum(timing.seconds for timing in timings), 1),
        )
        for (name, table), timings in timings_by_step.items()
        for counted in [timings if name in _MOVES else _widest(timings)]
    ]


_MOVES = "land", "load"


def _widest(timings: Iterable[Timing]) -> list[Timing]:
    """Returns the timings whose range is in no other one's, the newest of each range."""
    spans = [(_span(timing), timing) for timing in timings]
    spans.sort(key=lambda one: one[1].started, reverse=True)
    spans.sort(key=lambda one: (one[0][0], -one[0][1].timestamp()))
    widest: list[Timing] = []
    reached: datetime | None = None
    for (_, until), timing in spans:
        if reached is None or until > reached:
            widest.append(timing)
            reached = until
    return widest


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
    """How many of `batches` batches stand where with a step; each batch is counted once.

    `waiting`: its turn is to come. `skipped`: the run is not for that table, or had nothing to do there.
    `held`: it never began, for a step before it failed, or the run was over before its turn."""

    step: str
    done: int
    running: int
    waiting: int
    failed: int
    skipped: int
    held: int
    batches: int


class ProgressView(Model):
    """`share` is how much of the run is done, from 0 to 1: it moves with each step of each batch. `heading`
    says how the run stands, or how it ended, and `said` how many hours are done: of a run that is over by
    the states of the page's cells, as `cells` count them. `advice` is that of run_outcome.py. `did` is what
    the run did, once it has ended; `why`, `failed` and `before` are as of a RunRecord."""

    dag_id: str
    run_id: str
    state: str
    started: str
    ended: str
    heading: str
    said: str
    cells: dict[str, int] = Field(default_factory=dict)
    advice: str = ""
    share: float
    steps: list[StepProgress]
    did: list[StepAmount] = Field(default_factory=list)
    why: str = ""
    failed: FailedTry | None = None
    before: list[EarlierLoad] = Field(default_factory=list)


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
        states = {
            task.map_index: task.state
            for task in run.tasks
            if task.task_id == _GROUP + step and 0 <= task.map_index < batches
        }
        columns = Counter(_column(states.get(number), run.state) for number in range(batches))
        counts.append(
            StepProgress(
                step=step_name(step),
                batches=batches,
                **{column: columns[column] for column in _COLUMNS},
            )
        )
    return counts


_COLUMNS = "done", "running", "waiting", "failed", "skipped", "held"


def _column(state: str | None, run_state: str) -> str:
    """Returns the one column in which a task is counted."""
    if state == "success":
        return "done"
    if state == "failed":
        return "failed"
    if state == "upstream_failed":
        return "held"
    if run_state in ACTIVE:
        return "skipped" if state == "skipped" else "running" if state in BUSY else "waiting"
    # Airflow skips what a run that is ended by hand had still to do.
    return "skipped" if state == "skipped" and run_state == "success" else "held"


def share_done(run: DagRunView, counts: Sequence[StepProgress]) -> float:
    """Returns how much of the run is done, from 0 to 1: each step of a batch counts alike, and half while it
    is under way. It is 1 only when the run has succeeded."""
    if run.state == "success":
        return 1.0
    total = sum(step.batches for step in counts)
    if not total:
        return 0.0
    done = sum(step.done + step.skipped + _BEGUN * step.running for step in counts)
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
# A step is timed with the run's id. One of an earlier Sluice without it belongs to the run whose steps it
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
    held = (timing for timing in timings if timing.step != COMMAND and _holds(timing, slice_))
    steps = sorted(held, key=lambda timing: timing.started)
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
    start, until = _span(timing)
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
