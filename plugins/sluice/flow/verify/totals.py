"""Finds hours that somebody else has changed, by the number of a table's rows, which costs next to nothing.

A load that is done leaves as many rows as its ledger says. So the rows beyond the ledger's stay the same
number, 0 where nothing is wrong, until rows come or go without a load. Only then all hours are counted.
"""

from __future__ import annotations

import pendulum

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import render, table
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Newest
from sluice.flow.verify.read_tables import rows_if_there
from sluice.slices import Slice, Unit, floor
from sluice.state.ledger import committed, unit_of
from sluice.state.ttl import forgets

Beyond = tuple[int, int]
"""Rows, and rejected rows, that are there beyond those of the ledger; below 0 where some lack."""


def beyond_ledger(client: Client, pipeline: Pipeline) -> dict[str, Beyond]:
    """Returns it by table, of one server's tables that are there. Tables of newest rows are left out: a load
    replaces rows of other hours. Raises what the client raises."""
    targets = [t for t in pipeline.targets if not isinstance(t.rollup, Newest)]
    asked = {"targets": sorted(t.table for t in targets)}
    committed_rows = {
        name: counts
        for name, *counts in rows_if_there(
            client,
            render("watch/committed_in_all"),
            {**asked, "databases": sorted({target.database for target in targets})},
        )
    }
    rejected = {row[0]: row[1] for row in rows_if_there(client, render("watch/rejected_in_all"), asked)}
    beyond: dict[str, Beyond] = {}
    for target in targets:
        for (rows,) in rows_if_there(client, render("watch/rows_in_all", table=table(target.table)), {}):
            by_ledger, rejected_by_ledger = committed_rows.get(target.table, (0, 0))
            name = target.table
            beyond[name] = rows - by_ledger, rejected.get(name, 0) - rejected_by_ledger
    return beyond


def changed_slices(client: Client, pipeline: Pipeline, target: Target, lake: str) -> set[Slice]:
    """Returns the slices of which one server's table, or sluice.rejected, has other numbers of rows than the
    ledger; where rows expire, only more. Reads two columns of the whole table. Raises what the client
    raises."""
    found = read_table(client, target.database, target.name)
    if found is None or not {"_slice", "_cluster"} <= {column.name for column in found.columns}:
        return set()
    sql = render("watch/rows_by_unit", table=table(target.table))
    ledger = committed(client, pipeline, lake, target)
    held = {
        unit_of(pipeline, start, cluster): (rows, rejected)
        for start, cluster, rows, rejected in rows_if_there(client, sql, {"target": target.table})
    }
    aged, expiring = pipeline.keep.began_before(target.table, pendulum.now("UTC")), forgets(found)
    changed: set[Unit] = set()
    for unit in held.keys() | ledger.keys():
        rows, rejected = held.get(unit, (0, 0))
        row = ledger.get(unit)
        expected, expected_rejected = (row.rows, row.rejected_rows) if row else (0, 0)
        may_lack = expiring if aged is None else unit.slice.start <= aged
        if rejected != expected_rejected or rows > expected or (rows < expected and not may_lack):
            changed.add(unit)
    return {Slice(floor(unit.slice.start, pipeline.slice), pipeline.slice) for unit in changed}
