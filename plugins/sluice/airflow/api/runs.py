"""Airflow's own knowledge of a pipeline's runs, from its database, which the API server may read.

What they are at work on, what they did by the lake's timings, and their tasks over one slice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from airflow.models.dagrun import DagRun, DagRunNote
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from fastapi import HTTPException
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from sluice.airflow.pipelines import BACKFILL, CLUSTER_TASK, backfill_dag_id, load_task_id
from sluice.airflow.run_params import DEFAULT_MODE, from_xcom, requested_slices, scheduled_slices
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import brief_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.page.airflow_runs import (
    ACTIVE,
    CANCELLED,
    SETTLE,
    DagRunView,
    RunSpan,
    TaskRun,
    hull,
    joined,
    progress,
)
from sluice.page.models import FailedTry
from sluice.page.run_history import (
    MOST_RUNS,
    AirflowRun,
    ProgressView,
    RunRecord,
    Runs,
    Throughput,
    records_of_runs,
    share_done,
    step_counts,
    throughput_of,
    with_earlier,
)
from sluice.page.run_outcome import advice_of, counted, heading, running_words
from sluice.page.slice_findings import RunRow, TaskRow
from sluice.page.status_cache import TimedCache
from sluice.plan.estimate import WholeRun, startup_of
from sluice.plan.modes import MISSING_COLUMNS
from sluice.slices import SliceRange, from_seconds, iso, utc
from sluice.state.notes import Timing, of_day
from sluice.watch.obstacles import AtWork

MOST = 300
_PLAN, _BATCHES = "plan", "resolve"


def runs_of(session: Session, pipeline: Pipeline, since: datetime) -> list[DagRunView]:
    """Returns the pipeline's runs that began after `since` or are under way: at most `MOST`, the newest
    first."""
    return as_runs(session, pipeline, _dag_runs(session, pipeline, since))


def active_runs(session: Session, pipeline: Pipeline) -> list[DagRunView]:
    """Returns the pipeline's runs that are queued or under way, the newest first."""
    runs = runs_of(session, pipeline, datetime.now(UTC))
    return [run for run in runs if run.state in ACTIVE]


def as_runs(session: Session, pipeline: Pipeline, dag_runs: Sequence[DagRun]) -> list[DagRunView]:
    """Returns the runs, each with the batches that it has cut and, where it has not succeeded, its tasks."""
    if not dag_runs:
        return []
    batches = _batches(session, [run.id for run in dag_runs], pipeline)
    tasks = tasks_of(session, [run for run in dag_runs if run.state != "success"])
    ended = ended_by_hand(session, dag_runs)
    return [
        DagRunView(
            run.dag_id,
            run.run_id,
            CANCELLED if (run.dag_id, run.run_id) in ended else str(run.state),
            asked_by(run, pipeline),
            batches.get(run.id),
            tasks.get((run.dag_id, run.run_id), ()),
        )
        for run in dag_runs
    ]


def _dag_runs(session: Session, pipeline: Pipeline, since: datetime) -> Sequence[DagRun]:
    recent = or_(DagRun.state.in_(ACTIVE), DagRun.run_after >= since, DagRun.start_date >= since)
    statement = (
        select(DagRun)
        .where(DagRun.dag_id.in_((pipeline.name, backfill_dag_id(pipeline.name))), recent)
        .order_by(DagRun.id.desc())
        .limit(MOST)
    )
    return session.scalars(statement).all()


def _batches(session: Session, run_ids: Sequence[int], pipeline: Pipeline) -> dict[int, tuple[RunSpan, ...]]:
    """Returns the batches that each run's `resolve` has cut, in the order of their map indexes. Left out are
    runs of which Airflow's database has a reference only: an XCom backend keeps their batches elsewhere."""
    cut_by_run = _returned(session, run_ids, _BATCHES)
    return {run: _spans(cut, pipeline) for run, cut in cut_by_run.items() if isinstance(cut, list)}


def _planned(session: Session, run_ids: Sequence[int], pipeline: Pipeline) -> dict[int, tuple[RunSpan, ...]]:
    """Returns the range of each run that its `plan` has made: of an hourly one with the hours that it goes
    back to."""
    ranges = _returned(session, run_ids, _PLAN)
    return {run: _spans([one], pipeline) for run, one in ranges.items() if isinstance(one, dict)}


def _returned(session: Session, run_ids: Sequence[int], task_id: str) -> dict[int, Any]:
    statement = select(XComModel.dag_run_id, XComModel.value).where(
        XComModel.dag_run_id.in_(run_ids),
        XComModel.task_id == task_id,
        XComModel.key == "return_value",
        XComModel.map_index == -1,
    )
    return {run: _kept_value(value) for run, value in session.execute(statement)}


def _kept_value(value: Any) -> Any:
    """Returns the value itself where it is no JSON: then it is a backend's reference."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return value


def _spans(cut: Sequence[dict[str, str]], pipeline: Pipeline) -> tuple[RunSpan, ...]:
    return tuple(_span(from_xcom(batch, pipeline.slice)) for batch in cut)


def _span(slices: SliceRange) -> RunSpan:
    return int(slices.start.timestamp()), int(slices.end.timestamp())


def cancelled(session: Session, runs: Sequence[DagRun]) -> dict[tuple[str, str], str]:
    """Returns who has ended a run by hand, by (DAG, run); empty where Airflow does not say it."""
    skipped = _skipped(session, runs)
    return {**dict.fromkeys(skipped, ""), **ended_by_hand(session, runs, skipped)}


_NOTE = "Cancelled on Sluice's page"
_ENDS = "patch_dag_run"
_SOON = timedelta(seconds=5)


def ended_by_hand(
    session: Session, runs: Sequence[DagRun], also: Collection[tuple[str, str]] = ()
) -> dict[tuple[str, str], str]:
    """Returns who has marked a run as failed while it was at work, by (DAG, run): Airflow's audit log names
    them, or else the run has the note of this page. Asked of runs that Airflow calls failed, and of
    `also`."""
    asked = {
        (run.dag_id, run.run_id): run
        for run in runs
        if run.state == "failed" or (run.dag_id, run.run_id) in also
    }
    if not asked:
        return {}
    dags, names = {dag_id for dag_id, _ in asked}, [run_id for _, run_id in asked]
    noted = select(DagRun.dag_id, DagRun.run_id).join(DagRunNote, DagRunNote.dag_run_id == DagRun.id)
    of_page = noted.where(
        DagRun.dag_id.in_(dags), DagRun.run_id.in_(names), DagRunNote.content.startswith(_NOTE)
    )
    found = {(row.dag_id, row.run_id): "" for row in session.execute(of_page)}
    logged = select(Log.dag_id, Log.run_id, Log.dttm, Log.owner, Log.extra).where(
        Log.event == _ENDS, Log.dag_id.in_(dags), Log.run_id.in_(names)
    )
    for dag_id, run_id, at, owner, extra in session.execute(logged.order_by(Log.dttm)):
        key = str(dag_id), str(run_id)
        if key in asked and at is not None and _ends(extra) and _is_at_work(asked[key], at):
            found[key] = owner or ""
    return {key: owner for key, owner in found.items() if key in asked}


def _ends(extra: str | None) -> bool:
    body = _kept_value(extra)
    return isinstance(body, dict) and body.get("state") == "failed"


def _is_at_work(run: DagRun, at: datetime) -> bool:
    began = run.start_date or run.queued_at
    return (began is None or began <= at) and (run.end_date is None or at <= run.end_date + _SOON)


def _skipped(session: Session, runs: Sequence[DagRun]) -> frozenset[tuple[str, str]]:
    """Returns (DAG, run) of the runs that Airflow calls a success though a person has ended them.

    Airflow 3.3.2 skips the tasks of a run that is marked as failed before they are scheduled, and then the
    run succeeds. Of no other run but a dry one is `verify_all` skipped.
    """
    over = [run for run in runs if run.state == "success" and not _is_dry(run)]
    statement = select(TaskInstance.dag_id, TaskInstance.run_id).where(
        TaskInstance.dag_id.in_({run.dag_id for run in over}),
        TaskInstance.run_id.in_([run.run_id for run in over]),
        TaskInstance.task_id == "verify_all",
        TaskInstance.state == "skipped",
    )
    return frozenset((dag_id, run_id) for dag_id, run_id in session.execute(statement))


def _is_dry(run: DagRun) -> bool:
    return bool((run.conf or {}).get("dry_run"))


def failed_tries(session: Session, runs: Sequence[DagRun]) -> dict[tuple[str, str], FailedTry]:
    """Returns by (DAG, run) the first task that failed for good: those after it did not begin. In a run that
    was ended by hand it was at work then."""
    failed = [run for run in runs if run.state == "failed"]
    columns = (
        TaskInstance.dag_id,
        TaskInstance.run_id,
        TaskInstance.task_id,
        TaskInstance.map_index,
        TaskInstance.try_number,
    )
    statement = (
        select(*columns)
        .where(
            TaskInstance.dag_id.in_({run.dag_id for run in failed}),
            TaskInstance.run_id.in_([run.run_id for run in failed]),
            TaskInstance.state == "failed",
        )
        .order_by(TaskInstance.end_date, TaskInstance.map_index)
    )
    found: dict[tuple[str, str], FailedTry] = {}
    for dag_id, run_id, task_id, index, tries in session.execute(statement) if failed else ():
        failed_try = FailedTry(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=index, tries=tries)
        found.setdefault((dag_id, run_id), failed_try)
    return found


def tasks_of(session: Session, runs: Sequence[DagRun]) -> dict[tuple[str, str], tuple[TaskRun, ...]]:
    statement = select(
        TaskInstance.dag_id,
        TaskInstance.run_id,
        TaskInstance.task_id,
        TaskInstance.map_index,
        TaskInstance.state,
    ).where(
        TaskInstance.dag_id.in_({run.dag_id for run in runs}),
        TaskInstance.run_id.in_([run.run_id for run in runs]),
        or_(TaskInstance.map_index >= 0, TaskInstance.task_id == SETTLE),
    )
    tasks_by_run: dict[tuple[str, str], list[TaskRun]] = {}
    for dag_id, run_id, task_id, index, state in session.execute(statement):
        tasks_by_run.setdefault((dag_id, run_id), []).append(TaskRun(task_id, index, state))
    return {name: tuple(tasks) for name, tasks in tasks_by_run.items()}


def asked_by(run: DagRun, pipeline: Pipeline) -> RunSpan | None:
    """Returns the slices that the run is for; for an hourly one its own, without its `lookback`."""
    conf, edges = run.conf or {}, (run.data_interval_start, run.data_interval_end)
    try:
        if not run.dag_id.endswith(BACKFILL) or run.dag_id == pipeline.name:
            return _span(scheduled_slices(*edges, run.run_after, pipeline.slice))
        first, end = str(conf["from"]), str(conf.get("to", "now"))
        slices = requested_slices(first, end, run.run_after, pipeline.slice)
    except (KeyError, WrongUse):
        return None  # somebody's own call: its plan task fails, and says so in its log
    return None if conf.get("dry_run") else _span(slices)


# The history of runs, and the timings of their days.
MOST_DAYS = 40
"""Days of timings that an answer reads: an object each."""
MOST_TABLES = 100
_PAST_BACKFILLS = 30
_days_timings: TimedCache[list[Timing]] = TimedCache(5, 4 * MOST_DAYS)


def runs_in(session: Session, pipeline: Pipeline, slices: SliceRange) -> Runs:
    """Returns the hourly runs, backfills and commands that were under way in the range, with the
    throughput."""
    dags = (pipeline.name, backfill_dag_id(pipeline.name))
    recent = or_(DagRun.end_date.is_(None), DagRun.end_date >= slices.start)
    where = (DagRun.dag_id.in_(dags), DagRun.start_date < slices.end, recent)
    dag_runs = session.scalars(select(DagRun).where(*where).order_by(DagRun.id.desc()).limit(MOST_RUNS)).all()
    count = session.scalar(select(func.count()).select_from(DagRun).where(*where)) or 0
    timings = kept_timings(brief_lake(pipeline), _days([(slices.start, slices.end)]))
    records = records_of_runs(_airflow_runs(session, dag_runs, pipeline), timings, slices, datetime.now(UTC))
    commands = sum(not record.dag_id for record in records)
    throughput = throughput_of(timings, slices.start, slices.end)
    return Runs(runs=records, count=count + commands, throughput=throughput)


def past_backfills(session: Session, pipeline: Pipeline) -> Runs:
    """Returns the newest backfills, of any day."""
    where = DagRun.dag_id == backfill_dag_id(pipeline.name)
    statement = select(DagRun).where(where).order_by(DagRun.id.desc()).limit(_PAST_BACKFILLS)
    runs = _airflow_runs(session, session.scalars(statement).all(), pipeline)
    now = datetime.now(UTC)
    spans = [(run.started, run.ended or now) for run in runs if run.started is not None]
    run_ids = {run.run_id for run in runs}
    timings = [timing for timing in kept_timings(brief_lake(pipeline), _days(spans)) if timing.run in run_ids]
    count = session.scalar(select(func.count()).select_from(DagRun).where(where)) or 0
    nothing = Throughput(starts=[], land=[], load=[])
    return Runs(runs=records_of_runs(runs, timings), count=count, throughput=nothing)


def started_by_people(session: Session, pipeline: Pipeline, slices: SliceRange) -> list[RunRecord]:
    """Returns the backfills and commands that began in the range, the newest first."""
    where = (
        DagRun.dag_id == backfill_dag_id(pipeline.name),
        DagRun.start_date >= slices.start,
        DagRun.start_date < slices.end,
    )
    statement = select(DagRun).where(*where).order_by(DagRun.id.desc()).limit(MOST_RUNS)
    runs = _airflow_runs(session, session.scalars(statement).all(), pipeline)
    timings = kept_timings(brief_lake(pipeline), _days([(slices.start, slices.end)]))
    return records_of_runs(runs, timings, slices, datetime.now(UTC))


def works_of(session: Session, pipeline: Pipeline) -> list[AtWork]:
    """Returns the runs that are queued or under way, each over the hours that it works on, or is for as long
    as it has not looked."""
    dags = (pipeline.name, backfill_dag_id(pipeline.name))
    statement = select(DagRun).where(DagRun.dag_id.in_(dags), DagRun.state.in_(ACTIVE)).limit(MOST_RUNS)
    works = []
    for run in _airflow_runs(session, session.scalars(statement).all(), pipeline):
        start, end = (run.worked[0][0], run.worked[-1][1]) if run.worked else (run.start, run.end)
        if start is not None and end is not None:
            what = f"{run.kind} run"
            works.append(AtWork(what, run.mode, start, end, run.user, run.started, run.tables, run.run_id))
    return works


_TIMED_RUNS, _TIMED_DAYS = 20, 7


def startup_of_backfills(session: Session, pipeline: Pipeline) -> float | None:
    """Returns the seconds that a backfill takes beside its steps, by the last days; where there was none, by
    hourly runs without what they wait for late records."""
    now = datetime.now(UTC)
    since = now - timedelta(days=_TIMED_DAYS)
    timings = kept_timings(brief_lake(pipeline), _days([(since, now)]))
    settled = pipeline.settle.total_seconds()
    for dag_id, waited in ((backfill_dag_id(pipeline.name), 0.0), (pipeline.name, settled)):
        where = (DagRun.dag_id == dag_id, DagRun.state == "success", DagRun.start_date >= since)
        statement = select(DagRun).where(*where).order_by(DagRun.id.desc()).limit(_TIMED_RUNS)
        wholes = [
            WholeRun(run.run_id, run.start_date, run.end_date, waited)
            for run in session.scalars(statement)
            if run.start_date is not None and run.end_date is not None
        ]
        if (startup := startup_of(wholes, timings)) is not None:
            return startup
    return None


def _airflow_runs(session: Session, runs: Sequence[DagRun], pipeline: Pipeline) -> list[AirflowRun]:
    ended, failed = cancelled(session, runs), failed_tries(session, runs)
    batches = _batches(session, [run.id for run in runs], pipeline)
    planned = _planned(session, [run.id for run in runs], pipeline)
    views = []
    for run in runs:
        key, view = (run.dag_id, run.run_id), airflow_run(run, pipeline)
        cut = batches.get(run.id)
        view = _covering(view, [*planned.get(run.id, ()), *(cut or ())], cut or ())
        view = replace(view, batches=None if cut is None else len(cut), failed=failed.get(key))
        views.append(replace(view, state=CANCELLED, ended_by=ended[key]) if key in ended else view)
    return views


def _covering(run: AirflowRun, spans: Iterable[RunSpan], cut: Iterable[RunSpan]) -> AirflowRun:
    """Returns the run with the range that holds its own hours and all these `spans`, and the spells of the
    batches that it has `cut`."""
    own = [(int(run.start.timestamp()), int(run.end.timestamp()))] if run.start and run.end else []
    whole = hull([*own, *spans])
    worked = tuple((from_seconds(start), from_seconds(end)) for start, end in joined(cut))
    if whole is None:
        return run
    return replace(run, start=from_seconds(whole[0]), end=from_seconds(whole[1]), worked=worked)


def airflow_run(run: DagRun, pipeline: Pipeline) -> AirflowRun:
    span, conf = asked_by(run, pipeline), run.conf or {}
    tables = conf.get("tables")
    backfill = run.dag_id == backfill_dag_id(pipeline.name)
    return AirflowRun(
        dag_id=run.dag_id,
        run_id=run.run_id,
        kind="backfill" if backfill else "hourly",
        state=str(run.state),
        user=run.triggering_user_name or "",
        started=run.start_date,
        ended=run.end_date,
        start=from_seconds(span[0]) if span else None,
        end=from_seconds(span[1]) if span else None,
        mode=_mode(conf) if backfill else DEFAULT_MODE,
        tables=tuple(map(str, tables[:MOST_TABLES])) if backfill and isinstance(tables, list) else (),
        dry=backfill and _is_dry(run),
    )


def _mode(conf: dict[str, Any]) -> str:
    mode = str(conf.get("mode", DEFAULT_MODE))
    return MISSING_COLUMNS if mode == "reload" and conf.get("missing_columns") is True else mode


def progress_of(
    session: Session, pipeline: Pipeline, run_id: str, cells_in: Callable[[SliceRange], Mapping[str, int]]
) -> ProgressView:
    """Returns how far a run of the backfill DAG is, and what it did. `cells_in` counts the hours of a range
    by the states of their cells. 404 when there is no such run."""
    dag_id = backfill_dag_id(pipeline.name)
    dag_run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    if dag_run is None:
        raise HTTPException(404, f"{dag_id} has no run {run_id!r}")
    (run,) = as_runs(session, pipeline, [dag_run])
    run = replace(run, tasks=tasks_of(session, [dag_run]).get((dag_id, run_id), ()))
    if cancelled(session, [dag_run]):
        run = replace(run, state=CANCELLED)
    total, done, phase = progress(run, pipeline.slice)
    loads = [load_task_id(target.table) for target in pipeline.targets]
    counts = step_counts(run, ["land", *loads, "verify", "publish"])
    over = run.state not in ACTIVE
    record = _ended(session, pipeline, dag_run) if over else None
    cells: Mapping[str, int] = {}
    if over and run.asked is not None:
        cells = cells_in(SliceRange(from_seconds(run.asked[0]), from_seconds(run.asked[1]), pipeline.slice))
    return ProgressView(
        dag_id=dag_id,
        run_id=run_id,
        state=run.state,
        started=iso(dag_run.start_date),
        ended=iso(dag_run.end_date),
        heading=heading(run.state, record.why if record else ""),
        said=counted(cells) if over else running_words(total, done, phase),
        cells=dict(cells),
        advice=advice_of(cells),
        share=share_done(run, counts),
        steps=counts,
        did=record.moved.steps if record else [],
        why=record.why if record else "",
        failed=record.failed if record else None,
        before=record.before if record else [],
    )


def _ended(session: Session, pipeline: Pipeline, dag_run: DagRun) -> RunRecord:
    """Returns the record of a run that is over. One that had nothing to do has who had done its hours, as far
    back as timings are read."""
    (run,) = _airflow_runs(session, [dag_run], pipeline)
    now = datetime.now(UTC)
    began = run.started or now
    spans = [(began, run.ended or now)]
    if run.batches == 0 and run.start is not None:
        spans.append((max(run.start, began - timedelta(days=MOST_DAYS)), began))
    timings = timings_of(brief_lake(pipeline), _days(spans))
    own = [timing for timing in timings if timing.run == run.run_id]
    (record,) = records_of_runs([run], own)
    loaders = {timing.run for timing in timings} - {run.run_id, ""}
    dags = (pipeline.name, backfill_dag_id(pipeline.name))
    statement = select(DagRun).where(DagRun.dag_id.in_(dags), DagRun.run_id.in_(loaders))
    others = [airflow_run(one, pipeline) for one in session.scalars(statement)] if run.batches == 0 else []
    return with_earlier(record, records_of_runs(others, timings), timings)


def _days(spans: Sequence[tuple[datetime, datetime]]) -> list[date]:
    """Returns the newest days of the spans, at most `MOST_DAYS`, the oldest first."""
    days: set[date] = set()
    for start, end in spans:
        day, last = utc(start).date(), utc(end).date()
        first = max(day, last - timedelta(days=MOST_DAYS))
        days.update(first + timedelta(days=n) for n in range((last - first).days + 1))
    return sorted(days)[-MOST_DAYS:]


def kept_timings(lake: Lake, days: Iterable[date]) -> list[Timing]:
    """Returns the days' timings as they were at most some seconds ago."""
    cached = _days_timings.get
    return [timing for day in days for timing in cached((lake.url, day), partial(of_day, lake, day))]


def timings_of(lake: Lake, days: Iterable[date]) -> list[Timing]:
    return [timing for day in days for timing in of_day(lake, day)]


# Runs and their tasks in detail, for one slice.
_MOST_OF_SLICE = 8


def run_rows(session: Session, runs: Sequence[DagRunView], start: int) -> list[RunRow]:
    """Returns the newest runs that touched the slice that begins at `start`, with the tasks that touched
    it."""
    mine = [run for run in runs if _touches(run, start)][:_MOST_OF_SLICE]
    return [_run_row(session, run, _batch_of(run, start)) for run in mine]


def _touches(run: DagRunView, start: int) -> bool:
    spans = run.batches if run.batches else (run.asked,)
    return any(span is not None and span[0] <= start < span[1] for span in spans)


def _batch_of(run: DagRunView, start: int) -> int:
    numbers = (n for n, span in enumerate(run.batches or ()) if span[0] <= start < span[1])
    return next(numbers, -1)


def _run_row(session: Session, run: DagRunView, batch: int) -> RunRow:
    started = session.scalar(
        select(DagRun.start_date).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id)
    )
    statement = (
        select(TaskInstance)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.map_index.in_((-1, batch)) | (TaskInstance.task_id == CLUSTER_TASK),
        )
        .order_by(TaskInstance.start_date)
    )
    return RunRow(
        dag_id=run.dag_id,
        run_id=run.run_id,
        state=run.state,
        started=iso(started),
        asked=" – ".join(iso(datetime.fromtimestamp(at, UTC)) for at in run.asked or ()),
        tasks=[_task_row(task, run.state == CANCELLED) for task in session.scalars(statement)],
    )


def _task_row(task: TaskInstance, ended: bool) -> TaskRow:
    """`ended`: the run was ended by hand, and then Airflow calls a task failed that was at work."""
    seconds = None
    if task.start_date is not None:
        seconds = round(((task.end_date or datetime.now(UTC)) - task.start_date).total_seconds(), 1)
    return TaskRow(
        task_id=task.task_id,
        map_index=task.map_index,
        state=CANCELLED if ended and task.state == "failed" else str(task.state or "none"),
        tries=task.try_number,
        started=iso(task.start_date),
        seconds=seconds,
    )
