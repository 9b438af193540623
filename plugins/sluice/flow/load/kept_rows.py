"""Leaves rows as they are when their unit is loaded again without a change of rules.

An erasure takes records out of the lake, and a retry adds some. So the rows of all other records are staged
as the table has them, whatever DEFAULTs like now() would give by now, and only the rest is made of the lake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.client import READ_QUORUM, Client
from sluice.clients.clickhouse.inspect_tables import keeps_values
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Pipeline
from sluice.flow.load.work import LoadWork, UnitsRefused
from sluice.flow.load.writer import UnitCounts, Writer
from sluice.safe_text import visible
from sluice.slices import Unit
from sluice.state.ledger import unit_of

MOST_ROWS = 5_000_000
"""Of a unit: the server holds the identity of each in memory."""


@dataclass(frozen=True)
class KeptRows:
    """The rows of one attempt that stay. `identity`: the columns that tell a unit's records, or their
    elements, apart, in the table as in the lake."""

    target_table: TargetTable
    writer: Writer
    identity: tuple[str, ...]

    def stage(self, source: Sql, routed: Sql) -> None:
        """Stages the rows that the table has of records in `source`."""
        columns = listed(identifier(column.name) for column in self.target_table.columns if column.stored)
        consistent = ", select_sequential_consistency = 1" if self.target_table.storage.replicated else ""
        sql = render(
            "load/keep_rows",
            staging=self.writer.attempt.staging,
            columns=columns,
            consistent=Sql(consistent),
            target=table(self.target_table.table),
            fence=self.writer.attempt.fence,
            id=id_of(self.identity),
            source=source,
            routed=routed,
        )
        self.writer.run("stage", sql)

    @property
    def others(self) -> Sql:
        """The condition on the lake's rows that none is staged of their records."""
        return render("load/other_rows", id=id_of(self.identity), staging=self.writer.attempt.staging)


def with_kept(
    client: Client, pipeline: Pipeline, target_table: TargetTable, works: Sequence[LoadWork]
) -> list[LoadWork]:
    """Returns the works, and keeps no rows of those that the table does not have one row of for each record
    of their commit, or has no way to tell. Raises what the client raises."""
    asked = [work for work in works if work.kept is not None and work.kept.rows <= MOST_ROWS]
    stored = {column.name for column in target_table.columns if column.stored}
    identities = {work.kept.identity for work in asked if work.kept is not None}
    identities = {identity for identity in identities if stored.issuperset(identity)}
    if not identities or not keeps_values(client, target_table):
        return [replace(work, kept=None) for work in works]
    counts = {
        identity: _counts(client, pipeline, target_table, identity, [w.unit for w in asked])
        for identity in identities
    }
    return [
        work
        if (kept := work.kept) is not None
        and counts.get(kept.identity, {}).get(work.unit) == (kept.rows, kept.rows)
        else replace(work, kept=None)
        for work in works
    ]


def _counts(
    client: Client,
    pipeline: Pipeline,
    target_table: TargetTable,
    identity: Sequence[str],
    units: Iterable[Unit],
) -> dict[Unit, tuple[int, int]]:
    """Returns rows and records of each unit."""
    starts = [int(unit.slice.start.timestamp()) for unit in units]
    rows = client.rows(
        render("load/count_kept", target=table(target_table.table), id=id_of(identity)),
        {"first": min(starts), "last": max(starts)},
        READ_QUORUM if target_table.storage.replicated else {},
    )
    return {unit_of(pipeline, start, cluster): (count, records) for start, cluster, count, records in rows}


def id_of(identity: Sequence[str]) -> Sql:
    """Returns the tuple that stands for a record, of the same types in table and lake."""
    numbers = [f"toInt64({name})" for name in identity if name != "_topic"]
    return Sql(f"({listed(['toUnixTimestamp(_slice)', 'toString(_cluster)', 'toString(_topic)', *numbers])})")


# Refuses a load of missing columns, or a retry, that would take rows out of a table: those with values that
# do not fit a column any more.
_SHOWN = 3
_NULLABLE_TEXT = Sql("Nullable(String)")


class TakesRowsOut(UnitsRefused):
    """A load that would make rejected rows of rows that the table has."""


@dataclass(frozen=True)
class NewRejectedRows:
    """The `rows` of a unit that would leave the table. `columns` are the places of their values, `example` is
    one of them with its record and reason: both are empty where another shard would reject the rows."""

    unit: Unit
    rows: int
    columns: tuple[str, ...] = ()
    example: str = ""


@dataclass(frozen=True)
class KeepRows:
    """Checks one attempt's staged rows, before anything is revoked."""

    target_table: TargetTable
    works: Sequence[LoadWork]
    writer: Writer
    pipeline: Pipeline
    rejected: Callable[[], UnitCounts]
    """How many rejected rows sluice.rejected has of each unit."""

    def check(self, staged: UnitCounts) -> None:
        """Raises TakesRowsOut with all units of which the table has rows that were not staged."""
        kept = {work.unit: (work.held, work.brought) for work in self.works if work.held}
        rejected, new = (self.rejected(), self._new_rejected_rows()) if kept else ({}, {})
        taken = []
        for unit, (held, brought) in kept.items():
            # A person may have emptied sluice.rejected: then only numbers tell which rejected rows were
            # there.
            forgotten = max(0, held.rejected_rows - rejected.get(unit, 0))
            left = held.rows - staged.get(unit, 0)
            more = new.get(unit, NewRejectedRows(unit, left))
            if left > 0 or more.rows > forgotten + brought:
                taken.append(more)
        if taken:
            units = frozenset(one.unit for one in taken)
            raise TakesRowsOut(self.target_table.table, _reason(taken), self._remedy(taken), units)

    def _new_rejected_rows(self) -> dict[Unit, NewRejectedRows]:
        attempt = self.writer.attempt
        sql = render("load/new_rejected_rows", rejected_rows=attempt.rejected_rows, fence=attempt.fence)
        rejected_rows_by_unit: dict[Unit, NewRejectedRows] = {}
        for start, cluster, rows, columns, first in self.writer.rows(
            sql, {"target": self.target_table.table}
        ):
            unit, (column, reason, topic, partition, offset) = self.writer.unit_of(start, cluster), first
            record = visible(f"{cluster}/{topic}/{partition}/{offset}")
            example = f"in column {visible(column)} the value of record {record} {visible(reason)}"
            rejected_rows_by_unit[unit] = NewRejectedRows(unit, int(rows), tuple(columns), example)
        return rejected_rows_by_unit

    def _remedy(self, taken: Sequence[NewRejectedRows]) -> str:
        names = dict.fromkeys(self._columns(taken))
        changes = listed(f"MODIFY COLUMN {identifier(name)} {_NULLABLE_TEXT}" for name in names)
        alter = (
            f"`ALTER TABLE {table(self.target_table.table)} {changes}` and run it again, or " if names else ""
        )
        return f"{alter}{' and '.join(map(self._reload, taken[:_SHOWN]))}, which takes them out"

    def _reload(self, one: NewRejectedRows) -> str:
        words = (*one.unit.slice.words, "--table", self.target_table.table, "--mode", "reload")
        return f"`{self.pipeline.command('run', *words)}`"

    def _columns(self, taken: Sequence[NewRejectedRows]) -> Iterator[str]:
        """Yields the table's columns that hold the places (`items[].price` is in `items`)."""
        for path in (path for one in taken for path in one.columns):
            holds = [c.name for c in self.target_table.columns if path == c.name or _inside(path, c.name)]
            yield from sorted(holds, key=len)[-1:]


def _inside(path: str, column: str) -> bool:
    return path.startswith((f"{column}.", f"{column}["))


def _reason(taken: Sequence[NewRejectedRows]) -> str:
    shown = ", ".join(f"{one.rows:,} of slice {one.unit}" for one in taken[:_SHOWN])
    more = f" and of {len(taken) - _SHOWN:,} more slices" if len(taken) > _SHOWN else ""
    example = next((one.example for one in taken if one.example), "another shard would reject them")
    return (
        f"the load would take rows out of it, and leaves these slices as they are: {shown}{more}: {example}"
    )
