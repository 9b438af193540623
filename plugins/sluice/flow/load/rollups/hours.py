"""Which event hours a load makes: asked of the source's table and of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import identifier, render, table
from sluice.config.pipeline import Pipeline
from sluice.config.rollups import Rollup
from sluice.flow.load.rollups.decide import Choice, RollupFacts
from sluice.slices import Unit
from sluice.state.ledger import unit_of

_AT_ONCE = 1000  # hours of one statement

Hours = dict[Unit, dict[Unit, int]]
"""By event hour (a unit without a cluster) the rows of each unit."""


def touched(client: Client, pipeline: Pipeline, rollup: Rollup, units: Sequence[Unit]) -> set[Unit]:
    """Returns the event hours of which the units hold rows now."""
    if not units:
        return set()
    starts = [int(unit.slice.start.timestamp()) for unit in units]
    sql = render("rollups/touched", source=table(rollup.source), time=identifier(rollup.time or ""))
    rows = client.rows(sql, {"first": min(starts), "last": max(starts)})
    asked_units = set(units)
    return {
        unit_of(pipeline, hour, "")
        for hour, start, name in rows
        if unit_of(pipeline, start, name) in asked_units
    }


def parts_of(client: Client, pipeline: Pipeline, rollup: Rollup, hours: Iterable[Unit]) -> Hours:
    """Returns the units that hold rows of these hours now; an hour without rows is there, and empty."""
    rows_by_hour: Hours = {hour: {} for hour in sorted(hours)}
    stamps = [int(hour.slice.start.timestamp()) for hour in rows_by_hour]
    sql = render("rollups/parts", source=table(rollup.source), time=identifier(rollup.time or ""))
    for first in range(0, len(stamps), _AT_ONCE):
        some = stamps[first : first + _AT_ONCE]
        parameters = {"hours": some, "first": some[0], "last": some[-1]}
        for hour, start, cluster, rows in client.rows(sql, parameters):
            rows_by_hour[unit_of(pipeline, hour, "")][unit_of(pipeline, start, cluster)] = rows
    return rows_by_hour


def revoked(client: Client, pipeline: Pipeline, name: str) -> set[Unit]:
    """Returns the event hours of a rollup's table that a load has revoked and not committed again.

    Nothing else may name them: the commit that named their units is gone, and a unit may have left the hour.
    """
    rows = client.rows(render("rollups/revoked_hours"), {"target": name})
    return {unit_of(pipeline, hour, "") for (hour,) in rows}


def choose(
    client: Client, pipeline: Pipeline, name: str, facts: RollupFacts, units: Sequence[Unit]
) -> Choice:
    """`name` is the rollup's table. By event hour the hours come first: the rows that say that a unit's hours
    are made are committed with them or after them. Raises what the client raises."""
    todo, skipped = facts.choose(units)
    if facts.rollup.grain == "slice":
        return todo, skipped
    todo_units = [work.unit for work in todo]
    hours = touched(client, pipeline, facts.rollup, todo_units) | facts.hours_naming(todo_units)
    hours |= revoked(client, pipeline, name)
    works = facts.hour_works(parts_of(client, pipeline, facts.rollup, hours))
    return [*works, *todo], skipped
