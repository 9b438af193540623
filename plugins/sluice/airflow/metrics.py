"""Sluice's samples as Airflow's own metrics, and the time and the errors of every task's step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

import structlog
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout
from airflow.sdk.observability import stats

from sluice import __version__
from sluice.airflow.lineage import lineage_of_task
from sluice.errors import SluiceError
from sluice.metrics import meter
from sluice.metrics.sink import MetricSample, count, emit, taken_by
from sluice.metrics.table import NAMES, MetricKind
from sluice.runtime import collect_seldom
from sluice.safe_text import label

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
            with measuring(str(kwargs["name"] if "name" in kwargs else args[0]), step):
                return run(*args, **kwargs)

        return measure

    return decorate


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
