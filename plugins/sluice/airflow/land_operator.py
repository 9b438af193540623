"""The `land` task: one Spark application per batch, through Airflow's own Spark operator and connection."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.airflow.metrics import measuring
from sluice.airflow.pipelines import backfill_dag_id, file_of, read_pipeline
from sluice.airflow.retries import EXPECTED, extend, final_errors_fail, final_reason
from sluice.airflow.run_params import accepts_loss, from_xcom, mode_of
from sluice.clients import connections
from sluice.config.mask import connections_of
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.safe_text import line
from sluice.slices import SliceRange

if TYPE_CHECKING:
    from sluice.flow.land.submit import SubmitSpec


# Links from Airflow's tasks to the Sluice page.
class HoursLink(BaseOperatorLink):
    """From a task of a batch to the pipeline on the page, over the hours of the batch."""

    name = "Hours in Sluice"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        # A task that failed before its templates were rendered has no hours yet.
        return page_url(operator.pipeline, operator.batch if isinstance(operator.batch, dict) else {})


class RunLink(BaseOperatorLink):
    """From the first task of a run to the run on the page: a backfill to its steps, another to its hours."""

    name = "This run in Sluice"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        pipeline = str(operator.op_args[0])
        if ti_key.dag_id == backfill_dag_id(pipeline):
            return page_url(pipeline, {"run": ti_key.run_id}, "/backfill")
        return page_url(pipeline, {"tab": "runs"} if operator.task_id == "plan" else {})


def page_url(pipeline: str, query: Mapping[str, str] = MappingProxyType({}), view: str = "") -> str:
    """Returns the pipeline's page below `[api] base_url`, or below the server's root where that is not
    set."""
    from airflow.configuration import conf

    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    address = f"{base}/plugin/sluice#/p/{quote(pipeline, safe='')}{view}"
    return f"{address}?{urlencode(query)}" if query else address


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

        connection = connections.airflow_connection(self._conn_id)
        if connection is None:
            raise WrongUse(
                f"Airflow has no Spark connection {self._conn_id!r}: make one, for example "
                f'{connections.variable(self._conn_id)}={{"conn_type": "spark", "host": "local[*]"}}, '
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
    registry = pipeline.event.registry if pipeline.event.format.decoded else None  # JSON needs no schema
    ids = [cluster.connection for cluster in pipeline.kafka] + [pipeline.lake_connection]
    ids += [registry.connection] if registry else []
    ids += connections_of(pipeline.mask)
    # PySpark's spark-submit is beside the interpreter, which need not be on a worker's PATH.
    path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
    return {
        **os.environ,
        "PATH": path,
        **job_environment,
        **connections.as_environment(filter(None, ids)),
    }


# How a landing's Spark ended, in a line; the provider's hook says it with the whole command, 2 kB.
_COMMAND = "Spark-Submit cmd"  # how the hook's line on the command begins
_OUTPUT = "\nLast spark-submit output:\n"  # what stands in its exception before the last lines
_MOST = 500
_SHELL = 128  # a shell adds it to the number of a signal


class CommandAtDebug:
    """The hook's logger, for which the command is of level DEBUG."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def info(self, text: str, *arguments: object, **fields: object) -> None:
        say = self._log.debug if text.startswith(_COMMAND) else self._log.info
        say(text, *arguments, **fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def failure(exit_code: int, message: str) -> AirflowException:
    """Returns the exception of a landing whose Spark did not end with 0; AirflowFailException for a permanent
    error. `message` is the text of the hook's exception."""
    reason = final_reason(exit_code, message)
    if reason is not None:
        return AirflowFailException(f"landing: {reason}")
    return AirflowException(spark_end(exit_code, message))


def spark_end(exit_code: int, message: str) -> str:
    """Returns the text of a retryable failure. `message` is the text of the hook's exception."""
    lines = [text.strip() for text in message.partition(_OUTPUT)[2].splitlines() if text.strip()]
    expected = [text.removeprefix(EXPECTED) for text in lines if text.startswith(EXPECTED)]
    if name := _signal(exit_code):
        return (
            f"landing: Spark was killed by {name}: by an operator, or for want of memory, of which "
            "it may take spark.driver.memory of the pipeline file, and what the worker's own limit leaves"
        )
    if expected:
        return f"landing: {line(expected[-1])}"
    last = f", and said last: {line(lines[-1], _MOST)}" if lines else ""
    return f"landing: Spark ended with exit code {exit_code}{last}"


def _signal(exit_code: int) -> str:
    """Returns the signal's name, such as `SIGKILL`; empty where no signal ended the process."""
    number = -exit_code if exit_code < 0 else exit_code - _SHELL
    try:
        return signal.Signals(number).name if number > 0 else ""
    except ValueError:
        return ""


# Ends all processes of a landing: spark-submit's JVM, the Python driver and Spark's Python workers.
#
# Airflow's hook kills spark-submit alone. The driver outlives it where it waits for something else than the
# JVM, workers have a process group of their own, and a process that stands still (SIGSTOP) ends with nobody.
MARK = "SLUICE_LANDING"
"""The variable that all processes of one landing have inherited, with a value of its own for each."""
_SECONDS = 30.0
_PROC = Path("/proc")


def marked(value: str) -> list[int]:
    """Returns the processes of this machine whose environment has the mark, as far as it may be read: the
    user's own. Empty where there is no /proc (macOS).
    """
    return [pid for pid in _pids() if _has(pid, value)]


def end_all(value: str, seconds: float = _SECONDS) -> list[int]:
    """Kills the processes with the mark, those that they start meanwhile included, and returns the survivors
    after `seconds`: none, but for processes that wait for a disk."""
    until = time.monotonic() + seconds
    while survivors := marked(value):
        for pid in survivors:
            _kill(pid, value, until)
        if time.monotonic() > until:
            return marked(value)
    return []


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.glob("[0-9]*"))


def _has(pid: int, value: str) -> bool:
    try:
        return f"{MARK}={value}".encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _kill(pid: int, value: str, until: float) -> None:
    """Kills the process and waits for its end. A handle keeps its number from meaning another one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # a kernel before 5.3 has no handles
        if _has(pid, value):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return
    try:
        if _has(pid, value):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                end = select.poll()  # select() takes no handle above 1,023
                end.register(handle, select.POLLIN)
                end.poll(max(until - time.monotonic(), 0) * 1000)
    finally:
        os.close(handle)
