"""Airflow's own knowledge of a pipeline's runs, from its database: the API server may read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from sluice.airflow.pipelines import BACKFILL, backfill_dag_id
from sluice.airflow.run_params import from_xcom, requested_slices, scheduled_slices
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.page.airflow_runs import DagRunView, RunSpan, TaskRun
from sluice.slices import SliceRange

ACTIVE = ("queued", "running")
MOST = 300
_BATCHES = "resolve"


def runs_of(session: Session, pipeline: Pipeline, since: datetime) -> list[DagRunView]:
    """Returns the pipeline's runs that began after `since` or are under way: at most `MOST`, the newest
    first."""
    return as_runs(session, pipeline, _dag_runs(session, pipeline, since))


def as_runs(session: Session, pipeline: Pipeline, dag_runs: Sequence[DagRun]) -> list[DagRunView]:
    """Returns the runs, each with the batches that it has cut and, where it has not succeeded, its tasks."""
    if not dag_runs:
        return []
    batches = _batches(session, [run.id for run in dag_runs], pipeline)
    tasks = tasks_of(session, [run for run in dag_runs if run.state != "success"])
    return [
        DagRunView(
            run.dag_id,
            run.run_id,
            str(run.state),
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
    statement = select(XComModel.dag_run_id, XComModel.value).where(
        XComModel.dag_run_id.in_(run_ids),
        XComModel.task_id == _BATCHES,
        XComModel.key == "return_value",
        XComModel.map_index == -1,
    )
    cut_by_run = {run: _kept_value(value) for run, value in session.execute(statement)}
    return {run: _spans(cut, pipeline) for run, cut in cut_by_run.items() if isinstance(cut, list)}


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


def cancelled(session: Session, runs: Sequence[DagRun]) -> frozenset[tuple[str, str]]:
    """Returns (DAG, run) of the runs that Airflow calls a success though a person has ended them.

    Airflow 3.3.2 skips the tasks of a run that is marked as failed before they are scheduled, and then the
    run succeeds. Of no other run is `verify_all` skipped.
    """
    over = [run for run in runs if run.state == "success"]
    statement = select(TaskInstance.dag_id, TaskInstance.run_id).where(
        TaskInstance.dag_id.in_({run.dag_id for run in over}),
        TaskInstance.run_id.in_([run.run_id for run in over]),
        TaskInstance.task_id == "verify_all",
        TaskInstance.state == "skipped",
    )
    return frozenset((dag_id, run_id) for dag_id, run_id in session.execute(statement))


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
        TaskInstance.map_index >= 0,
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
