"""What the pipeline file's `airflow` block gives to DAGs and tasks, in Airflow's words. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sluice.airflow.retries import retries
from sluice.config.pipeline import Pipeline
from sluice.plan.step_limits import BASE

_DAY = timedelta(days=1)


def of_dag(pipeline: Pipeline, *tags: str) -> dict[str, Any]:
    """Returns the settings that all DAGs of the pipeline have."""
    settings = pipeline.airflow
    roles = {role: set(rights) for role, rights in settings.access_control.items()}
    return {
        "catchup": False,
        "default_args": {"owner": settings.owner, **retries(settings.retries, settings.retry_delay)},
        "tags": ["sluice", pipeline.name, *tags, *settings.tags],
        "access_control": roles or None,
    }


def of_step(pipeline: Pipeline, step: str) -> dict[str, Any]:
    """Returns the settings of each task of a step. Without a queue of its own it gets Airflow's. The step
    itself extends the timeout that `auto` gives it (retries.py)."""
    settings = pipeline.airflow.of(step)
    return {
        "pool": settings.pool,
        "priority_weight": settings.priority,
        "execution_timeout": _length(settings.timeout, BASE),
        **({"queue": settings.queue} if settings.queue else {}),
    }


def run_timeout(pipeline: Pipeline) -> timedelta | None:
    """Returns the timeout of the hourly DAG's runs: one that hangs does not hold up the next one for good."""
    return _length(pipeline.airflow.run_timeout, _DAY + pipeline.settle)


def _length(timeout: timedelta | str | None, auto: timedelta) -> timedelta | None:
    if isinstance(timeout, timedelta):
        return timeout
    return auto if timeout == "auto" else None
