"""Tables that materialized views fill, against what the view's own SELECT gives of its source now.

Only what can be compared for certain is: views that read nothing but their source and give the same answer
every time, of engines whose rows can be counted or summed whatever the blocks were, and units that were
committed since the view last changed (an older one has no rows in it, until it is loaded again).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import Sql, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable, ViewTable
from sluice.clients.clickhouse.view_select import is_union
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.verify.facts import ViewTableSums
from sluice.flow.verify.read_view_shapes import ViewTableShape, view_table_shapes
from sluice.flow.verify.ttl import forgets
from sluice.flow.verify.view_shape import Uncertainty
from sluice.flow.verify.view_sums import Summing, ViewSums, merged_by, named, summing
from sluice.slices import Unit
from sluice.state.ledger import unit_of

ViewParameters = Mapping[str, int]


@dataclass(frozen=True)
class Views:
    """What was seen of the tables of a target's views; `notes` say which of them are not compared."""

    view_tables: tuple[ViewTableSums, ...]
    notes: tuple[str, ...] = ()


def read_views(
    client: Client, pipeline: Pipeline, target: Target, found: TargetTable, span: ViewParameters
) -> Views:
    """Returns the views of a target and of its views' tables. A source with a TTL forgets what it has
    given."""
    sums_of_tables, notes = [], []
    shapes = view_table_shapes(client, found, target.rollup is not None)
    for shape in shapes.values():
        view_table = shape.view_tables[0]
        if not view_table.stores:
            continue
        source = _source(found, view_table, shapes)
        why = _unsure(found, shape, source)
        sums = None if why else summing(view_table, shape.shape)
        try:
            if sums is None:
                raise Uncertainty(why or "its values are not certain, or no numbers")
            there = _sums(client, pipeline, sums, table(view_table.table), span, None)
            given = _given(client, pipeline, sums, view_table, span, source)
            covered = shape.covered(client, pipeline, found)
            sums_of_tables.append(
                ViewTableSums(
                    view_table.table, view_table.view, there, given, covered, view_table.projections
                )
            )
        except Uncertainty as error:
            notes.append(
                f"table {view_table.called} is not compared: {error}; `sluice verify --contents` "
                "compares more"
            )
            sums_of_tables.append(_counted(client, pipeline, found, shape, span))
    return Views(tuple(sums_of_tables), tuple(notes))


def _given(
    client: Client,
    pipeline: Pipeline,
    sums: Summing,
    view_table: ViewTable,
    span: ViewParameters,
    source: str | None,
) -> dict[Unit, ViewSums]:
    """Raises Unsure where the SELECT fails for rows that are there: no load could fill the table either."""
    try:
        return _sums(client, pipeline, sums, Sql(f"({view_table.select})"), span, source)
    except ServerError as error:
        if error.retryable:
            raise
        raise Uncertainty(
            f"the SELECT of view {view_table.view} fails: {error.name}: {error.reason}"
        ) from error


def _counted(
    client: Client, pipeline: Pipeline, found: TargetTable, shape: ViewTableShape, span: ViewParameters
) -> ViewTableSums:
    """Of a unit that was not loaded there are no rows. A target with a TTL does not say what it had."""
    view_table, counts = shape.view_tables[0], Summing(("count()",), ())
    there = {} if forgets(found) else _sums(client, pipeline, counts, table(view_table.table), span, None)
    return ViewTableSums(view_table.table, view_table.view, there, {}, frozenset(), view_table.projections)


def _unsure(found: TargetTable, shape: ViewTableShape, source: str | None) -> str:
    """Why counts and sums of the view's source say nothing of its table."""
    view_table = shape.view_tables[0]
    if shape.shape.why:
        return shape.shape.why
    if len(shape.view_tables) > 1:
        return "several views write to it"
    if is_union(view_table.select):
        return f"view {view_table.view} is several SELECTs"
    if forgets(found) or forgets(view_table):
        return "a TTL deletes rows of it or of its source"
    if source is None:
        return f"view {view_table.view} reads rows that are not kept as they came"
    return ""


def _source(found: TargetTable, view_table: ViewTable, shapes: Mapping[str, ViewTableShape]) -> str | None:
    """Returns the table that the view reads, as the server writes its name, where it keeps what it has
    given."""
    if view_table.source != found.table and not _keeps(shapes[view_table.source]):
        return None
    read = re.findall(r"\bFROM\s+((?:`(?:\\.|[^`])*`|[\w]+)\.(?:`(?:\\.|[^`])*`|[\w.]+))", view_table.select)
    return next((name for name in read if name.replace("`", "") == view_table.source), None)


def _keeps(source: ViewTableShape) -> bool:
    """Returns whether merges of a view's table change nothing of what is added up of it."""
    view_table, shape = source.view_tables[0], source.shape
    if view_table.engine.removeprefix("Replicated") == "MergeTree":
        return True
    others = [c for c in view_table.columns if c.filled and not named(view_table.sorting_key, [c.name])]
    return not shape.one_by_one and all(merged_by(view_table, shape, column) for column in others)


def _sums(
    client: Client, pipeline: Pipeline, sums: Summing, rows: Sql, span: ViewParameters, source: str | None
) -> dict[Unit, ViewSums]:
    """`source`: only its rows of the span are read, whatever the view's SELECT does with them."""
    settings: dict[str, Any] = {}
    if source is not None:
        inside = f"_slice >= toDateTime({span['start']}, 'UTC') AND _slice < toDateTime({span['end']}, 'UTC')"
        settings = {"additional_table_filters": f"{{{literal(source)}: {literal(inside)}}}"}
    found = client.rows(render("verify/view", rows=rows, **sums.parts), span, settings)
    return {unit_of(pipeline, start, cluster): sums.read(*held) for start, cluster, *held in found}
