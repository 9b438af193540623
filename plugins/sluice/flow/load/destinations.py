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


def destinations(target_table: TargetTable, attempt: LoadAttempt) -> tuple[Destination, ...]:
    """Returns the target, and the tables in which its views' rows stay."""
    target = Destination(
        target_table.table,
        attempt.staging_name,
        target_table.projections,
        target_table.replicated,
        counted=not target_table.ttl,
    )
    names = staged_names(target_table, attempt)
    view_tables = [
        Destination(
            view_table.table,
            names[view_table.table],
            view_table.projections,
            view_table.replicated,
            view_table.counted,
        )
        for view_table in target_table.stored
    ]
    return (target, *view_tables)


def staged_names(target_table: TargetTable, attempt: LoadAttempt) -> dict[str, str]:
    """Returns, for each table that gets rows, also those that only pass them on, what the attempt's own is
    called."""
    tables = list(dict.fromkeys(view_table.table for view_table in target_table.view_tables))
    view_tables = {name: attempt.temporary_name(f"fed{number}") for number, name in enumerate(tables)}
    return {target_table.table: attempt.staging_name, **view_tables}
