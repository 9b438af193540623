"""The `land` task: one Spark application per batch, through Airflow's own Spark operator and connection."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from sluice.airflow.links import HoursLink
from sluice.airflow.metrics import measuring
from sluice.airflow.pipelines import file_of, read_pipeline
from sluice.airflow.retries import final_errors_fail
from sluice.airflow.run_params import accepts_loss, from_xcom, mode_of
from sluice.airflow.spark_end import CommandAtDebug, failure
from sluice.airflow.spark_processes import MARK, end_all
from sluice.airflow.timeouts import extend
from sluice.clients.connections import airflow_lookup
from sluice.config.mask import connections_of
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.slices import SliceRange

if TYPE_CHECKING:
    from sluice.flow.land.submit import SubmitSpec

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

    @final_errors_fail
    def execute(self, context: Any) -> None:
        """Raises AirflowFailException for permanent errors, AirflowException for retryable ones."""
        with measuring(self.pipeline, "land"):
            pipeline = read_pipeline(self.pipeline)
            slices = from_xcom(self.batch, pipeline.slice)
            extend(pipeline, "land", slices, context)
            self._land(pipeline, slices, context)

    def _land(self, pipeline: Pipeline, slices: SliceRange, context: Any, **only: str) -> int:
        """Lands the slices. `only`: `cluster=…`, where it is not all of them."""
        from sluice.flow.steps import land_range

        def submit(job: SubmitSpec) -> int:
            self.application, self.conf, self.jars = job.application, dict(job.conf), ",".join(job.jars)
            self.py_files = ",".join(job.py_files)
            self.application_args, self.name = list(job.application_args), f"sluice {pipeline.name} {slices}"
            return self._submit(process_environment(pipeline, job.env_vars))

        self._check_connection()
        mode = mode_of(context["params"])
        self.log.info("landing %s, mode %s, through connection %s", slices, mode, self._conn_id)
        how: dict[str, Any] = {**only, "accept_loss": accepts_loss(context["params"])}
        return land_range(pipeline, file_of(pipeline.name), slices, mode, context["run_id"], submit, **how)

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
        self._hook, self._mark = self._get_hook(), uuid.uuid4().hex
        self._hook._log = cast(Any, CommandAtDebug(self._hook.log))
        try:
            self._hook.submit(self.application, env={**environment, MARK: self._mark})
        except AirflowException as error:
            self._end_spark()
            # The hook keeps the exit code in its exception's text and here.
            process = self._hook._submit_sp
            if process is None or not process.returncode:
                raise
            self.log.debug("%s", error)
            raise failure(process.returncode, str(error)) from None
        except BaseException:  # Airflow's timeout is none of Exception's
            self._end_spark()
            raise
        return 0

    def on_kill(self) -> None:
        """Ends what spark-submit has started, too: called after a timeout, and for a task that is ended."""
        super().on_kill()
        self._end_spark()

    def _end_spark(self) -> None:
        if self._mark and (survivors := end_all(self._mark)):
            self.log.warning("processes of this landing that do not end: %s", survivors)


def process_environment(pipeline: Pipeline, job_environment: Mapping[str, str]) -> dict[str, str]:
    """Returns spark-submit's environment: the worker's, the application's, and the connections that landing
    needs."""
    registry = pipeline.event.registry
    ids = [cluster.connection for cluster in pipeline.kafka] + [pipeline.lake_connection]
    ids += [registry.connection] if registry else []
    ids += connections_of(pipeline.mask)
    # PySpark's spark-submit is beside the interpreter, which need not be on a worker's PATH.
    path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
    return {
        **os.environ,
        "PATH": path,
        **job_environment,
        **airflow_lookup.as_environment(filter(None, ids)),
    }
