"""Reads ClickHouse: what a target, sluice.rejected and the tables of its views hold. Grouped statements,
one of a kind for each table, however many slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pendulum

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.inspect_tables import keeps_values, read_table
from sluice.clients.clickhouse.sql import Sql, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.counts import OWN
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.verify.facts import ByType, RowIdentities, TableFacts
from sluice.flow.verify.read_views import read_views
from sluice.flow.verify.ttl import forgets, lasting
from sluice.slices import SliceRange, Unit
from sluice.state.ledger import LedgerRow, unit_of
from sluice.state.system_tables import view_stands
from sluice.state.target_ddl import creation

_IDENTITY = frozenset({"_topic", "_partition", "_offset"})
_LAST = (1 << 32) - 1  # of a DateTime, in seconds
# A unit's offsets in a partition lie within 2^36 of each other, a message's rows below 2^28.
_BY_ROW = Sql("bitShiftLeft(toUInt64(_offset), 28) + toUInt64(_row)")
_BY_RECORD = Sql("toUInt64(_offset)")


@dataclass(frozen=True)
class SliceSpan:
    """`[start, end)` of slice starts, in seconds since the epoch."""

    start: int = 0
    end: int = _LAST

    @classmethod
    def of(cls, slices: SliceRange) -> SliceSpan:
        return cls(int(slices.start.timestamp()), int(slices.end.timestamp()))

    def holds(self, unit: Unit) -> bool:
        return self.start <= unit.slice.start.timestamp() < self.end

    @property
    def parameters(self) -> dict[str, int]:
        return {"start": self.start, "end": self.end}


def read_target(
    client: Client, pipeline: Pipeline, target: Target, ledger: Mapping[Unit, LedgerRow], span: SliceSpan
) -> TableFacts:
    """Raises what the client raises."""
    target_table = read_table(client, target.database, target.name)
    misfits = _by_type(
        pipeline, _ask(client, render("verify/misfits"), {"target": target.table, **span.parameters})
    )
    if target_table is None:
        remedy = creation(pipeline, target)
        return TableFacts(target.table, missing=remedy, misfits=misfits, ledger=ledger)
    if not {"_slice", "_cluster"} <= _names(target_table):
        return TableFacts(target.table, misfits=misfits, ledger=ledger)
    rows = _rows(client, pipeline, target, target_table, span)
    views = read_views(client, pipeline, target, target_table, span.parameters)
    return TableFacts(
        table=target.table,
        expiring=forgets(target_table),
        lasting=lasting(client, pipeline, target_table, [unit for unit in ledger if span.holds(unit)]),
        rows=rows,
        misfits=misfits,
        identities=_identities(client, pipeline, target, target_table, span),
        view_tables=views.view_tables,
        notes=views.notes,
        projections=target_table.projections,
        ledger=ledger,
        counted=read_counts(client, pipeline, target, target_table, span.parameters),
        viewed=not ledger or view_stands(client, target_table),
        aged=pipeline.keep.began_before(target.table, pendulum.now("UTC")),
        steady=keeps_values(client, target_table),
    )


def _names(target_table: TargetTable) -> set[str]:
    return {column.name for column in target_table.columns}


def _rows(
    client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable, span: SliceSpan
) -> Mapping[Unit, ByType]:
    kind = Sql("toString(_type)" if "_type" in _names(target_table) else "''")
    sql = render("verify/rows", table=table(target.table), type=kind)
    return _by_type(pipeline, _ask(client, sql, span.parameters))


def _identities(
    client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable, span: SliceSpan
) -> tuple[RowIdentities, ...]:
    if target.counted or target.rollup is not None or not _names(target_table) >= _IDENTITY:
        return ()
    by_row = "_row" in _names(target_table)
    identity = _BY_ROW if by_row else _BY_RECORD
    sql = render("verify/identities", table=table(target.table), identity=identity)
    rows = _ask(client, sql, span.parameters)
    return tuple(
        RowIdentities(unit_of(pipeline, at, cluster), topic, partition, count, different, first, last, by_row)
        for at, cluster, topic, partition, count, different, first, last in rows
    )


def _by_type(pipeline: Pipeline, rows: Sequence[Sequence[Any]]) -> Mapping[Unit, ByType]:
    units: dict[Unit, dict[str, int]] = {}
    for start, cluster, kind, count in rows:
        units.setdefault(unit_of(pipeline, start, cluster), {})[kind] = count
    return units


def _ask(client: Client, sql: Sql, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
    """Returns nothing where the table or the database is not there (yet)."""
    try:
        return client.rows(sql, parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


RowsByOffsets = dict[tuple[str, int], dict[tuple[int, int], int]]
"""By (topic, partition) how often each (offset, row) is there."""


def offsets_of(client: Client, target: str, unit: Unit, by_row: bool) -> tuple[RowsByOffsets, RowsByOffsets]:
    """Returns how often each record of the unit is in the target, and in sluice.rejected. Without `by_row`
    all rows are 0."""
    where = {"slice": int(unit.slice.start.timestamp()), "cluster": unit.cluster}
    row, misfit = (Sql("toInt32(_row)"), Sql("row")) if by_row else (Sql("0"), Sql("0"))
    rows = _ask(client, render("verify/offsets", table=table(target), row=row), where)
    sql = render("verify/rejected_offsets", row=misfit)
    rejected = _ask(client, sql, {"target": target, **where})
    return _counted(rows), _counted([(*row, 1) for row in rejected])


def _counted(rows: Sequence[Sequence[Any]]) -> RowsByOffsets:
    rows_by_offsets: RowsByOffsets = {}
    for topic, partition, offset, row, count in rows:
        counts = rows_by_offsets.setdefault((topic, partition), {})
        counts[offset, row] = counts.get((offset, row), 0) + count
    return rows_by_offsets


def read_counts(
    client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable, span: Mapping[str, int]
) -> dict[Unit, dict[str, int]]:
    """Returns counts by unit and event type; none of a table of events. Raises what the client raises."""
    if not target.counted or not set(OWN) <= {column.name for column in target_table.columns}:
        return {}
    rows = client.rows(render("verify/counts", table=table(target.table)), span)
    misfits = client.rows(render("verify/counts_rejected"), {"target": target.table, **span})
    units: dict[Unit, Counter[str]] = {}
    for start, cluster, kind, count in (*rows, *misfits):
        units.setdefault(unit_of(pipeline, start, cluster), Counter())[kind] += count
    return {unit: dict(sums) for unit, sums in units.items()}
