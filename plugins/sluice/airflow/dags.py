"""The DAG factory: every pipeline file makes `<name>`, hourly, `<name>_backfill` and `<name>_watch`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pendulum
from airflow.sdk import DAG, chain, get_parsing_context, task_group
from airflow.sdk.definitions.param import ParamsDict

from sluice.airflow import doc_md
from sluice.airflow.assets import pipeline_alias
from sluice.airflow.cluster_task import catch_up_of_each
from sluice.airflow.dag_settings import of_dag, of_step, run_timeout
from sluice.airflow.deadlines import deadline
from sluice.airflow.failed_runs import callbacks
from sluice.airflow.forget_task import forget
from sluice.airflow.hours import hour_outlets
from sluice.airflow.land_operator import LandOperator
from sluice.airflow.pipelines import (
    ALL,
    Selection,
    backfill_dag_id,
    find_pipelines,
    load_task_id,
    note_folder,
    pipelines_of,
)
from sluice.airflow.run_params import backfill_params
from sluice.airflow.schedule import timetable
from sluice.airflow.tasks import (
    load,
    plan_backfill,
    plan_hour,
    publish,
    resolve,
    resolve_hour,
    settle,
    verify,
    verify_all,
)
from sluice.airflow.watch_dag import watch_dag
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse

# Before it there was no Kafka; a pipeline without `start` has no earliest slice.
BEFORE_KAFKA = pendulum.datetime(2011, 1, 1)


def pipeline_dags(folder: Path | None = None, selection: Selection = ALL) -> dict[str, DAG]:
    """Returns the DAGs of all sound pipeline files in `folder`, by id; nothing but the files is read.

    In a task's process they are those of its own pipeline. Raises WrongUse for a mistake in that, and for a
    folder that is not there.
    """
    parsed_dag_id = get_parsing_context().dag_id
    files = find_pipelines(
        folder, replace(selection, among=pipelines_of(parsed_dag_id)) if parsed_dag_id else selection
    )
    dags: dict[str, DAG] = {}
    for _, pipeline in files.sound:
        note_folder(pipeline.name, folder)
        for dag in (hourly_dag(pipeline), backfill_dag(pipeline), watch_dag(pipeline)):
            dags[dag.dag_id] = dag
    if files.no_folder or (parsed_dag_id and parsed_dag_id not in dags and files.broken):
        raise WrongUse(files.broken[0][1].public)
    return dags


def hourly_dag(pipeline: Pipeline) -> DAG:
    with DAG(
        pipeline.name,
        schedule=timetable(pipeline.slice, pipeline.airflow.offset),
        max_active_runs=1,
        dagrun_timeout=run_timeout(pipeline),
        deadline=deadline(pipeline),
        description=f"Every hour of {pipeline.name}: Kafka to the lake to ClickHouse, each record once",
        doc_md=doc_md.hourly(pipeline),
        **_common(pipeline),
    ) as dag:
        slices: Any = _set(plan_hour, pipeline, "plan")(pipeline.name)  # what it gives once it has run
        settled = _set(settle, pipeline, "settle")(pipeline.name, slices)
        batches = _set(resolve_hour, pipeline, "resolve")(pipeline.name, slices)
        chain(settled, batches)
        steps = _steps(pipeline, slices, batches)
        if pipeline.keep.forgets:
            steps >> _set(forget, pipeline, "forget")(pipeline.name)
    return dag


def backfill_dag(pipeline: Pipeline) -> DAG:
    with DAG(
        backfill_dag_id(pipeline.name),
        schedule=None,
        max_active_runs=pipeline.airflow.backfills,
        dagrun_timeout=pipeline.airflow.backfill_timeout,
        # It runs only when it is triggered, and must then not wait to be unpaused.
        is_paused_upon_creation=False,
        description=f"Any past range of {pipeline.name}, as often as wanted",
        doc_md=doc_md.backfill(pipeline),
        **_common(pipeline),
    ) as dag:
        slices: Any = _set(plan_backfill, pipeline, "plan")(pipeline.name)
        _steps(pipeline, slices, _set(resolve, pipeline, "resolve")(pipeline.name, slices))
    # Last: each task would have a copy, which Airflow checks again and again when it serializes the DAG.
    dag.params = ParamsDict(backfill_params(pipeline))
    return dag


def _common(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "start_date": pipeline.start or BEFORE_KAFKA,
        "max_active_tasks": 4,
        "on_failure_callback": callbacks(pipeline),
        **of_dag(pipeline),
    }


def _set(task: Any, pipeline: Pipeline, step: str, **more: Any) -> Any:
    return task.override(**of_step(pipeline, step), **more)


def _steps(pipeline: Pipeline, slices: Any, batches: Any) -> Any:
    """Returns the group of the batches."""

    @task_group(group_id="batch", tooltip="One Spark application, then one load per table")
    def batch_steps(batch: dict[str, str]) -> None:
        landed = LandOperator(
            task_id="land",
            pipeline=pipeline.name,
            connection=pipeline.spark_connection,
            batch=batch,
            **of_step(pipeline, "land"),
        )
        loads = {
            target.table: _set(load, pipeline, "load", task_id=load_task_id(target.table))(
                pipeline.name, target.table, batch=batch
            )
            for target in pipeline.targets
        }
        verified = _set(verify, pipeline, "verify")(pipeline.name, batch=batch)
        outlets = [pipeline_alias(pipeline.name), *hour_outlets(pipeline)]
        outlet = _set(publish, pipeline, "publish", outlets=outlets)(pipeline.name, batch=batch)
        landed >> [*loads.values(), verified]
        for table, rollup in pipeline.rollups.items():
            loads[rollup.source] >> loads[table]
        chain([*loads.values()], verified, outlet) if loads else chain(verified, outlet)

    verification = _set(verify_all, pipeline, "verify_all")(pipeline.name, slices)
    steps = batch_steps.expand(batch=batches)
    steps >> verification
    if len(pipeline.clusters) > 1:
        verification >> catch_up_of_each(pipeline, slices)
    return steps
