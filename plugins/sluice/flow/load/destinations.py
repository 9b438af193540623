"""The tables that a load's rows go to, each with the attempt's own table that holds them first. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier
from sluice.clients.clickhouse.tables import TargetTable
from sluice.flow.load.fencing import LoadAttempt


@dataclass(frozen=True)
class Destination:
    """`counted`: as many rows stay in the table as are put into it."""

    table: str
    staged_name: str
    projections: bool
    replicated: bool
    counted: bool

    @property
    def staged(self) -> Sql:
        return identifier(SYSTEM, self.staged_name)


def destinations(found: TargetTable, attempt: LoadAttempt) -> tuple[Destination, ...]:
    """Returns the target, and the tables in which its views' rows stay."""
    own = Destination(
        found.table, attempt.staging_name, found.projections, found.replicated, counted=not found.ttl
    )
    names = staged_names(found, attempt)
    view_tables = [
        Destination(
            view_table.table,
            names[view_table.table],
            view_table.projections,
            view_table.replicated,
            view_table.counted,
        )
        for view_table in found.stored
    ]
    return (own, *view_tables)


def staged_names(found: TargetTable, attempt: LoadAttempt) -> dict[str, str]:
    """Returns, for each table that gets rows, also those that only pass them on, what the attempt's own is
    called."""
    tables = list(dict.fromkeys(view_table.table for view_table in found.view_tables))
    view_tables = {name: attempt.temporary_name(f"fed{number}") for number, name in enumerate(tables)}
    return {found.table: attempt.staging_name, **view_tables}
