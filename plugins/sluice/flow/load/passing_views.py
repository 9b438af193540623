"""Refuses views that read a target through a table above it: loaded rows do not pass through that."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.clients.clickhouse.passing import Passing
from sluice.clients.clickhouse.sql import table
from sluice.errors import TargetRefused


def check_passing(above: Sequence[Passing]) -> None:
    """Raises TargetRefused."""
    for passing in above:
        for view in passing.views:
            raise TargetRefused(
                passing.base,
                f"{view} reads {passing.place}, a {passing.engine} over it, and would get none of its rows: "
                f"they are put into {passing.base} itself",
                f"let it read {passing.base}, or DROP VIEW {table(view)}",
            )
