"""Checks that the pools of tasks exist: a task whose pool is missing never starts, and no page of Airflow
says so."""

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


@dataclass(frozen=True)
class KnownPools:
    """Names of the pools of the Airflow at `place`, a folder or an address; `elsewhere` names the setting by
    which another one is asked."""

    place: str
    names: frozenset[str]
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
    names = airflow_lookup.pools()
    return None if names is None else KnownPools(str(airflow_lookup.home()), names, "AIRFLOW_HOME")


def pool_checks(
    pipeline: Pipeline, read: Callable[[Sequence[str]], KnownPools | None] = read_pools
) -> Iterator[Check]:
    """Asks only where a pool of one's own is named. Raises what `read` raises."""
    named = [pool for pool in pipeline.airflow.pools if pool != _ALWAYS]
    if not named:
        return
    pools = read(named)
    if pools is None:
        finding = f"Airflow is not set up here: nothing is known of {', '.join(named)}"
        yield warn(Area.AIRFLOW, "pools", finding, "`airflow pools list`, where it is")
        return
    for pool in named:
        place = f"pool {pool}"
        if pool in pools.names:
            yield ok(Area.AIRFLOW, place, "is there")
        else:
            finding = f"is not in the Airflow of {pools.place}: a task that names it never starts"
            remedy = (
                f"`airflow pools set {quote(pool)} SLOTS DESCRIPTION`; for another Airflow, {pools.elsewhere}"
            )
            yield fail(Area.AIRFLOW, place, finding, remedy)
