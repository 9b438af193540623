"""Sends one attempt's statements: each is preceded by a renewal of the lease, and has its own query id."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice import crash_points
from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.errors import UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, listed, literal, render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.crash_points import Load
from sluice.errors import Fenced
from sluice.flow.load.fencing import LoadAttempt
from sluice.safe_text import line
from sluice.slices import Unit

log = logging.getLogger(__name__)

UnitCounts = dict[Unit, int]
# What stands behind these words is where a table was missed, not which.
_ELSEWHERE = re.compile(r" in scope |: ?while |: In scope ")


@dataclass
class Writer:
    client: Client
    attempt: LoadAttempt
    renew: Callable[[], None]
    unit_of: Callable[[int, str], Unit]
    units: frozenset[Unit]
    settings: Mapping[str, object] = field(default_factory=dict)
    statements: int = 0
    blocks: int = 0

    def run(
        self,
        step: str,
        sql: Sql,
        parameters: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        blocks: int = 0,
    ) -> None:
        """`blocks` are those that it puts into tables that stay.

        Raises Fenced when the lease, or a table of this attempt, is gone.
        """
        self.renew()
        query_id = self.attempt.query_id(step, self.statements)
        self.statements += 1
        self.blocks += blocks
        started = time.monotonic()
        try:
            self.client.run(sql, parameters, {**WRITE, **self.settings, "query_id": query_id}, body)
        except ServerError as error:
            raise self._fenced(error) from error
        crash_points.reached(Load.STATEMENT)
        seconds = time.monotonic() - started
        log.info("%s: %s took %.2f s, query id %s", line(self.attempt.target), step, seconds, query_id)

    def counts(self, sql: Sql, parameters: Mapping[str, Any] | None = None) -> UnitCounts:
        """Reads rows of the attempt's units, out of a statement that gives (slice's start, cluster, rows)."""
        counts = {self.unit_of(start, cluster): rows for start, cluster, rows in self.rows(sql, parameters)}
        return {unit: rows for unit, rows in counts.items() if unit in self.units}

    def count_rows(self, table: Sql) -> UnitCounts:
        """Returns how many rows of each of the attempt's units the table holds."""
        return self.counts(render("load/count_rows", rows_by_unit=self.rows_by_unit(table)))

    def rows_by_unit(self, table: Sql) -> Sql:
        """Returns the SELECT of (slice, cluster, rows), without units that have none."""
        clusters = [
            f"({literal(name)}, countIf(_cluster = {literal(name)}))"
            for name in sorted({unit.cluster for unit in self.units})
        ]
        return render("load/rows_by_unit", clusters=listed(clusters), table=table, fence=self.attempt.fence)

    def rows(
        self,
        sql: Sql,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> list[Sequence[Any]]:
        """Returns what a statement that only reads gives. Raises Fenced when a table of this attempt is
        gone."""
        try:
            return self.client.rows(sql, parameters, settings)
        except ServerError as error:
            raise self._fenced(error) from error

    def _fenced(self, error: ServerError) -> Exception:
        own_tables = (self.attempt.fence_name, self.attempt.staging_name)
        missing = _ELSEWHERE.split(error.reason)[0]
        if error.code == UNKNOWN_TABLE and any(name in missing for name in own_tables):
            return Fenced(f"table {self.attempt.target}: a successor has removed this attempt's tables")
        return error


# The tables that a load's rows go to, each with the attempt's own table that holds them first. Pure.
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
        target_table.storage.replicated,
        counted=target_table.counted,
    )
    names = staged_names(target_table, attempt)
    view_tables = [
        Destination(
            view_table.table,
            names[view_table.table],
            view_table.projections,
            view_table.storage.replicated,
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
