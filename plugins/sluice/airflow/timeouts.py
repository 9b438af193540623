"""Airflow's `execution_timeout` is one number for a task; here it gets as long as a try's work needs."""

from __future__ import annotations

from datetime import timedelta
from signal import ITIMER_REAL, getitimer, setitimer
from typing import Any

import structlog

from sluice.config.pipeline import Pipeline
from sluice.slices import SliceRange

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
    from sluice.flow.step_time import time_for
    from sluice.plan.estimate import duration_text

    if pipeline.airflow.of(step).timeout != "auto" or not getitimer(ITIMER_REAL)[0]:
        return None
    allowed = time_for(pipeline, step, slices, context["ti"].try_number)
    setitimer(ITIMER_REAL, allowed.total_seconds(), AGAIN_SECONDS)
    log.info("timeout of this try", allowed=duration_text(allowed.total_seconds()))
    return allowed
