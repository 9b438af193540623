"""Which pools Airflow has, read over its REST API."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from sluice.clients.airflow_rest.session import Session


def existing(session: Session, names: Iterable[str]) -> dict[str, bool]:
    """Returns, of those of `names` that are pools of Airflow, whether they count deferred tasks. Raises
    Unavailable and WrongUse."""
    pools = {name: session.read(f"/pools/{quote(name, safe='')}") for name in names}
    return {name: pool.get("include_deferred") is True for name, pool in pools.items() if pool is not None}
