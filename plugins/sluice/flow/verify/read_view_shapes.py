"""Asks the server what each view of a target gives, and since when."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.query_tree import explained, parse, pushed, types
from sluice.clients.clickhouse.sql import Sql, render
from sluice.clients.clickhouse.tables import TargetTable, ViewTable
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.deterministic import changing, deterministic
from sluice.flow.verify.number_types import keeps
from sluice.flow.verify.view_nodes import functions
from sluice.flow.verify.view_shape import KEY, ViewShape, shape_of, together
from sluice.slices import Unit
from sluice.state.ledger import unit_of
from sluice.state.view_stamps import view_stamps

_CHANGING = "its DEFAULT may give another value each time"
_CUT = "its type cuts off a part of what each block adds up to"
_BY_ORDER = re.compile(r"\b(AggregateFunction|Float32|Float64|BFloat16)\b")


@dataclass(frozen=True)
class ViewTableShape:
    """`view_tables` are the views of one table, `changed` when one of them, or of their sources, last was.

    `views`: the shape of what each view gives, in the order of `view_tables`. `stamp`: as commits have it.
    """

    view_tables: tuple[ViewTable, ...]
    shape: ViewShape
    views: tuple[ViewShape, ...]
    changed: int
    stamp: str

    @property
    def table(self) -> str:
        return self.view_tables[0].table

    @property
    def called(self) -> str:
        return self.view_tables[0].called

    def covered(self, client: Client, pipeline: Pipeline, found: TargetTable) -> frozenset[Unit]:
        """Returns the units that were committed with these views: an older one has other rows, or none."""
        return frozenset(
            unit_of(pipeline, start, cluster)
            for start, cluster, at, stamps in _commits(client, found)
            if self._holds(at, stamps)
        )

    def _holds(self, at: int, stamps: Collection[str]) -> bool:
        """A load reads the views right before its commit, so one of a later second has them, also where
        another version of the server writes their SELECTs in another way."""
        if not stamps:  # of a version that kept none
            return at >= self.changed
        return self.stamp in stamps or at > self.changed + 1


def _commits(client: Client, found: TargetTable) -> list[Sequence[Any]]:
    """A ledger of an earlier version has no column `views`, until the next load adds it."""
    asked = {"target": found.table, "uuid": found.uuid}
    try:
        return client.rows(render("verify/commit_times", views=Sql("views")), asked)
    except ServerError as error:
        if error.code != UNKNOWN_IDENTIFIER:
            raise
    return client.rows(render("verify/commit_times", views=Sql("[]")), asked)


def view_table_shapes(client: Client, found: TargetTable, derived: bool) -> dict[str, ViewTableShape]:
    """Returns the shape of each table that gets rows of the target, by table.

    `derived`: a SELECT gives the target's rows, in any order. Raises what the client raises.
    """
    unsure = dict.fromkeys(changing(client, found.columns), _CHANGING)
    if derived:
        unsure |= {
            column.name: f"it comes from a {column.type}, which depends on the order of rows"
            for column in found.columns
            if _BY_ORDER.search(column.type)
        }
    known = {found.table: (ViewShape(unsure=unsure), 0)}
    shapes: dict[str, ViewTableShape] = {}
    stamps = view_stamps(found)
    waiting = list(dict.fromkeys(view_table.table for view_table in found.view_tables))
    while waiting:
        ready = [
            name for name in waiting if {view_table.source for view_table in _of(found, name)} <= known.keys()
        ]
        if not ready:  # tables that feed each other
            break
        for name in ready:
            shapes[name] = _shape(client, _of(found, name), known, stamps[name])
            known[name] = (shapes[name].shape, shapes[name].changed)
            waiting.remove(name)
    return shapes


def _of(found: TargetTable, name: str) -> tuple[ViewTable, ...]:
    return tuple(view_table for view_table in found.view_tables if view_table.table == name)


def _shape(
    client: Client, view_tables: tuple[ViewTable, ...], known: Mapping[str, tuple[ViewShape, int]], stamp: str
) -> ViewTableShape:
    sources = {name: shape for name, (shape, _) in known.items()}
    views = tuple(_view(client, one, sources) for one in view_tables)
    changed = [known[one.source][1] for one in view_tables]
    for one in view_tables:
        database, _, rest = one.view.partition(".")
        rows = client.rows(render("verify/view_definition"), {"database": database, "name": rest})
        changed += [at for _, at in rows]
    whole = _stored(together(views), view_tables, changing(client, view_tables[0].columns))
    return ViewTableShape(view_tables, whole, views, max(changed), stamp)


def _view(client: Client, view_table: ViewTable, sources: Mapping[str, ViewShape]) -> ViewShape:
    try:
        root = parse(explained(client, view_table.select))
    except ServerError as error:
        if error.retryable:
            raise
        return ViewShape(why=f"the server does not understand view {view_table.view}: {error.reason}")
    shape = shape_of(root, sources, deterministic(client, sorted(functions(root))))
    kinds = {column.name: column.type for column in view_table.columns}
    given = types(pushed(root))
    cut = [
        n
        for n, role in shape.columns.items()
        if role == "sum" and not keeps(kinds.get(n, ""), given.get(n, ""))
    ]
    columns = {name: role for name, role in shape.columns.items() if name not in cut}
    return replace(shape, columns=columns, unsure={**shape.unsure, **dict.fromkeys(cut, _CUT)})


def _stored(shape: ViewShape, view_tables: tuple[ViewTable, ...], different: Collection[str]) -> ViewShape:
    """With the table's columns that its views do not give, or not all of them."""
    given = frozenset.intersection(*(one.view_columns for one in view_tables))
    plain = all(role == KEY for role in shape.columns.values()) and not shape.unsure
    columns, unsure = dict(shape.columns), dict(shape.unsure)
    for column in view_tables[0].columns:
        if column.name in given or not column.default:
            continue
        columns.pop(column.name, None)
        if column.name in different:
            unsure[column.name] = _CHANGING
        elif plain:
            columns[column.name] = KEY
        else:
            unsure[column.name] = "it is computed of other columns"
    return ViewShape(shape.one_by_one, columns, unsure, shape.why)
