"""Reads the ledger: what is committed for a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.clickhouse.client import Client
from sluice.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE, ServerError
from sluice.load.sql import Sql, render
from sluice.pipeline import Pipeline, Target
from sluice.slices import Slice, SliceRange, Unit, from_seconds


@dataclass(frozen=True)
class LedgerRow:
    """A committed unit of one table: rows landed for it = `rows` in the table + `misfits` rejected.

    `sharding` is the stamp of load/placement.py. On a shard rows and misfits are its own share of those
    landed; `shares` are the shards' rows in the row of the whole unit (load/shares.py), whose `generation`
    is the sum of theirs: another commit on any shard is another sum.
    """

    unit: Unit
    manifest: str
    types: tuple[str, ...]
    landed: int
    rows: int
    misfits: int
    token: str
    generation: int
    sharding: str = ""
    shares: tuple[tuple[str, LedgerRow | None], ...] = ()

    @property
    def lacking(self) -> tuple[str, ...]:
        """The shards that hold no commit of the unit."""
        return tuple(shard for shard, row in self.shares if row is None)


# The whole of ClickHouse's DateTime, in seconds since the epoch.
_EVER = (0, 2**32 - 1)


def committed(
    client: Client, pipeline: Pipeline, lake_root: str, target: Target, slices: SliceRange | None = None
) -> Mapping[Unit, LedgerRow]:
    """The units whose newest row is a commit into the table as it is now (its UUID).

    `lake_root` is the lake's url; without `slices` all hours are asked for. Empty where ClickHouse has no
    ledger yet. Raises what the client raises.
    """
    return committed_by_table(client, pipeline, lake_root, [target], slices)[target.table]


def committed_by_table(
    client: Client,
    pipeline: Pipeline,
    lake_root: str,
    targets: Sequence[Target],
    slices: SliceRange | None = None,
) -> dict[str, dict[Unit, LedgerRow]]:
    """`committed` of several tables by one statement; a table without commits is there, and empty."""
    by_table: dict[str, dict[Unit, LedgerRow]] = {target.table: {} for target in targets}
    start, end = _EVER if slices is None else (int(slices.start.timestamp()), int(slices.end.timestamp()))
    parameters = {
        "start": start,
        "end": end,
        "targets": list(by_table),
        "databases": sorted({target.database for target in targets}),
        "pipeline": pipeline.name,
        "lake": lake_root,
    }
    for table, *values in _rows(client, parameters):
        row = _row(pipeline, *values)
        by_table[table][row.unit] = row
    return by_table


def _rows(client: Client, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
    """A ledger of an earlier version has no column `sharding`, until the next load adds it."""
    try:
        return client.rows(render("read_ledger", sharding=Sql("sharding")), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        if error.code != UNKNOWN_IDENTIFIER:
            raise
    return client.rows(render("read_ledger", sharding=Sql("''")), parameters)


def unit_of(pipeline: Pipeline, start: int, cluster: str) -> Unit:
    """The unit of a row's slice start (seconds since the epoch) and cluster."""
    return Unit(Slice(from_seconds(start), pipeline.slice), cluster)


def _row(
    pipeline: Pipeline,
    start: int,
    cluster: str,
    manifest: str,
    types: list[str],
    landed: int,
    rows: int,
    misfits: int,
    token: str,
    generation: int,
    sharding: str,
) -> LedgerRow:
    unit = unit_of(pipeline, start, cluster)
    return LedgerRow(unit, manifest, tuple(types), landed, rows, misfits, token, generation, sharding)
