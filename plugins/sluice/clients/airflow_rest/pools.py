"""Which pools Airflow has, read over its REST API."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from sluice.clients.airflow_rest.session import Session


def existing(session: Session, names: Iterable[str]) -> frozenset[str]:
    """Returns those of `names` that are pools of Airflow. Raises Unavailable and WrongUse."""
    return frozenset(name for name in names if session.read(f"/pools/{quote(name, safe='')}") is not None)
