"""The DAG factory: every pipeline file makes `<name>`, hourly, `<name>_backfill` and `<name>_watch`."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
from airflow.sdk import DAG, CronDataIntervalTimetable, DeltaDataIntervalTimetable, chain, task_group

from sluice.airflow import doc_md
from sluice.airflow.assets import pipeline_alias
from sluice.airflow.cluster_task import catch_up_of_each
from sluice.airflow.land_operator import LandOperator
from sluice.airflow.pipelines import backfill_dag_id, find_pipelines, watch_dag_id
from sluice.airflow.retries import RETRIES
from sluice.airflow.run_params import backfill_params
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
from sluice.config.files import FOLDER
from sluice.config.pipeline import Pipeline

# Before it there was no Kafka; a pipeline without `start` has no earliest slice.
BEFORE_KAFKA = pendulum.datetime(2011, 1, 1)


def pipeline_dags(folder: Path = FOLDER) -> dict[str, DAG]:
    """The DAGs of all sound pipeline files in `folder`, by id; nothing but the files is read."""
    dags: dict[str, DAG] = {}
    for path, pipeline in find_pipelines(folder).sound:
        dags[pipeline.name] = hourly_dag(pipeline, str(path))
        dags[backfill_dag_id(pipeline.name)] = backfill_dag(pipeline, str(path))
        dags[watch_dag_id(pipeline.name)] = watch_dag(pipeline, str(path))
    return dags


def hourly_dag(pipeline: Pipeline, config: str) -> DAG:
    with DAG(
        pipeline.name,
        schedule=timetable(pipeline.slice),
        max_active_runs=1,
        description=f"Every hour of {pipeline.name}: Kafka to the lake to ClickHouse, each record once",
        doc_md=doc_md.hourly(pipeline),
        **_common(pipeline),
    ) as dag:
        slices: Any = plan_hour(config)  # what the task gives once it has run
        settled = settle(config, slices)
        batches = resolve_hour(config, slices)
        chain(settled, batches)
        _steps(pipeline, config, slices, batches)
    return dag


def backfill_dag(pipeline: Pipeline, config: str) -> DAG:
    with DAG(
        backfill_dag_id(pipeline.name),
        schedule=None,
        params=backfill_params(),
        max_active_runs=4,
        # It runs only when somebody asks, and must then not wait to be unpaused.
        is_paused_upon_creation=False,
        description=f"Any past range of {pipeline.name}, as often as wanted",
        doc_md=doc_md.backfill(pipeline),
        **_common(pipeline),
    ) as dag:
        slices: Any = plan_backfill(config)
        _steps(pipeline, config, slices, resolve(config, slices))
    return dag


def load_task_id(table: str) -> str:
    """`load.<db.table>`; what Airflow allows in no task id becomes its code: `-20-` for a space."""
    return "load." + re.sub(r"[^A-Za-z0-9_.]", lambda found: f"-{ord(found[0]):x}-", table)


def _common(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "start_date": pipeline.start or BEFORE_KAFKA,
        "catchup": False,
        "max_active_tasks": 4,
        "default_args": {"owner": "sluice", **RETRIES},
        "tags": ["sluice", pipeline.name],
    }


def _steps(pipeline: Pipeline, config: str, slices: Any, batches: Any) -> None:
    @task_group(group_id="batch", tooltip="One Spark application, then one load per table")
    def batch_steps(batch: dict[str, str]) -> None:
        landed = LandOperator(
            task_id="land",
            config=config,
            connection=pipeline.spark_connection,
            batch=batch,
            pool=pipeline.pools.land,
        )
        loads = {
            target.table: load.override(task_id=load_task_id(target.table), pool=pipeline.pools.load)(
                config, target.table, batch=batch
            )
            for target in pipeline.targets
        }
        verified = verify(config, batch=batch)
        outlet = publish.override(outlets=[pipeline_alias(pipeline.name)])(config, batch=batch)
        landed >> [*loads.values(), verified]
        for table, rollup in pipeline.rollups.items():
            loads[rollup.source] >> loads[table]
        chain([*loads.values()], verified, outlet) if loads else chain(verified, outlet)

    whole = verify_all(config, slices)
    batch_steps.expand(batch=batches) >> whole
    if len(pipeline.clusters) > 1:
        whole >> catch_up_of_each(pipeline, config, slices)


_MINUTE = timedelta(minutes=1)


def cron(length: timedelta) -> str | None:
    """The cron expression of a slice length, or None for 45 and 90 minutes, which no expression has."""
    minutes = length // _MINUTE
    if 60 % minutes == 0:
        return "0 * * * *" if minutes == 60 else f"*/{minutes} * * * *"
    if minutes % 60 == 0:
        return "0 0 * * *" if minutes == 1440 else f"0 */{minutes // 60} * * *"
    return None


def timetable(length: timedelta) -> CronDataIntervalTimetable | DeltaDataIntervalTimetable:
    """A cron string alone would give data intervals of zero width.

    Without catch-up the delta timetable rounds to multiples of its delta since the epoch, as slices do.
    """
    expression = cron(length)
    if expression is None:
        return DeltaDataIntervalTimetable(length)
    return CronDataIntervalTimetable(expression, timezone="UTC")
