"""Which failures Airflow retries: retryable ones only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from signal import ITIMER_REAL, getitimer, setitimer
from typing import Any, ParamSpec, TypeVar

import structlog
from airflow.sdk.exceptions import AirflowFailException

from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.safe_text import line
from sluice.slices import SliceRange

_LONGEST_DELAY = timedelta(minutes=15)

# How spark_jobs/land.py ends for an error that it expected: this line, and the error's exit code, which
# is 75 (sysexits.h, EX_TEMPFAIL) when it is retryable.
EXPECTED = "error: "
FINAL_EXITS = frozenset({1, 2, 3})

P = ParamSpec("P")
R = TypeVar("R")


def retries(count: int, delay: timedelta) -> dict[str, Any]:
    """Returns the settings of `count` retries, the first after `delay`, each further one after twice as
    long."""
    return {
        "retries": count,
        "retry_delay": delay,
        "retry_exponential_backoff": 2,
        "max_retry_delay": max(_LONGEST_DELAY, delay),
    }


def final_errors_fail(step: Callable[P, R]) -> Callable[P, R]:
    """Ends the task with the one-line message of a permanent SluiceError; other errors pass through.

    Airflow's timeout, which is retryable, is raised until the step has ended.
    """

    @wraps(step)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        raise_again()
        try:
            return step(*args, **kwargs)
        except SluiceError as error:
            if error.retryable:
                raise
            raise AirflowFailException(line(str(error))) from error.__cause__

    return run


def final_reason(exit_code: int | None, output: str) -> str | None:
    """Returns the permanent error of a landing that ended with `exit_code`, else None.

    An exit code alone is not enough: Python and spark-submit end with 1 for whatever they did not expect.
    """
    errors = [text.removeprefix(EXPECTED) for text in output.splitlines() if text.startswith(EXPECTED)]
    return errors[-1] if errors and exit_code in FINAL_EXITS else None


# Airflow's `execution_timeout` is one number for a task; here it gets as long as a try's work needs.
log = structlog.get_logger(__name__)

AGAIN_SECONDS = 60.0
"""A timeout is raised in the main thread, which may first wait for others: so often it is raised again."""


def raise_again() -> None:
    """Lets Airflow's timer, where the task has one, fire again until the step has ended.

    Without that, a step whose threads hang would wait for them for good after its timeout.
    """
    seconds_left, _ = getitimer(ITIMER_REAL)
    if seconds_left:
        setitimer(ITIMER_REAL, seconds_left, AGAIN_SECONDS)


def extend(pipeline: Pipeline, step: str, slices: SliceRange, context: Any) -> timedelta | None:
    """Sets the timer to what this try may take over `slices`, and returns that; None for a task whose timeout
    the pipeline file sets, or that has none. Raises what the lake raises."""
    from sluice.plan.estimate import duration_text
    from sluice.plan.step_limits import time_for

    if pipeline.airflow.of(step).timeout != "auto" or not getitimer(ITIMER_REAL)[0]:
        return None
    allowed = time_for(pipeline, step, slices, context["ti"].try_number)
    setitimer(ITIMER_REAL, allowed.total_seconds(), AGAIN_SECONDS)
    log.info("timeout of this try", allowed=duration_text(allowed.total_seconds()))
    return allowed
