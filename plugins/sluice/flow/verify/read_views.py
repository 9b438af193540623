"""Tables that materialized views fill, against what the view's own SELECT gives of its source now.

Only what can be compared for certain is: views that read nothing but their source and give the same answer
every time, of engines whose rows can be counted or summed whatever the blocks were, and units that were
loaded with the view as it is (another one has no rows in it, or others, until it is reloaded).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.query_tree import is_union
from sluice.clients.clickhouse.sql import Sql, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable, ViewTable
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
    client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable, span: ViewParameters
) -> Views:
    """Returns the views of a target and of its views' tables. A source with a TTL forgets what it has
    given."""
    sums_of_tables, notes = [], []
    shapes = view_table_shapes(client, target_table, target.rollup is not None)
    for table_shape in shapes.values():
        view_table = table_shape.view_tables[0]
        if not view_table.stores:
            continue
        source = _source(target_table, view_table, shapes)
        why = _unsure(target_table, table_shape, source)
        sums = None if why else summing(view_table, table_shape.shape)
        try:
            if sums is None:
                raise Uncertainty(why or "its values are not certain, or no numbers")
            stored_sums = _sums(client, pipeline, sums, table(view_table.table), span, None)
            view_sums = _given(client, pipeline, sums, view_table, span, source)
            covered = table_shape.covered(client, pipeline, target_table)
            sums_of_tables.append(
                ViewTableSums(
                    view_table.table, view_table.view, stored_sums, view_sums, covered, view_table.projections
                )
            )
        except Uncertainty as error:
            contents = pipeline.command("verify", "--contents")
            notes.append(f"table {view_table.called} is not compared: {error}; `{contents}` compares more")
            sums_of_tables.append(_counted(client, pipeline, target_table, table_shape, span))
    return Views(tuple(sums_of_tables), tuple(notes))


def _given(
    client: Client,
    pipeline: Pipeline,
    sums: Summing,
    view_table: ViewTable,
    span: ViewParameters,
    source: str | None,
) -> dict[Unit, ViewSums]:
    """Raises Uncertainty where the SELECT fails on stored rows: no load could fill the table either."""
    try:
        return _sums(client, pipeline, sums, Sql(f"({view_table.select})"), span, source)
    except ServerError as error:
        if error.retryable:
            raise
        raise Uncertainty(
            f"the SELECT of view {view_table.view} fails: {error.name}: {error.reason}"
        ) from error


def _counted(
    client: Client,
    pipeline: Pipeline,
    target_table: TargetTable,
    table_shape: ViewTableShape,
    span: ViewParameters,
) -> ViewTableSums:
    """Counts rows, to find those of units that were never loaded; none where a TTL deletes the target's."""
    view_table, counts = table_shape.view_tables[0], Summing(("count()",), ())
    stored_sums = (
        {} if forgets(target_table) else _sums(client, pipeline, counts, table(view_table.table), span, None)
    )
    return ViewTableSums(
        view_table.table, view_table.view, stored_sums, {}, frozenset(), view_table.projections
    )


def _unsure(target_table: TargetTable, table_shape: ViewTableShape, source: str | None) -> str:
    """Returns why counts and sums of the view's source say nothing of its table; empty where they do."""
    view_table = table_shape.view_tables[0]
    if table_shape.shape.why:
        return table_shape.shape.why
    if len(table_shape.view_tables) > 1:
        return "several views write to it"
    if is_union(view_table.select):
        return f"view {view_table.view} is several SELECTs"
    if forgets(target_table) or forgets(view_table):
        return "a TTL deletes rows of it or of its source"
    if source is None:
        return f"view {view_table.view} reads rows that are not kept as they came"
    return ""


def _source(
    target_table: TargetTable, view_table: ViewTable, shapes: Mapping[str, ViewTableShape]
) -> str | None:
    """Returns the table that the view reads, as the server writes its name, where it keeps what it has
    given."""
    if view_table.source != target_table.table and not _keeps(shapes[view_table.source]):
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
    answer = client.rows(render("verify/view", rows=rows, **sums.parts), span, settings)
    return {unit_of(pipeline, start, cluster): sums.read(*parts) for start, cluster, *parts in answer}
