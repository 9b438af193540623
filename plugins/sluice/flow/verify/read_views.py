"""Tables that materialized views fill: how many rows of a unit they hold, and how many its commit put there.

A view's rows are part of the target's load: staged, moved and counted with it. So the target's ledger row has
their number, and a unit that was loaded before a view was made, or by another SELECT, has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import render, table
from sluice.clients.clickhouse.tables import TargetTable, view_stamps
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.facts import ViewTableRows
from sluice.flow.verify.ttl import forgets
from sluice.slices import Unit
from sluice.state.ledger import unit_of


def read_views(
    client: Client, pipeline: Pipeline, target_table: TargetTable, span: Mapping[str, int]
) -> tuple[ViewTableRows, ...]:
    """Returns the tables of a target's views. Nothing is expected of one whose engine removes rows.

    Raises what the client raises."""
    if not target_table.stored:
        return ()
    commits = view_commits(client, pipeline, target_table)
    stamps = view_stamps(target_table)
    found = []
    for view_table in target_table.stored:
        sql = render("verify/view_rows", table=view_table.as_merged(table(view_table.table)))
        rows = {unit_of(pipeline, start, cluster): count for start, cluster, count in client.rows(sql, span)}
        stamp = stamps[view_table.table]
        committed = {u: by_stamp[stamp] for u, by_stamp in commits.items() if stamp in by_stamp}
        found.append(
            ViewTableRows(
                table=view_table.table,
                view=view_table.view,
                rows=rows,
                committed=committed if view_table.certain else {},
                expiring=forgets(view_table),
                projections=view_table.projections,
            )
        )
    return tuple(found)


def view_commits(
    client: Client, pipeline: Pipeline, target_table: TargetTable
) -> dict[Unit, Mapping[str, int]]:
    """Returns by committed unit the rows that its load put into the views' tables, by `view_stamps`."""
    parameters = {"target": target_table.table, "uuid": target_table.uuid}
    rows = client.rows(render("verify/commit_views"), parameters)
    return {unit_of(pipeline, start, cluster): by_stamp for start, cluster, by_stamp in rows}
