"""What holds of an hour, in one sentence, and what a person may have to act on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.facts import lacking, targets_of
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import Verdict
from sluice.page.findings import (
    Known,
    finding,
    findings_of,
    paused_advice,
    paused_words,
    repair_row,
    table_of,
)
from sluice.page.models import Cell, FailedTry, Finding, FindingKind, Model, OverviewCell, RepairRow
from sluice.page.odd import Odd
from sluice.safe_text import visible
from sluice.slices import Unit
from sluice.state.held import Held, release_command
from sluice.state.row_balance import without_table
from sluice.state.rules import Difference
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.problems import Alarm, ProblemKind

_BAD, _WARN, _NONE, _GOOD = "bad", "warn", "", "good"
_TONES = {
    **dict.fromkeys((Cell.BROKEN, Cell.FAILED, Cell.EXPIRED), _BAD),
    **dict.fromkeys((Cell.LATE, Cell.NO_TABLE, Cell.LOSSY, Cell.STALE, Cell.ODD), _WARN),
    Cell.VERIFIED: _GOOD,
}
_NAMED = 5


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


@dataclass(frozen=True)
class SliceFacts:
    """All that is known of one hour. `gone`: target tables that are not there, None where nobody asked;
    `paused`: whether the hourly DAG is, None where Airflow has none; `alarms`: what the watch has seen;
    `odd`: what is unusual; `held`: what checks hold of it; `differences`: the rules of each unit that aren't
    the pipeline file's."""

    pipeline: Pipeline
    cell: OverviewCell
    statuses: Sequence[UnitStatus]
    now: datetime
    verdict: Verdict = field(default_factory=Verdict)
    runs: Sequence[RunRow] = ()
    alarms: Sequence[Alarm] = ()
    gone: Collection[str] | None = None
    paused: bool | None = False
    odd: Sequence[Odd] = ()
    differences: Mapping[Unit, Sequence[Difference]] = field(default_factory=dict)
    held: Sequence[Held] = ()

    @property
    def state(self) -> Cell:
        return self.cell.cell


def tone_of(cell: Cell) -> str:
    return _TONES.get(cell, _NONE)


def said(facts: SliceFacts, hour_findings: Sequence[Finding]) -> str:
    """Returns the sentence on the hour: which tables have it, and whether its counts match."""
    done = bool(facts.statuses) and all(status.state.done for status in facts.statuses)
    where = "Every table has it" if done else _where(facts)
    if facts.state is Cell.BROKEN:
        wrong = [one.what for one in hour_findings if one.kind is FindingKind.DAMAGE]
        return f"{where}, {'but' if done else 'and'} {'; '.join(wrong[:_NAMED])}."
    if facts.state is Cell.ODD:
        return f"{where}, but {'; '.join(odd.what for odd in facts.odd[:_NAMED]) or 'it is unusual'}."
    if not done:
        return f"{where}."
    counted = {
        Cell.VERIFIED: "and all counts match",
        Cell.EMPTY: "and it has no row",
        Cell.LOSSY: "without what Kafka had lost",
        Cell.FORGOTTEN: f"and the lake forgot its files on {_forgotten(facts)}",
    }.get(facts.state, "and verify has not counted it since it was loaded")
    return f"{where}, {counted}."


def _forgotten(facts: SliceFacts) -> str:
    """Returns the day on which the lake forgot files of the hour, the first of its units' days."""
    return min((s.forgotten_on[:10] for s in facts.statuses if s.forgotten_on), default="an unknown day")


def _where(facts: SliceFacts) -> str:
    if facts.state in (Cell.OPEN, Cell.BEFORE):
        return "The hour is not over" if facts.state is Cell.OPEN else "The pipeline begins later"
    missing = [s.unit.cluster for s in facts.statuses if s.manifest is None]
    lacking = _lacking(facts)
    if missing and len(missing) < len(facts.statuses):
        return f"Cluster {', '.join(missing)} has not landed; the others have"
    if missing:
        expired = facts.state is Cell.EXPIRED
        return "Nothing of it has landed" + (", and Kafka no longer has all of it" if expired else "")
    return f"It is in the lake, but not in {_named(lacking)}" if lacking else "It is in the lake"


def _lacking(facts: SliceFacts) -> list[str]:
    """Returns the tables that lack a landed unit, or hold its rows of an earlier landing."""
    targets = targets_of(facts.pipeline)
    landed = [s for s in facts.statuses if s.manifest is not None and not s.state.done]
    behind = frozenset().union(*(lacking(facts.pipeline, targets, status) for status in landed))
    return [table for table in targets if table in behind]


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def findings(facts: SliceFacts) -> list[Finding]:
    """Returns what the pipeline's list says of the hour, with what keeps it from being complete, and what
    landed units lack."""
    waits = any(not s.state.done and s.state is not UnitState.NOT_OVER for s in facts.statuses)
    known, shown = _known(facts, waits), waits and facts.state is not Cell.BEFORE
    of_hour = [*(_unfinished(facts, known) if shown else ()), *_left_out(facts)]
    return findings_of(known, of_hour)


def _known(facts: SliceFacts, waits: bool) -> Known:
    """Returns what the list starts from: of the watch's alarms those that may be why the hour waits."""
    lacks, ids = set(_lacking(facts)), {str(status.unit) for status in facts.statuses}
    about = [alarm for alarm in facts.alarms if _is_about(alarm, lacks, ids)]
    verdict = facts.verdict
    return Known(
        pipeline=facts.pipeline,
        now=facts.now,
        cells=[facts.cell],
        anomalies=verdict.anomalies,
        verifications=verdict.verifications,
        alarms=about if waits else (),
        gone=None if facts.gone is None else [name for name in facts.gone if name in lacks],
        absent=facts.gone,
        odd=facts.odd,
        paused=facts.paused,
        one=True,
    )


def _is_about(alarm: Alarm, lacks: Collection[str], ids: Collection[str]) -> bool:
    problem = alarm.problem
    if problem.kind is ProblemKind.TABLE:
        return table_of(problem.place) in lacks
    return problem.kind is ProblemKind.UNAVAILABLE or problem.place.removeprefix("slice ") in ids


def _unfinished(facts: SliceFacts, known: Known) -> Iterator[Finding]:
    yield from (_expired(facts, status) for status in facts.statuses if status.state is UnitState.EXPIRED)
    missing = [s.unit.cluster for s in facts.statuses if s.state is UnitState.MISSING]
    held = {one.rows.table for one in facts.held}
    yield from (_held(facts, table) for table in sorted(held))
    behind = [table for table in _lacking(facts) if table not in known.missing and table not in held]
    if missing:
        message = f"The lake has nothing of it from cluster {', '.join(missing)}."
        yield _waiting(facts, known, "Not landed", message, ProblemKind.OVERDUE)
    if behind:
        have = "lacks it, or has" if len(behind) == 1 else "lack it, or have"
        message = f"{_named(behind)} {have} the rows of an earlier landing."
        yield _waiting(facts, known, "Not loaded", message, ProblemKind.NOT_COMMITTED)
    if not missing and not behind and not held:  # a failed run may say why a table is not there
        yield from (one for one in [_failed(facts)] if one)


def _waiting(facts: SliceFacts, known: Known, what: str, message: str, kind: ProblemKind) -> Finding:
    """Returns what the hour waits for: the newest run failed, the DAG is paused, or a run is to come."""
    since = min((a.since for a in known.open_alarms if a.problem.kind is kind), default="")
    repairs = [_repair(facts, "fill")]
    if failed := _failed(facts):
        said = f"{message} {failed.message}"
        return failed.model_copy(update={"message": said, "since": since, "repairs": repairs, "slices": 1})
    reason = paused_words(known)
    if reason and kind is ProblemKind.OVERDUE:
        more = {"effect": what.lower(), "message": message, "advice": paused_advice(known)}
        return finding(FindingKind.LATE, reason, since=since, repairs=repairs, **more)
    untouched = "No run of Airflow has touched it: the next hourly run goes back to it."
    advice = paused_advice(known) or ("" if facts.runs else untouched)
    late = facts.state is Cell.LATE
    kind_ = FindingKind.LATE if late else FindingKind.NOTE
    return finding(kind_, what, message=message, since=since, repairs=repairs, advice=advice)


def _held(facts: SliceFacts, table: str) -> Finding:
    some = [one for one in facts.held if one.rows.table == table]
    rows = ", ".join(dict.fromkeys(one.rows.words for one in some))
    return finding(
        FindingKind.HELD,
        f"A check holds it out of {table}",
        message=f"{rows}.",
        advice="Correct what sends them, or release the hour: then a fill loads these rows, too.",
        release=table,
        repairs=[
            RepairRow(command=release_command(facts.pipeline, table, [one.slice for one in some])),
            _repair(facts, "fill"),
        ],
        slices=1,
        first=facts.cell.id,
        last=facts.cell.id,
    )


def _expired(facts: SliceFacts, status: UnitStatus) -> Finding:
    """Returns the finding on an expired unit. Of one that no run has resolved only the watch knows how much
    has expired."""
    expiry = next((alarm for alarm in facts.alarms if _is_expiry(alarm, {str(status.unit)})), None)
    lost = sum(loss.until - loss.start for loss in status.losses)
    counted = finding(
        FindingKind.EXPIRED,
        "Kafka no longer has the records",
        effect=f"cluster {status.unit.cluster}",
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


def _failed(facts: SliceFacts) -> Finding | None:
    """Returns the failed task of the newest run, the first one where several have."""
    for run in facts.runs[:1]:
        for task in run.tasks:
            if task.state in ("failed", "up_for_retry"):
                return _failed_task(run, task)
    return None


def _failed_task(run: RunRow, task: TaskRow) -> Finding:
    again = task.state == "up_for_retry"
    return finding(
        FindingKind.LATE if again else FindingKind.FAILED,
        f"{task.task_id} failed" + (", and is tried again" if again else ""),
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
            repairs = [_repair(facts, "reland")]
            yield finding(FindingKind.PROBLEM, f"{cluster}: topics", message=message, repairs=repairs)
        for difference in facts.differences.get(status.unit, ()):
            yield finding(
                FindingKind.NOTE,
                f"{cluster}: rules",
                message=f"It has another {visible(difference.rule)} than the pipeline file.",
                advice=f"nothing is wrong: {difference.advice}",
            )
        if lost := sum(loss.until - loss.start for loss in manifest.lost):
            message = f"{lost:,} offsets had expired in Kafka when it landed: nothing brings them back."
            yield finding(FindingKind.LOSS, f"{cluster}: loss", message=message)
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
    return finding(FindingKind.NOTE, f"{cluster}: without a table", message=message, advice=advice)


def _repair(facts: SliceFacts, mode: str) -> RepairRow:
    slice_ = facts.statuses[0].unit.slice
    return repair_row(Repairs.of(facts.pipeline).run([slice_], mode))
