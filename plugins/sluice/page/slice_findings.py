"""What holds of an hour, in one sentence, and what a person may have to act on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.facts import lacking, targets_of
from sluice.flow.verify.repairs import Repairs
from sluice.page.models import Cell, Model
from sluice.page.overview import CauseRow, RepairRow, repair_row
from sluice.safe_text import visible
from sluice.slices import Unit
from sluice.state.row_balance import without_table
from sluice.state.rules import Difference
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.problems import Alarm, ProblemKind

_BAD, _WARN, _NONE, _GOOD = "bad", "warn", "", "good"
_TONES = {
    **dict.fromkeys((Cell.BROKEN, Cell.FAILED, Cell.EXPIRED), _BAD),
    **dict.fromkeys((Cell.LATE, Cell.NO_TABLE, Cell.LOSSY, Cell.STALE), _WARN),
    Cell.VERIFIED: _GOOD,
}
_NAMED = 5
_ABOUT = frozenset({ProblemKind.UNAVAILABLE, ProblemKind.TABLE})
"""Problems of the watch that may be why any hour is late."""


class TaskRow(Model):
    """`map_index` is the batch, -1 outside of batches; `tries` counts the attempts so far."""

    task_id: str
    map_index: int
    state: str
    tries: int
    started: str
    seconds: float | None


class RunRow(Model):
    dag_id: str
    run_id: str
    state: str
    started: str
    asked: str
    tasks: list[TaskRow]


class FailedTry(Model):
    """A try of a task, whose log says why it failed; `map_index` is -1 outside batches."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    tries: int


class Finding(Model):
    """Something of the hour that a person may have to act on. `tone` is bad, warn or none; `repair` the
    command that ends it, and `run` the try whose log says more. `since` is ISO 8601, or empty."""

    tone: str
    title: str
    message: str
    since: str = ""
    advice: str = ""
    repair: RepairRow | None = None
    run: FailedTry | None = None


@dataclass(frozen=True)
class SliceFacts:
    """All that is known of one hour. `gone`: target tables that are not there; `paused`: whether the hourly
    DAG is, None where Airflow has none; `alarms`: what the watch has seen; `differences`: the rules of each
    unit that aren't the pipeline file's."""

    pipeline: Pipeline
    cell: Cell
    statuses: Sequence[UnitStatus]
    causes: Sequence[CauseRow]
    runs: Sequence[RunRow] = ()
    alarms: Sequence[Alarm] = ()
    gone: Collection[str] = ()
    paused: bool | None = False
    differences: Mapping[Unit, Sequence[Difference]] = field(default_factory=dict)


def tone_of(cell: Cell) -> str:
    return _TONES.get(cell, _NONE)


def said(facts: SliceFacts) -> str:
    """Returns the sentence on the hour: which tables have it, and whether its counts hold."""
    done = bool(facts.statuses) and all(status.state.done for status in facts.statuses)
    where = "Every table has it" if done else _where(facts)
    if facts.cell is Cell.BROKEN:
        wrong = [cause for cause in facts.causes if cause.breaks]
        names = ", ".join(f"{cause.name} ({cause.place})" for cause in wrong[:_NAMED])
        return f"{where}, but verify found what does not hold: {names}."
    if not done:
        return f"{where}."
    counted = {
        Cell.VERIFIED: "and verify found every count to hold",
        Cell.LOSSY: "without what Kafka had lost",
        Cell.FORGOTTEN: f"and the lake forgot its files on {_forgotten(facts)}",
    }.get(facts.cell, "and verify has not counted it since it was loaded")
    return f"{where}, {counted}."


def _forgotten(facts: SliceFacts) -> str:
    """Returns the day on which the lake forgot files of the hour, the first of its units' days."""
    return min((s.forgotten_on[:10] for s in facts.statuses if s.forgotten_on), default="an unknown day")


def _where(facts: SliceFacts) -> str:
    if facts.cell in (Cell.OPEN, Cell.BEFORE):
        return "The hour is not over" if facts.cell is Cell.OPEN else "The pipeline begins later"
    missing = [s.unit.cluster for s in facts.statuses if s.manifest is None]
    lacking = _lacking(facts)
    if missing and len(missing) < len(facts.statuses):
        return f"Cluster {', '.join(missing)} has not landed; the others have"
    if missing:
        expired = facts.cell is Cell.EXPIRED
        return "Nothing of it has landed" + (", and Kafka no longer has all of it" if expired else "")
    return f"It is in the lake, and not in {_named(lacking)}" if lacking else "It is in the lake"


def _lacking(facts: SliceFacts) -> list[str]:
    """Returns the tables that lack a landed unit, or hold its rows of an earlier landing."""
    targets = targets_of(facts.pipeline)
    landed = [s for s in facts.statuses if s.manifest is not None and not s.state.done]
    behind = frozenset().union(*(lacking(facts.pipeline, targets, status) for status in landed))
    return [table for table in targets if table in behind]


def missing_tables(facts: SliceFacts) -> list[str]:
    """Returns the tables that lack the hour because they are not there."""
    return [table for table in _lacking(facts) if table in facts.gone]


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def findings(facts: SliceFacts) -> list[Finding]:
    """Returns what keeps the hour from being complete, and why; then what landed units lack."""
    waits = any(not s.state.done and s.state is not UnitState.NOT_OVER for s in facts.statuses)
    unfinished = [*_unfinished(facts), *_why(facts)] if waits and facts.cell is not Cell.BEFORE else []
    return [*unfinished, *_left_out(facts)]


def _unfinished(facts: SliceFacts) -> Iterator[Finding]:
    repair = _repair(facts, "fill")
    yield from (_expired(facts, status) for status in facts.statuses if status.state is UnitState.EXPIRED)
    missing = [s.unit.cluster for s in facts.statuses if s.state is UnitState.MISSING]
    if missing:
        yield Finding(
            tone=_WARN,
            title="Not landed",
            message=f"The lake has nothing of it from cluster {', '.join(missing)}.",
            repair=repair,
        )
    if gone := missing_tables(facts):
        yield Finding(
            tone=_BAD,
            title="Table missing",
            message=f"{_named(gone)} is not in ClickHouse, so no run can load it.",
            since=min((alarm.since for alarm in facts.alarms if _is_of_tables(alarm, gone)), default=""),
            advice=f"`{facts.pipeline.command('verify')}` prints its CREATE TABLE; then fill the hour.",
            repair=repair,
        )
    if behind := [table for table in _lacking(facts) if table not in facts.gone]:
        message = f"{_named(behind)} lacks it, or has the rows of an earlier landing."
        yield Finding(tone=_WARN, title="Not loaded", message=message, repair=repair)


def _expired(facts: SliceFacts, status: UnitStatus) -> Finding:
    """Returns the finding on an expired unit. Of one that no run has resolved only the watch knows how much
    has expired."""
    expiry = next((alarm for alarm in facts.alarms if _is_expiry(alarm, {str(status.unit)})), None)
    lost = sum(loss.until - loss.start for loss in status.losses)
    counted = Finding(
        tone=_BAD,
        title=f"Cluster {status.unit.cluster}: expired in Kafka",
        message=f"Up to {lost:,} of its offsets are gone, and the hour has not landed.",
        since=expiry.since if expiry else "",
        advice="`on_expired: land_rest` in its file lands what is left and records the loss.",
    )
    if status.losses or expiry is None:
        return counted
    return counted.model_copy(update={"message": expiry.problem.message, "advice": ""})


def _is_expiry(alarm: Alarm, units: Collection[str]) -> bool:
    problem = alarm.problem
    named = problem.kind is ProblemKind.EXPIRED and problem.place.removeprefix("slice ") in units
    return named and not alarm.over


def _is_of_tables(alarm: Alarm, tables: Collection[str]) -> bool:
    places = {f"table {table}" for table in tables}
    return not alarm.over and alarm.problem.kind is ProblemKind.TABLE and alarm.problem.place in places


def _why(facts: SliceFacts) -> Iterator[Finding]:
    """Yields failed tasks of the newest run, problems of the watch, and whether any run will take the
    hour."""
    for run in facts.runs[:1]:
        for task in [task for task in run.tasks if task.state in ("failed", "up_for_retry")]:
            yield _failed(run, task)
    ids = {str(status.unit) for status in facts.statuses}
    gone = missing_tables(facts)
    expired = {str(status.unit) for status in facts.statuses if status.state is UnitState.EXPIRED}
    for alarm in facts.alarms:
        if _is_of_tables(alarm, gone) or _is_expiry(alarm, expired):
            continue
        problem = alarm.problem
        about = problem.kind in _ABOUT or problem.place.removeprefix("slice ") in ids
        if about and not alarm.over:
            title = f"{problem.kind}: {problem.place}"
            yield Finding(tone=_WARN, title=title, message=problem.message, since=alarm.since)
    if facts.paused is not False:
        name = facts.pipeline.name
        what = "is paused" if facts.paused else "is not in Airflow"
        advice = f"`airflow dags unpause {name}`" if facts.paused else "`airflow dags list-import-errors`"
        yield Finding(
            tone=_WARN, title=f"DAG {name} {what}", message="No hourly run takes this hour.", advice=advice
        )
    elif not facts.runs:
        message = "No run of Airflow has touched it: the next hourly run goes back to it."
        yield Finding(tone=_NONE, title="No run yet", message=message)


def _failed(run: RunRow, task: TaskRow) -> Finding:
    again = task.state == "up_for_retry"
    return Finding(
        tone=_WARN if again else _BAD,
        title=f"{task.task_id} failed" + (", and is tried again" if again else ""),
        message=f"Attempt {task.tries} in run {run.run_id} of {run.dag_id}, begun {task.started}.",
        run=FailedTry(
            dag_id=run.dag_id,
            run_id=run.run_id,
            task_id=task.task_id,
            map_index=task.map_index,
            tries=task.tries,
        ),
    )


def _left_out(facts: SliceFacts) -> Iterator[Finding]:
    for status in facts.statuses:
        manifest, cluster = status.manifest, f"Cluster {status.unit.cluster}"
        if manifest is None:
            continue
        if status.lacking:
            message = f"It {visible(status.lacks)}: the pipeline file names it since then."
            yield Finding(
                tone=_WARN, title=f"{cluster}: topics", message=message, repair=_repair(facts, "reland")
            )
        for difference in facts.differences.get(status.unit, ()):
            yield Finding(
                tone=_NONE,
                title=f"{cluster}: rules",
                message=f"It has another {visible(difference.rule)} than the pipeline file.",
                advice=f"nothing is wrong: {difference.advice}",
            )
        if lost := sum(loss.until - loss.start for loss in manifest.lost):
            message = f"{lost:,} offsets had expired in Kafka when it landed: nothing brings them back."
            yield Finding(tone=_WARN, title=f"{cluster}: loss", message=message)
        if without := without_table(facts.pipeline, manifest):
            yield _without(cluster, without, status.forgotten_on)


def _without(cluster: str, without: Mapping[str, int], forgotten_on: str) -> Finding:
    """A table that is named later gets nothing of an hour whose files the lake has forgotten."""
    rows = f"{sum(without.values()):,} rows of type {_named([visible(name) for name in without])}"
    message = f"{rows} are in the lake, and no table takes them."
    then = "a `fill` then loads them"
    if forgotten_on:
        message = f"{rows} had no table, and the lake forgot them on {forgotten_on[:10]}."
        then = "a `reland` then brings them, as long as Kafka has the hour"
    advice = f"name the types under `tables:`, or `*` for all others; {then}"
    return Finding(tone=_NONE, title=f"{cluster}: without a table", message=message, advice=advice)


def _repair(facts: SliceFacts, mode: str) -> RepairRow:
    slice_ = facts.statuses[0].unit.slice
    return repair_row(Repairs.of(facts.pipeline).run([slice_], mode))
