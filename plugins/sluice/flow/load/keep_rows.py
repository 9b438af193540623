"""Refuses a refill or a retry that would take rows out of a table: those with values that do not fit a column
any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql, identifier, listed, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import UnitCounts, Writer
from sluice.safe_text import visible
from sluice.slices import Unit

_SHOWN = 3
_NULLABLE_TEXT = Sql("Nullable(String)")


@dataclass(eq=False)
class TakesRowsOut(TargetRefused):
    """A load that would make misfits of rows that the table has; their `units` stay as they are."""

    units: frozenset[Unit]

    def others(self, works: Iterable[LoadWork]) -> list[LoadWork]:
        return [work for work in works if work.unit not in self.units]


@dataclass(frozen=True)
class NewMisfits:
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
    """How many misfits sluice.rejected has of each unit."""

    def check(self, staged: UnitCounts) -> None:
        """Raises TakesRowsOut with all units of which the table has rows that were not staged."""
        kept = {work.unit: (work.held, work.brought) for work in self.works if work.held}
        rejected, new = (self.rejected(), self._new_misfits()) if kept else ({}, {})
        taken = []
        for unit, (held, brought) in kept.items():
            # A person may have emptied sluice.rejected: then only numbers tell which misfits were there.
            forgotten = max(0, held.misfits - rejected.get(unit, 0))
            left = held.rows - staged.get(unit, 0)
            more = new.get(unit, NewMisfits(unit, left))
            if left > 0 or more.rows > forgotten + brought:
                taken.append(more)
        if taken:
            units = frozenset(one.unit for one in taken)
            raise TakesRowsOut(self.target_table.table, _reason(taken), self._remedy(taken), units)

    def _new_misfits(self) -> dict[Unit, NewMisfits]:
        attempt = self.writer.attempt
        sql = render("load/new_misfits", misfits=attempt.misfits, fence=attempt.fence)
        misfits_by_unit: dict[Unit, NewMisfits] = {}
        for start, cluster, rows, columns, first in self.writer.rows(
            sql, {"target": self.target_table.table}
        ):
            unit, (column, reason, topic, partition, offset) = self.writer.unit_of(start, cluster), first
            record = visible(f"{cluster}/{topic}/{partition}/{offset}")
            example = f"in column {visible(column)} the value of record {record} {visible(reason)}"
            misfits_by_unit[unit] = NewMisfits(unit, int(rows), tuple(columns), example)
        return misfits_by_unit

    def _remedy(self, taken: Sequence[NewMisfits]) -> str:
        names = dict.fromkeys(self._columns(taken))
        changes = listed(f"MODIFY COLUMN {identifier(name)} {_NULLABLE_TEXT}" for name in names)
        alter = (
            f"`ALTER TABLE {table(self.target_table.table)} {changes}` and run it again, or " if names else ""
        )
        return f"{alter}{' and '.join(map(self._reload, taken[:_SHOWN]))}, which takes them out"

    def _reload(self, one: NewMisfits) -> str:
        words = (*one.unit.slice.words, "--table", self.target_table.table, "--mode", "reload")
        return f"`{self.pipeline.command('run', *words)}`"

    def _columns(self, taken: Sequence[NewMisfits]) -> Iterator[str]:
        """Yields the table's columns that hold the places (`items[].price` is in `items`)."""
        for path in (path for one in taken for path in one.columns):
            holds = [c.name for c in self.target_table.columns if path == c.name or _inside(path, c.name)]
            yield from sorted(holds, key=len)[-1:]


def _inside(path: str, column: str) -> bool:
    return path.startswith((f"{column}.", f"{column}["))


def _reason(taken: Sequence[NewMisfits]) -> str:
    shown = ", ".join(f"{one.rows:,} of slice {one.unit}" for one in taken[:_SHOWN])
    more = f" and of {len(taken) - _SHOWN:,} more slices" if len(taken) > _SHOWN else ""
    example = next((one.example for one in taken if one.example), "another shard would reject them")
    return (
        f"the load would take rows out of it, and leaves these slices as they are: {shown}{more}: {example}"
    )
