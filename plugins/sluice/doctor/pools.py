"""Checks that the pools of tasks exist, and that the pool of deferred landings bounds them: a task whose
pool is missing never starts, and no page of Airflow says so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from sluice.clients.airflow_rest.access import named_access
from sluice.clients.connections import airflow_lookup
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Area, Check, fail, ok, warn

_ALWAYS = "default_pool"  # Airflow makes it, and refuses to delete it
_UNBOUND = (
    "does not count deferred tasks, and landings of this pipeline defer: however many slots it has, it does "
    "not bound how many Sparks run at once"
)


@dataclass(frozen=True)
class KnownPools:
    """Pools of the Airflow at `place`, a folder or an address, and whether they count deferred tasks;
    `elsewhere` names the setting by which another one is asked."""

    place: str
    counts_deferred: Mapping[str, bool]
    elsewhere: str


def read_pools(named: Sequence[str], environment: Mapping[str, str] = os.environ) -> KnownPools | None:
    """Returns what Airflow has of the pools `named`; None where no Airflow is known here.

    AIRFLOW_HOME names the Airflow whose database is asked. Without it the REST API is asked that the
    connection sluice_airflow names, or the embedded stack's. Raises Unavailable and WrongUse.
    """
    access = None if environment.get("AIRFLOW_HOME") else named_access(environment)
    if access is not None:
        from sluice.clients.airflow_rest.pools import existing
        from sluice.clients.airflow_rest.session import open_session

        with open_session(access) as session:
            return KnownPools(access.url, existing(session, named), "the connection sluice_airflow")
    counts_deferred = airflow_lookup.pools()
    return (
        None
        if counts_deferred is None
        else KnownPools(str(airflow_lookup.home()), counts_deferred, "AIRFLOW_HOME")
    )


def pool_checks(
    pipeline: Pipeline, read: Callable[[Sequence[str]], KnownPools | None] = read_pools
) -> Iterator[Check]:
    """Asks only where a pool of one's own is named, or a landing defers. Raises what `read` raises."""
    named = [pool for pool in pipeline.airflow.pools if pool != _ALWAYS]
    landing = _deferring(pipeline)
    asked = list(dict.fromkeys([*named, *landing]))
    if not asked:
        return
    pools = read(asked)
    if pools is None:
        finding = f"Airflow is not set up here: nothing is known of {', '.join(asked)}"
        yield warn(Area.AIRFLOW, "pools", finding, "`airflow pools list`, where it is")
        return
    for pool in asked:
        place = f"pool {pool}"
        if pool not in pools.counts_deferred:
            finding = f"is not in the Airflow of {pools.place}: a task that names it never starts"
            remedy = f"`{_set(pool, pool in landing)}`; for another Airflow, {pools.elsewhere}"
            yield fail(Area.AIRFLOW, place, finding, remedy)
        elif pool in landing and not pools.counts_deferred[pool]:
            yield warn(Area.AIRFLOW, place, _UNBOUND, _bind(pool))
        else:
            yield ok(Area.AIRFLOW, place, "is there")


def _deferring(pipeline: Pipeline) -> tuple[str, ...]:
    """Returns the pool of a landing that gives its slot back while Spark is at work."""
    settings = pipeline.airflow
    return (settings.of("land").pool or settings.pool,) if settings.deferrable else ()


def _bind(pool: str) -> str:
    if pool != _ALWAYS:
        return f"`{_set(pool, True)}`, with the slots it has"
    setting = "`airflow: {steps: {land: {pool: sluice_land}}}`"
    return f"`{_set('sluice_land', True)}`, and in the pipeline file {setting}"


def _set(pool: str, counts_deferred: bool) -> str:
    option = "--include-deferred " if counts_deferred else ""
    return f"airflow pools set {option}{quote(pool)} SLOTS DESCRIPTION"
