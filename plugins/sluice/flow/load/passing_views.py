"""Refuses views that read a target through a table above it: loaded rows do not pass through that."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.clients.clickhouse.passing import Passing
from sluice.clients.clickhouse.sql import table
from sluice.errors import TargetRefused


def check_passing(above: Sequence[Passing]) -> None:
    """Raises TargetRefused."""
    for one in above:
        for view in one.views:
            raise TargetRefused(
                one.base,
                f"{view} reads {one.place}, a {one.engine} over it, and would get none of its rows: they are "
                f"put into {one.base} itself",
                f"let it read {one.base}, or DROP VIEW {table(view)}",
            )
