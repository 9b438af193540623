"""Airflow's runs of a pipeline's DAGs as the history of runs needs them, and the timings of their days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from fastapi import HTTPException
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from sluice.airflow.api.runs import ACTIVE, as_runs, asked_by, cancelled, tasks_of
from sluice.airflow.api.task_history import text_of
from sluice.airflow.pipelines import backfill_dag_id, load_task_id
from sluice.airflow.run_params import DEFAULT_MODE
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import brief_lake
from sluice.config.pipeline import Pipeline
from sluice.page.airflow_runs import progress
from sluice.page.models import ProgressView, RunRecord, Runs, StepAmount, StepProgress, Throughput
from sluice.page.run_history import (
    MOST_RUNS,
    AirflowRun,
    records_of_runs,
    share_done,
    step_counts,
    throughput_of,
)
from sluice.page.status_cache import TimedCache
from sluice.slices import SliceRange, from_seconds, utc
from sluice.state.timings import Timing, of_day

MOST_DAYS = 40
"""Days of timings that an answer reads: an object each."""
MOST_TABLES = 100
CANCELLED = "cancelled"
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
    records = records_of_runs(_airflow_runs(session, dag_runs, pipeline), timings, slices)
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


def _airflow_runs(session: Session, runs: Sequence[DagRun], pipeline: Pipeline) -> list[AirflowRun]:
    ended = cancelled(session, runs)
    runs_and_keys = [(airflow_run(run, pipeline), (run.dag_id, run.run_id)) for run in runs]
    return [replace(view, state=CANCELLED) if key in ended else view for view, key in runs_and_keys]


def airflow_run(run: DagRun, pipeline: Pipeline) -> AirflowRun:
    span, conf = asked_by(run, pipeline), run.conf or {}
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
        mode=str(conf.get("mode", DEFAULT_MODE)) if backfill else DEFAULT_MODE,
        tables=_tables(conf) if backfill else (),
    )


def _tables(conf: dict[str, Any]) -> tuple[str, ...]:
    tables = conf.get("tables")
    return tuple(map(str, tables[:MOST_TABLES])) if isinstance(tables, list) else ()


def progress_of(session: Session, pipeline: Pipeline, run_id: str) -> ProgressView:
    """Returns how far a run of the backfill DAG is, and what it did. 404 when there is no such run."""
    dag_id = backfill_dag_id(pipeline.name)
    dag_run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    if dag_run is None:
        raise HTTPException(404, f"{dag_id} has no run {run_id!r}")
    (run,) = as_runs(session, pipeline, [dag_run])
    if cancelled(session, [dag_run]):
        run = replace(run, state=CANCELLED, tasks=tasks_of(session, [dag_run]).get((dag_id, run_id), ()))
    states = session.scalars(
        select(TaskInstance.state).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    )
    total, done, phase = progress(run, pipeline.slice)
    counts = step_counts(run, _steps(pipeline))
    return ProgressView(
        dag_id=dag_id,
        run_id=run_id,
        state=run.state,
        started=text_of(dag_run.start_date),
        ended=text_of(dag_run.end_date),
        tasks=dict(Counter(str(state or "none") for state in states)),
        slices=total,
        slices_done=done,
        phase=phase,
        share=share_done(run, counts),
        steps=[StepProgress.model_validate(step, from_attributes=True) for step in counts],
        did=[] if run.state in ACTIVE else _did(pipeline, dag_run),
    )


def _did(pipeline: Pipeline, run: DagRun) -> list[StepAmount]:
    """Returns the amounts that the run's steps have noted in the lake."""
    record = _record(pipeline, airflow_run(run, pipeline))
    return record.moved.steps if record else []


def _record(pipeline: Pipeline, run: AirflowRun) -> RunRecord | None:
    if run.started is None:
        return None
    days = _days([(run.started, run.ended or datetime.now(UTC))])
    timings = [
        timing
        for timing in _timings(brief_lake(pipeline), days)
        if not timing.run or timing.run == run.run_id
    ]
    return records_of_runs([run], timings)[0]


def _steps(pipeline: Pipeline) -> list[str]:
    """Returns the names of a batch's tasks."""
    return ["land", *(load_task_id(target.table) for target in pipeline.targets), "verify", "publish"]


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


def _timings(lake: Lake, days: Iterable[date]) -> list[Timing]:
    return [timing for day in days for timing in of_day(lake, day)]
