"""Runs and their tasks in detail, for one slice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import select
from sqlalchemy.orm import Session

from sluice.airflow.pipelines import CLUSTER_TASK
from sluice.page.airflow_runs import DagRunView
from sluice.page.slice_models import RunRow, TaskRow

MOST_RUNS = 8


def run_rows(session: Session, runs: Sequence[DagRunView], start: int) -> list[RunRow]:
    """Returns the newest runs that touched the slice that begins at `start`, with the tasks that touched
    it."""
    mine = [run for run in runs if _touches(run, start)][:MOST_RUNS]
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


def text_of(instant: datetime | None) -> str:
    return "" if instant is None else instant.astimezone(UTC).isoformat(timespec="seconds")
