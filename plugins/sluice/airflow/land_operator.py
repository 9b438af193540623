"""The `land` task: one Spark application per batch, through Airflow's own Spark operator and connection."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from sluice.airflow.driver_end import end_of_driver
from sluice.airflow.driver_start import DriverStart, refuse_containers
from sluice.airflow.driver_trigger import DriverTrigger, WatchedDriver
from sluice.airflow.links import HoursLink
from sluice.airflow.metrics import measuring
from sluice.airflow.pipelines import file_of, read_pipeline
from sluice.airflow.retries import final_errors_fail
from sluice.airflow.run_params import accepts_loss, from_xcom, mode_of
from sluice.airflow.spark_end import CommandAtDebug, failure
from sluice.airflow.spark_processes import MARK, end_all
from sluice.airflow.timeouts import allowed_seconds, extend
from sluice.clients.connections import airflow_lookup
from sluice.config.mask import connections_of as mask_connections
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.slices import SliceRange
from sluice.state.driver_record import DriverState

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from sluice.flow.land.submit import SubmitSpec

GRACE = timedelta(minutes=10)
"""The keeper ends a driver whose time is up. Where the trigger does not see that, Airflow ends the deferred
task so much later."""

DOC = """\
Reads exactly the batch's offsets from Kafka with Spark and writes them into the lake. It is safe to clear:
a slice that has its manifest is not landed again; `reland` and `remake` land it once per run of the DAG."""


class LandOperator(SparkSubmitOperator):
    """Submits `spark_jobs`' landing application for one batch `{"from": …, "to": …}`.

    Only the batch is a template field: what spark-submit gets is made when the task runs, and secrets go
    into its environment, never into its command line or Airflow's rendered fields.
    """

    template_fields: Sequence[str] = ("batch",)
    operator_extra_links = (HoursLink(),)

    def __init__(self, *, pipeline: str, connection: str, batch: Any, **kwargs: Any) -> None:
        super().__init__(conn_id=connection, **{"max_active_tis_per_dag": 1, "doc_md": DOC, **kwargs})
        self.map_index_template = "{{ task.batch['from'] }} – {{ task.batch['to'] }}"
        self.pipeline = pipeline
        self.batch = batch
        self._mark = ""
        self._driver: DriverStart | None = None

    @final_errors_fail
    def execute(self, context: Any) -> None:
        """Raises AirflowFailException for permanent errors, AirflowException for retryable ones."""
        with measuring(self.pipeline, "land"):
            pipeline = read_pipeline(self.pipeline)
            slices = from_xcom(self.batch, pipeline.slice)
            if pipeline.airflow.deferrable:
                self._defer(pipeline, slices, context)
            extend(pipeline, "land", slices, context)
            self._land(pipeline, slices, context)

    @final_errors_fail
    def resume(self, context: Any, event: Mapping[str, Any]) -> None:
        """Ends the task that `execute` has deferred, as `execute` would have."""
        from sluice.flow.deferred_landing import deferred_landing

        watched = WatchedDriver(**event["driver"])
        since = datetime.fromisoformat(watched.since)
        passed = max((datetime.now(UTC) - since).total_seconds(), 0)
        with measuring(self.pipeline, "land", before=passed):
            pipeline = read_pipeline(self.pipeline)
            airflow_lookup.as_environment(connections_of(pipeline))  # so their secrets are masked below
            end = partial(end_of_driver, watched, DriverState(event["state"]), self.log.info)
            deferred_landing(pipeline, from_xcom(self.batch, pipeline.slice), since, end)

    def _defer(self, pipeline: Pipeline, slices: SliceRange, context: Any) -> NoReturn:
        """Starts the driver, or attaches to that of an earlier try, and raises TaskDeferred."""
        from sluice.flow.land.submit import spark_submit_arguments

        refuse_containers()
        self._check_connection()
        ti, mode, run = context["ti"], mode_of(context["params"]), context["run_id"]
        loss = accepts_loss(context["params"])
        job = spark_submit_arguments(pipeline, file_of(pipeline.name), slices, mode, run, accept_loss=loss)
        self._take(job, pipeline, slices)
        landing = [ti.dag_id, ti.task_id, run, slices.start.isoformat(), slices.end.isoformat(), mode]
        environment = process_environment(pipeline, job.env_vars)
        seconds = allowed_seconds(pipeline, "land", slices, ti.try_number)
        command = self._prepared()._build_spark_submit_command(self.application)
        self._driver = DriverStart(pipeline, landing, command, environment, seconds, self.log.info)
        try:
            watched = self._driver.watched()
        except BaseException:  # Airflow's timeout is none of Exception's
            self._end_spark()
            self._driver.give_up()
            raise
        self.log.info("%s, mode %s, is landed while this task is deferred", slices, mode)
        timeout = None if seconds is None else timedelta(seconds=seconds) + GRACE
        self.defer(trigger=DriverTrigger(**asdict(watched)), method_name="resume", timeout=timeout)

    def _land(self, pipeline: Pipeline, slices: SliceRange, context: Any, **only: str) -> int:
        """Lands the slices. `only`: `cluster=…`, where it is not all of them."""
        from sluice.flow.steps import land_range

        def submit(job: SubmitSpec) -> int:
            self._take(job, pipeline, slices)
            return self._submit(process_environment(pipeline, job.env_vars))

        self._check_connection()
        mode = mode_of(context["params"])
        self.log.info("landing %s, mode %s, through connection %s", slices, mode, self._conn_id)
        how: dict[str, Any] = {**only, "accept_loss": accepts_loss(context["params"])}
        return land_range(pipeline, file_of(pipeline.name), slices, mode, context["run_id"], submit, **how)

    def _take(self, job: SubmitSpec, pipeline: Pipeline, slices: SliceRange) -> None:
        self.application, self.conf, self.jars = job.application, dict(job.conf), ",".join(job.jars)
        self.py_files = ",".join(job.py_files)
        self.application_args, self.name = list(job.application_args), f"sluice {pipeline.name} {slices}"

    def _check_connection(self) -> None:
        """Refuses a missing connection, which the hook takes for YARN, and cluster mode, for which it would
        put the environment, secrets and all, on the command line."""
        from sluice.flow.land.submit import refuse_cluster_mode

        connection = airflow_lookup.airflow_connection(self._conn_id)
        if connection is None:
            raise WrongUse(
                f"Airflow has no Spark connection {self._conn_id!r}: make one, for example "
                f'{airflow_lookup.variable(self._conn_id)}={{"conn_type": "spark", "host": "local[*]"}}, '
                "or correct `spark_connection` in the pipeline file"
            )
        refuse_cluster_mode(self._conn_id, connection.extra_dejson.get("deploy-mode"), {})

    def _submit(self, environment: Mapping[str, str]) -> int:
        """Returns 0: the hook raises for every other exit code. Whatever ends it ends Spark first."""
        hook, self._mark = self._prepared(), uuid.uuid4().hex
        try:
            hook.submit(self.application, env={**environment, MARK: self._mark})
        except AirflowException as error:
            self._end_spark()
            # The hook keeps the exit code in its exception's text and here.
            process = hook._submit_sp
            if process is None or not process.returncode:
                raise
            self.log.debug("%s", error)
            raise failure(process.returncode, str(error)) from None
        except BaseException:  # Airflow's timeout is none of Exception's
            self._end_spark()
            raise
        return 0

    def _prepared(self) -> SparkSubmitHook:
        self._hook = self._get_hook()
        self._hook._log = cast(Any, CommandAtDebug(self._hook.log))
        return self._hook

    def on_kill(self) -> None:
        """Ends what spark-submit has started, too: called after a timeout, and for a task that is ended."""
        super().on_kill()
        self._end_spark()

    def _end_spark(self) -> None:
        survivors = end_all(self._mark) if self._mark else self._driver.end() if self._driver else []
        if survivors:
            self.log.warning("processes of this landing that do not end: %s", survivors)


def process_environment(pipeline: Pipeline, job_environment: Mapping[str, str]) -> dict[str, str]:
    """Returns spark-submit's environment: the worker's, the application's, and the connections that landing
    needs."""
    # PySpark's spark-submit is beside the interpreter, which need not be on a worker's PATH.
    path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
    return {
        **os.environ,
        "PATH": path,
        **job_environment,
        **airflow_lookup.as_environment(connections_of(pipeline)),
    }


def connections_of(pipeline: Pipeline) -> list[str]:
    """Returns the ids of the connections that landing needs."""
    registry = pipeline.event.registry
    ids = [cluster.connection for cluster in pipeline.kafka] + [pipeline.lake_connection]
    ids += [registry.connection] if registry else []
    ids += mask_connections(pipeline.mask)
    return list(filter(None, ids))
