"""Reads the ledger: what is committed for a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pendulum

from sluice.clickhouse.client import Client
from sluice.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.load.sql import render
from sluice.pipeline import Pipeline, Target
from sluice.slices import Slice, SliceRange, Unit


@dataclass(frozen=True)
class LedgerRow:
    """A committed unit of one table: rows landed for it = `rows` in the table + `misfits` rejected."""

    unit: Unit
    manifest: str
    types: tuple[str, ...]
    landed: int
    rows: int
    misfits: int
    token: str
    generation: int


# The whole of ClickHouse's DateTime, in seconds since the epoch.
_EVER = (0, 2**32 - 1)


def committed(
    client: Client, pipeline: Pipeline, lake_root: str, target: Target, slices: SliceRange | None = None
) -> Mapping[Unit, LedgerRow]:
    """The units whose newest row is a commit into the table as it is now (its UUID).

    `lake_root` is the lake's url; without `slices` all hours are asked for. Empty where ClickHouse has no
    ledger yet. Raises what the client raises.
    """
    start, end = _EVER if slices is None else (int(slices.start.timestamp()), int(slices.end.timestamp()))
    parameters = {
        "start": start,
        "end": end,
        "target": target.table,
        "pipeline": pipeline.name,
        "lake": lake_root,
        "database": target.database,
        "name": target.name,
    }
    try:
        found = client.rows(render("read_ledger"), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return {}
        raise
    rows = (_row(pipeline, *row) for row in found)
    return {row.unit: row for row in rows}


def unit_of(pipeline: Pipeline, start: int, cluster: str) -> Unit:
    """The unit of a row's slice start (seconds since the epoch) and cluster."""
    return Unit(Slice(pendulum.from_timestamp(start), pipeline.slice), cluster)


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
) -> LedgerRow:
    unit = unit_of(pipeline, start, cluster)
    return LedgerRow(unit, manifest, tuple(types), landed, rows, misfits, token, generation)
