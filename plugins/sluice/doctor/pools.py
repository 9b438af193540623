"""Checks that the pools of tasks exist: a task whose pool is missing never starts, and no page of Airflow
says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from shlex import quote

from sluice.clients.connections import airflow_lookup
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Area, Check, fail, ok, warn

_ALWAYS = "default_pool"  # Airflow makes it, and refuses to delete it


def pool_checks(
    pipeline: Pipeline, read: Callable[[], frozenset[str] | None] = airflow_lookup.pools
) -> Iterator[Check]:
    """Asks only where a pool of one's own is named. Raises Unavailable."""
    named = [pool for pool in pipeline.airflow.pools if pool != _ALWAYS]
    if not named:
        return
    known = read()
    if known is None:
        found = f"Airflow is not set up here: nothing is known of {', '.join(named)}"
        yield warn(Area.AIRFLOW, "pools", found, "`airflow pools list`, where it is")
        return
    for pool in named:
        place = f"pool {pool}"
        if pool in known:
            yield ok(Area.AIRFLOW, place, "is there")
        else:
            found = f"is not in the Airflow of {airflow_lookup.home()}: a task that names it never starts"
            remedy = f"`airflow pools set {quote(pool)} SLOTS DESCRIPTION`; for another Airflow, AIRFLOW_HOME"
            yield fail(Area.AIRFLOW, place, found, remedy)
