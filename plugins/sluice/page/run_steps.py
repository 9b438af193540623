"""How far a run is: each batch is landed, loaded into each table, verified and published. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.page.airflow_runs import DagRunView

_GROUP = "batch."
_ORDER = ("land", "load", "verify", "publish")
_WELL = frozenset({"success", "skipped"})  # a table that the run is not for is skipped
_WRONG = frozenset({"failed", "upstream_failed"})
_BUSY = frozenset({"running", "queued", "scheduled", "restarting", "up_for_retry", "deferred"})
# Of the bar, for the batches that are cut; and as much as is shown before Airflow says that the run is over.
_CUT, _NEARLY = 0.02, 0.99
_BEGUN = 0.5  # of a step that is under way


@dataclass(frozen=True)
class StepCount:
    """Of `batches` batches, those in which the step is done, under way or failed. A step is `land`,
    `load <task>` for each table, `verify` or `publish`."""

    step: str
    done: int
    running: int
    failed: int
    batches: int


def step_counts(run: DagRunView, steps: Iterable[str]) -> list[StepCount]:
    """Returns the counts of each step, in the order of the DAG. `steps` are the names of a batch's tasks,
    without the group's."""
    batches = len(run.batches or ())
    counts = []
    for step in sorted(steps, key=_place):
        states = [task.state for task in run.tasks if task.task_id == _GROUP + step and task.map_index >= 0]
        done = batches if run.state == "success" else sum(state in _WELL for state in states)
        running, failed = (sum(state in step_states for state in states) for step_states in (_BUSY, _WRONG))
        counts.append(StepCount(step.replace("load.", "load ", 1), done, running, failed, batches))
    return counts


def share_done(run: DagRunView, counts: Iterable[StepCount]) -> float:
    """Returns how much of the run is done, from 0 to 1: each step of a batch counts alike, and half while it
    is under way. It is 1 only when the run has succeeded."""
    if run.state == "success":
        return 1.0
    counts = list(counts)
    total = sum(step.batches for step in counts)
    if not total:
        return 0.0
    done = sum(step.done + _BEGUN * step.running for step in counts)
    return round(min(_CUT + (1 - _CUT) * done / total, _NEARLY), 3)


def _place(step: str) -> tuple[int, str]:
    kind = step.partition(".")[0]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER), step
