"""Sluice's samples as Airflow's own metrics, and the time and the errors of every task's step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import structlog
from airflow.sdk import get_current_context
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from airflow.sdk.observability import stats

from sluice import __version__
from sluice.clients.openlineage.delivery import Parent, RunOfJob, configured
from sluice.errors import SluiceError
from sluice.metrics import meter
from sluice.metrics.meter import MetricSample, count, emit, taken_by
from sluice.metrics.table import NAMES, MetricKind
from sluice.runtime import collect_seldom
from sluice.safe_text import label, line

if TYPE_CHECKING:
    from sluice.flow.lineage import Destination


log = structlog.get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


def to_airflow(sample: MetricSample) -> None:
    """Sends a sample to what `[metrics]` in Airflow's configuration names, if anything."""
    tags = {n: label(v if n in NAMES else v.replace(" ", "_")) for n, v in sample.labels.items()}
    metric = sample.metric.full_name
    if sample.metric.kind is MetricKind.COUNTER:
        stats.incr(metric, int(sample.value), tags=tags)
    elif sample.metric.kind is MetricKind.GAUGE:
        stats.gauge(metric, sample.value, tags=tags)
    else:
        stats.timing(metric, timedelta(seconds=sample.value), tags=tags)


def measured(step: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Measures a task's step, whose first argument is the pipeline's name. The task's process is its own, and
    settled for the step.

    It goes below `final_errors_fail`, so that it sees an error's own class.
    """

    def decorate(run: Callable[P, R]) -> Callable[P, R]:
        @wraps(run)
        def measure(*args: P.args, **kwargs: P.kwargs) -> R:
            collect_seldom()
            name = str(kwargs["name"] if "name" in kwargs else args[0])
            from sluice.state.notes import of_run  # the drivers: not where files of DAGs are parsed

            with of_run(_run_id()), measuring(name, step):
                return run(*args, **kwargs)

        return measure

    return decorate


def _run_id() -> str:
    """Returns the run of the task that is at work; empty where none is."""
    try:
        return str(get_current_context().get("run_id", ""))
    except RuntimeError:
        return ""


@contextmanager
def measuring(pipeline: str, step: str) -> Iterator[None]:
    """Takes what is emitted inside, and adds the step's time, its outcome and the class of its error. The
    task's log begins with the version that runs it."""
    log.info("sluice", version=__version__, step=step, pipeline=pipeline)
    started, outcome = time.monotonic(), "done"
    with lineage_of_task(), taken_by(to_airflow):
        try:
            yield
        except AirflowSkipException:
            raise  # there was nothing to do
        except (Exception, AirflowTaskTimeout) as error:
            again = _again(error)
            outcome = "retry" if again else "failed"
            name, retry = type(error).__name__, "yes" if again else "no"
            count("step_errors", pipeline=pipeline, step=step, error=name, retry=retry)
            raise
        finally:
            emit(meter.drain(pipeline))
            count("step_seconds", time.monotonic() - started, pipeline=pipeline, step=step)
            count("step_runs", pipeline=pipeline, step=step, outcome=outcome)


def _again(error: BaseException) -> bool:
    """Returns whether Airflow retries the task: for all but permanent errors."""
    if isinstance(error, SluiceError):
        return error.retryable
    return not isinstance(error, AirflowFailException)


# The steps of a task as OpenLineage runs below the task's own, which Airflow's provider reports.
#
# What is configured for the provider (`[openlineage]`, OPENLINEAGE_…) is taken as it is, its emission policy
# too. Without the provider the client's own configuration is asked, and the steps have no parent. Where
# nothing is configured, nothing of it is imported.


@contextmanager
def lineage_of_task() -> Iterator[None]:
    """Reports the steps inside. Nothing that has to do with lineage ends the task."""
    if not _asked_for():
        yield
        return
    from sluice.flow.lineage import listening

    with listening(_destination):
        yield


def _has_provider() -> bool:
    return find_spec("airflow.providers.openlineage") is not None


def _asked_for() -> bool:
    if not _has_provider():
        return configured()
    from airflow.providers.openlineage import conf

    try:
        return not conf.is_disabled()
    except Exception:  # a configuration that cannot be read: `_destination` meets it again, and is logged
        return True


def _destination() -> Destination | None:
    """None where the provider's policy leaves the task out. Raises what provider and client raise."""
    if not _has_provider():
        from sluice.flow.lineage import from_environment

        return from_environment()
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
    from airflow.providers.openlineage.utils.emission_policy import resolve_task_emission_policy

    from sluice.clients.openlineage.open_client import open_sender
    from sluice.flow.lineage import Destination

    context = get_current_context()
    ti: Any = context["ti"]
    if not resolve_task_emission_policy(context["task"], ti.dag_id, ti.task_id).emit:
        return None
    # A client of its own: the provider's is used by processes that it forks from this one.
    sender = open_sender(OpenLineageAdapter().get_openlineage_config())
    parent = _parent(ti)
    return None if sender is None else Destination(sender, parent.run.namespace, parent, _line_of)


def _parent(ti: Any) -> Parent:
    from airflow.providers.openlineage.plugins import macros

    of: Any = macros  # its functions have no types
    root = (of.lineage_root_job_namespace(ti), of.lineage_root_job_name(ti), of.lineage_root_run_id(ti))
    return Parent(
        RunOfJob(of.lineage_job_namespace(), of.lineage_job_name(ti), of.lineage_run_id(ti)), RunOfJob(*root)
    )


def _line_of(error: BaseException) -> str:
    """As the task's log has it, with Airflow's masking: the landing's errors are Airflow's, too."""
    from airflow.sdk._shared.secrets_masker import redact

    from sluice.flow.lineage import own_line

    text = line(str(error)) if isinstance(error, AirflowException) else own_line(error)
    return str(redact(text))
