"""Runs and their tasks in detail: for one slice, and for the progress of one backfill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from fastapi import HTTPException
from sqlalchemy import select
from sqlalchemy.orm import Session

from sluice.airflow.api.runs import as_runs
from sluice.airflow.pipelines import CLUSTER_TASK, backfill_dag_id, load_task_id
from sluice.config.pipeline import Pipeline
from sluice.page.airflow_runs import DagRunView, progress
from sluice.page.models import ProgressView, StepProgress
from sluice.page.run_steps import share_done, step_counts
from sluice.page.slice_models import RunRow, TaskRow

MOST_RUNS = 8


def run_rows(session: Session, runs: Sequence[DagRunView], start: int) -> list[RunRow]:
    """The newest runs that touched the slice that begins at `start`, with the tasks that did."""
    mine = [run for run in runs if _touches(run, start)][:MOST_RUNS]
    return [_run_row(session, run, _batch_of(run, start)) for run in mine]


def _touches(run: DagRunView, start: int) -> bool:
    spans = run.batches if run.batches else (run.asked,)
    return any(span is not None and span[0] <= start < span[1] for span in spans)


def _batch_of(run: DagRunView, start: int) -> int:
    found = (n for n, span in enumerate(run.batches or ()) if span[0] <= start < span[1])
    return next(found, -1)


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
        started=text_of(started),
        asked=" – ".join(text_of(datetime.fromtimestamp(at, UTC)) for at in run.asked or ()),
        tasks=[_task_row(task) for task in session.scalars(statement)],
    )


def _task_row(task: TaskInstance) -> TaskRow:
    seconds = None
    if task.start_date is not None:
        seconds = round(((task.end_date or datetime.now(UTC)) - task.start_date).total_seconds(), 1)
    return TaskRow(
        task_id=task.task_id,
        map_index=task.map_index,
        state=str(task.state or "none"),
        tries=task.try_number,
        started=text_of(task.start_date),
        seconds=seconds,
    )


def progress_of(session: Session, pipeline: Pipeline, run_id: str) -> ProgressView:
    """How far a run of the backfill DAG is. 404 when there is no such run."""
    dag_id = backfill_dag_id(pipeline.name)
    found = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    if found is None:
        raise HTTPException(404, f"{dag_id} has no run {run_id!r}")
    (run,) = as_runs(session, pipeline, [found])
    states = session.scalars(
        select(TaskInstance.state).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    )
    total, done, phase = progress(run, pipeline.slice)
    counts = step_counts(run, _steps(pipeline))
    return ProgressView(
        dag_id=dag_id,
        run_id=run_id,
        state=run.state,
        started=text_of(found.start_date),
        ended=text_of(found.end_date),
        tasks=dict(Counter(str(state or "none") for state in states)),
        slices=total,
        slices_done=done,
        phase=phase,
        share=share_done(run, counts),
        steps=[StepProgress.model_validate(one, from_attributes=True) for one in counts],
    )


def _steps(pipeline: Pipeline) -> list[str]:
    """The tasks of a batch."""
    return ["land", *(load_task_id(target.table) for target in pipeline.targets), "verify", "publish"]


def text_of(instant: datetime | None) -> str:
    return "" if instant is None else instant.astimezone(UTC).isoformat(timespec="seconds")
