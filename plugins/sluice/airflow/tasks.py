"""The DAGs' tasks: each gets its pipeline's name, reads the file of that name and calls the step of the same
name in `sluice.flow.steps`.

What a task needs beyond Airflow is imported when it runs, so that parsing a DAG file stays cheap.
Docstrings are what Airflow's UI shows as the task's documentation.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pendulum
import structlog
from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from sluice.airflow.assets import announce_hours, emit_events
from sluice.airflow.metrics import measured
from sluice.airflow.pipelines import file_of, read_pipeline
from sluice.airflow.retries import extend, final_errors_fail
from sluice.airflow.run_params import (
    from_xcom,
    mode_of,
    over_elsewhere,
    refuse_future,
    refuse_unknown,
    requested_slices,
    scheduled_slices,
    tables_of,
    to_xcom,
)
from sluice.config.pipeline import Pipeline
from sluice.errors import ClockBehind, Refused
from sluice.metrics.meter import count
from sluice.slices import SliceRange

log = structlog.get_logger(__name__)

BATCH_NAME = "{{ task.op_kwargs['batch']['from'] }} – {{ task.op_kwargs['batch']['to'] }}"


@task(task_id="plan")
@final_errors_fail
@measured("plan")
def plan_hour(name: str) -> dict[str, str]:
    """Returns the range of every run: its own slices, and back to `lookback` before its end."""
    from sluice.flow import steps

    context, pipeline = get_current_context(), read_pipeline(name)
    refuse_unknown(context["params"], context["dag"].params)
    run_slices = scheduled_slices(
        context.get("data_interval_start"),
        context.get("data_interval_end"),
        context["dag_run"].run_after,
        pipeline.slice,
    )
    now, started = pendulum.now("UTC"), context["dag_run"].start_date
    healed = steps.hourly_range(pipeline, refuse_future(run_slices, now, started))
    log.info("slices of this run", own=str(run_slices), healed=str(healed), slices=len(healed))
    return to_xcom(healed)


@task.short_circuit(task_id="plan")
@final_errors_fail
@measured("plan")
def plan_backfill(name: str) -> dict[str, str] | None:
    """The whole slices that hold [from, to), if every table can be loaded. With `dry_run` it logs what
    would be done, and all that follows is skipped: nothing is changed."""
    from sluice.clients.airflow_rest.backfill_run import PLAN_KEY
    from sluice.flow import steps
    from sluice.plan.dry_run import shortened
    from sluice.watch.obstacles import read_obstacles

    context, pipeline = get_current_context(), read_pipeline(name)
    params, now = context["params"], pendulum.now("UTC")
    refuse_unknown(params, context["dag"].params)
    slices = requested_slices(params["from"], params["to"], now, pipeline.slice)
    refuse_future(slices, now)
    tables, edges = tables_of(pipeline, params), [params["from"], params["to"]]
    only = sorted(tables) if tables is not None else "all"
    log.info("slices of the backfill", asked=edges, whole=str(slices), slices=len(slices), tables=only)
    if params["dry_run"]:
        dry = steps.dry_run(pipeline, slices, mode_of(params), tables)
        obstacles = read_obstacles(pipeline, slices, tables, now)
        lines = replace(dry, obstacles=obstacles).lines
        for line in lines:
            log.info(line)
        get_current_context()["ti"].xcom_push(PLAN_KEY, shortened(lines))
        return None
    steps.check_targets(pipeline, tables)
    return to_xcom(slices)


@task.sensor(mode="reschedule", poke_interval=30)
@final_errors_fail
@measured("settle")
def settle(name: str, slices: dict[str, str]) -> bool:
    """Waits until the hour has been over for `settle`, so that records on their way are in it. Between
    two looks it holds no worker."""
    from sluice.flow.steps import settled_at

    pipeline = read_pipeline(name)
    run_slices, now = from_xcom(slices, pipeline.slice), pendulum.now("UTC")
    ready, end = settled_at(pipeline, run_slices), run_slices.end
    log.info("waiting for records that are on their way", until=str(ready))
    if now < end:
        log.warning("clock", behind=str(ClockBehind(socket.gethostname(), str(now), str(end))))
    return now >= ready


@task
@final_errors_fail
@measured("resolve")
def resolve(name: str, slices: dict[str, str]) -> list[dict[str, str]]:
    """Stores the boundaries of the slices, once and for good, then cuts what has work to do into batches:
    each is landed by one Spark application."""
    pipeline = read_pipeline(name)
    run_slices = from_xcom(slices, pipeline.slice)
    extend(pipeline, "resolve", run_slices, get_current_context())
    return [*map(to_xcom, _resolved(pipeline, run_slices))]


@task(task_id="resolve")
@final_errors_fail
@measured("resolve")
def resolve_hour(name: str, slices: dict[str, str]) -> list[dict[str, str]]:
    """Stores the boundaries of the slices, once and for good, and cuts what has work to do into batches.
    Batches of older hours that are not complete follow: a part of them in each run, the oldest first."""
    pipeline = read_pipeline(name)
    run_slices = from_xcom(slices, pipeline.slice)
    extend(pipeline, "resolve", run_slices, get_current_context())
    batches = [*_resolved(pipeline, run_slices), *older(pipeline, run_slices, get_current_context())]
    return [*map(to_xcom, batches)]


def _resolved(pipeline: Pipeline, slices: SliceRange) -> list[SliceRange]:
    """Stores the boundaries of a range, and returns its batches."""
    from sluice.flow import steps
    from sluice.flow.steps import note_file

    with over_elsewhere():
        resolved = steps.resolve_range(pipeline, slices)
    note_file(pipeline, file_of(pipeline.name), resolved["waiting"])
    waiting = {cluster: str(error) for cluster, error in resolved["waiting"].items()}
    log.info("resolved", **{**resolved, "waiting": waiting})
    params = get_current_context()["params"]
    mode = mode_of(params)
    work = steps.work_in(pipeline, slices, mode, tables_of(pipeline, params))
    batches = work.batches
    count("batches", len(batches), pipeline=pipeline.name, mode=mode)
    count("batch_slices", sum(map(len, batches)), pipeline=pipeline.name, mode=mode)
    log.info("batches", batches=list(map(str, batches)), units=work.units, rows=work.rows, mode=mode)
    return list(batches)


# It runs also when landing failed for good: what has landed need not wait for what has not.
@task(map_index_template=BATCH_NAME, trigger_rule="all_done", max_active_tis_per_dag=1)
@final_errors_fail
@measured("load")
def load(name: str, table: str, batch: dict[str, str]) -> dict[str, object]:
    """Loads what of the batch is in the lake into one ClickHouse table, through a temporary table."""
    from sluice.flow import steps

    context, pipeline = get_current_context(), read_pipeline(name)
    slices, mode = from_xcom(batch, pipeline.slice), mode_of(context["params"])
    tables = tables_of(pipeline, context["params"])
    if tables is not None and table not in tables:
        raise AirflowSkipException(f"the run is for other tables: {', '.join(sorted(tables))}")
    extend(pipeline, "load", slices, context)
    started = time.monotonic()
    loaded = steps.load_table(pipeline, table, slices, mode, context["run_id"], log.info)
    seconds = time.monotonic() - started
    rate = round(loaded["rows"] / seconds)
    log.info(
        "loaded", batch=str(slices), mode=mode, **loaded, seconds=round(seconds, 1), rows_per_second=rate
    )
    return loaded


# Tables that the run is not for are skipped.
@task(map_index_template=BATCH_NAME, trigger_rule="none_failed")
@final_errors_fail
@measured("verify")
def verify(name: str, batch: dict[str, str]) -> None:
    """Checks that every count of the batch holds, from Kafka's offsets to the tables' rows."""
    from sluice.flow import steps

    pipeline = read_pipeline(name)
    slices = from_xcom(batch, pipeline.slice)
    context = get_current_context()
    extend(pipeline, "verify", slices, context)
    statuses = steps.verify_range(pipeline, slices, tables_of(pipeline, context["params"]))
    log.info("verified", batch=str(slices), units=len(statuses), records=steps.records_of(statuses))


@task(map_index_template=BATCH_NAME)
@final_errors_fail
@measured("publish")
def publish(name: str, batch: dict[str, str]) -> None:
    """Marks complete event hours in the lake, and emits an Airflow asset event per table."""
    from sluice.flow import steps

    pipeline = read_pipeline(name)
    context, slices = get_current_context(), from_xcom(batch, pipeline.slice)
    extend(pipeline, "publish", slices, context)
    published = steps.publish_range(pipeline, slices, None, tables_of(pipeline, context["params"]))
    emit_events(pipeline.name, published, context["outlet_events"])
    announce_hours(pipeline, published, context)


@task(trigger_rule="none_failed")
@final_errors_fail
@measured("verify_all")
def verify_all(name: str, slices: dict[str, str]) -> None:
    """Checks the whole range of the run, also where there was nothing to do: a broken equation fails every
    run until it is resolved. So does what keeps the run from older hours."""
    from sluice.flow import steps
    from sluice.flow.choose_backlog import left_out

    pipeline = read_pipeline(name)
    run_slices = from_xcom(slices, pipeline.slice)
    extend(pipeline, "verify_all", run_slices, get_current_context())
    statuses = steps.verify_range(pipeline, run_slices, tables_of(pipeline, get_current_context()["params"]))
    records = steps.records_of(statuses)
    log.info("verified the whole range", slices=str(run_slices), units=len(statuses), records=records)
    steps.refuse_rejected(pipeline, run_slices)
    error = get_current_context()["ti"].xcom_pull(task_ids="resolve", key=OLDER_ERROR)
    if error is not None:
        raise Refused(left_out(run_slices, error))


# What an hourly run does beside its own hours: a part of the older ones.
OLDER_ERROR = "older_error"
"""XCom key of `resolve`: what kept the run from older hours."""


def older(pipeline: Pipeline, slices: SliceRange, context: Any) -> Sequence[SliceRange]:
    """Returns batches of hours before the run's own `slices`. What keeps it from them fails `verify_all`."""
    from sluice.flow.choose_backlog import older_of

    backlog_work = older_of(pipeline, slices)
    if backlog_work.error is not None:
        log.error("older hours", error=str(backlog_work.error))
        context["ti"].xcom_push(OLDER_ERROR, str(backlog_work.error))
    waiting = {cluster: str(error) for cluster, error in backlog_work.waiting.items()}
    log.info("batches of older hours", batches=list(map(str, backlog_work.batches)), waiting=waiting)
    return backlog_work.batches
