"""What Airflow is doing to each hour: from runs and their tasks to a phase per slice. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

RunSpan = tuple[int, int]
"""`[start, end)` in seconds since the epoch."""


class Phase(StrEnum):
    QUEUED = "queued"
    SETTLING = "settling"
    RESOLVING = "resolving"
    LANDING = "landing"
    LOADING = "loading"
    VERIFYING = "verifying"
    PUBLISHING = "publishing"
    FAILED = "failed"


UNREAD = frozenset({Phase.QUEUED, Phase.SETTLING, Phase.RESOLVING})
"""Phases in which a run reads nothing yet."""
SETTLE = "settle"
"""The task that waits until records on their way have arrived."""


@dataclass(frozen=True)
class TaskRun:
    """One task instance; `map_index` is its batch, -1 outside the batches. `state` None: not scheduled."""

    task_id: str
    map_index: int
    state: str | None


@dataclass(frozen=True)
class DagRunView:
    """One run of a pipeline's DAGs: what it was asked for, and its batches once they are cut."""

    dag_id: str
    run_id: str
    state: str
    asked: RunSpan | None
    batches: tuple[RunSpan, ...] | None
    tasks: tuple[TaskRun, ...]


@dataclass(frozen=True)
class SliceActivity:
    """What the newest run that touches a slice does to it, or that it failed there."""

    phase: Phase
    dag_id: str
    run_id: str

    @property
    def running(self) -> bool:
        return self.phase is not Phase.FAILED


ACTIVE = ("queued", "running")
"""States of a run that is not over."""
CANCELLED = "cancelled"
"""The state of a run that a person has ended. Airflow has none: it calls such a run failed, or a success."""
BUSY = frozenset({"running", "queued", "scheduled", "restarting", "up_for_retry", "deferred"})
_WAITING = BUSY | {"up_for_reschedule"}
WELL = frozenset({"success", "skipped"})  # a table that the run is not for is skipped
WRONG = frozenset({"failed", "upstream_failed"})
_ORDER = (
    ("batch.land", Phase.LANDING),
    ("batch.load.", Phase.LOADING),
    ("batch.verify", Phase.VERIFYING),
    ("batch.publish", Phase.PUBLISHING),
)


def work_of(
    runs: Iterable[DagRunView], starts: Collection[int], length: timedelta
) -> dict[int, SliceActivity]:
    """Returns the activity by slice start (seconds since the epoch), of those in `starts`. The newest of
    `runs` comes first, and decides about every slice that it touched; a slice where it ended well is left
    out."""
    seconds = int(length.total_seconds())
    newest: dict[int, SliceActivity | None] = {}
    for run in runs:
        for span, phase in _phases(run):
            work = None if phase is None else SliceActivity(phase, run.dag_id, run.run_id)
            for start in _starts(span, starts, seconds):
                newest.setdefault(start, work)
        if len(newest) == len(starts):
            break
    return {start: work for start, work in newest.items() if work is not None}


def progress(run: DagRunView, length: timedelta) -> tuple[int, int, str]:
    """Returns (slices with work, those that are done, what is being done to the others); however long the run
    is."""
    seconds, total, done = int(length.total_seconds()), 0, 0
    busy: set[Phase] = set()
    for (start, end), phase in _phases(run):
        slices = (end - start) // seconds
        total += slices
        if phase is None:
            done += slices
        else:
            busy.add(phase)
    return total, done, str([phase for phase in Phase if phase in busy][-1]) if busy else ""


def joined(spans: Iterable[RunSpan]) -> list[RunSpan]:
    """Returns the spans in order, those that meet as one."""
    whole: list[RunSpan] = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((start, end))
    return whole


def hull(spans: Iterable[RunSpan]) -> RunSpan | None:
    """Returns the span from the first begin to the last end."""
    whole = joined(spans)
    return (whole[0][0], whole[-1][1]) if whole else None


def _starts(span: RunSpan, starts: Collection[int], seconds: int) -> Iterable[int]:
    if (span[1] - span[0]) // seconds > len(starts):
        return [start for start in starts if span[0] <= start < span[1]]
    return [start for start in range(span[0], span[1], seconds) if start in starts]


def _phases(run: DagRunView) -> Iterable[tuple[RunSpan, Phase | None]]:
    """Yields what the run does to each span of slices; None where it has ended well."""
    if run.batches:
        tasks = _by_batch(run.tasks)
        for number, batch in enumerate(run.batches):
            yield batch, _batch_phase(run, tasks.get(number, {}))
    elif run.asked is not None and run.batches is None:
        yield run.asked, _before_batches(run)


def _before_batches(run: DagRunView) -> Phase | None:
    if run.state == "failed":
        return Phase.FAILED
    if run.state in ("success", CANCELLED):
        return None
    if run.state == "queued":
        return Phase.QUEUED
    waits = any(task.task_id == SETTLE and task.state in _WAITING for task in run.tasks)
    return Phase.SETTLING if waits else Phase.RESOLVING


def _by_batch(tasks: Iterable[TaskRun]) -> dict[int, dict[str, str | None]]:
    states_by_batch: dict[int, dict[str, str | None]] = {}
    for task in (task for task in tasks if task.task_id.startswith("batch.")):
        states_by_batch.setdefault(task.map_index, {})[task.task_id] = task.state
    return states_by_batch


def _batch_phase(run: DagRunView, states: Mapping[str, str | None]) -> Phase | None:
    if run.state in ("success", CANCELLED):
        return None
    for prefix, phase in _ORDER:
        step_states = [state for task, state in states.items() if task.startswith(prefix)]
        if any(state in BUSY for state in step_states) and run.state != "failed":
            return phase
    if any(state in WRONG for state in states.values()):
        return Phase.FAILED
    if states and all(state in WELL for state in states.values()):
        return None
    return None if run.state == "failed" else Phase.LANDING
