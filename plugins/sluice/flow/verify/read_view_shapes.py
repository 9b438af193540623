"""Asks the server what each view of a target gives, and which units were committed with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.query_tree import explained, parse, pushed, types
from sluice.clients.clickhouse.sql import Sql, render
from sluice.clients.clickhouse.tables import Column, TargetTable, ViewTable, view_stamps
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.view_shape import KEY, ViewShape, functions, keeps, shape_of, together
from sluice.slices import Unit
from sluice.state.ledger import unit_of

_CHANGING = "its DEFAULT may give another value each time"
_CUT = "its type cuts off a part of what each block adds up to"
_BY_ORDER = re.compile(r"\b(AggregateFunction|Float32|Float64|BFloat16)\b")


@dataclass(frozen=True)
class ViewTableShape:
    """`view_tables` are the views of one table, `views` the shape of what each view gives, in their order.
    `stamp`: as commits have it."""

    view_tables: tuple[ViewTable, ...]
    shape: ViewShape
    views: tuple[ViewShape, ...]
    stamp: str

    @property
    def table(self) -> str:
        return self.view_tables[0].table

    @property
    def called(self) -> str:
        return self.view_tables[0].called

    def covered(self, client: Client, pipeline: Pipeline, target_table: TargetTable) -> frozenset[Unit]:
        """Returns the units that were committed with these views. Another one has other rows, or none: also
        one that was loaded since by the rules of an earlier load."""
        parameters = {"target": target_table.table, "uuid": target_table.uuid}
        return frozenset(
            unit_of(pipeline, start, cluster)
            for start, cluster, stamps in client.rows(render("verify/commit_views"), parameters)
            if self.stamp in stamps
        )


def view_table_shapes(client: Client, target_table: TargetTable, derived: bool) -> dict[str, ViewTableShape]:
    """Returns the shape of each table that gets rows of the target, by table.

    `derived`: a SELECT gives the target's rows, in any order. Raises what the client raises.
    """
    unsure = dict.fromkeys(changing(client, target_table.columns), _CHANGING)
    if derived:
        unsure |= {
            column.name: f"it comes from a {column.type}, which depends on the order of rows"
            for column in target_table.columns
            if _BY_ORDER.search(column.type)
        }
    sources = {target_table.table: ViewShape(unsure=unsure)}
    shapes: dict[str, ViewTableShape] = {}
    stamps = view_stamps(target_table)
    waiting = list(dict.fromkeys(view_table.table for view_table in target_table.view_tables))
    while waiting:
        ready = [
            name
            for name in waiting
            if {view_table.source for view_table in _of(target_table, name)} <= sources.keys()
        ]
        if not ready:  # tables that feed each other
            break
        for name in ready:
            shapes[name] = _shape(client, _of(target_table, name), sources, stamps[name])
            sources[name] = shapes[name].shape
            waiting.remove(name)
    return shapes


def _of(target_table: TargetTable, name: str) -> tuple[ViewTable, ...]:
    return tuple(view_table for view_table in target_table.view_tables if view_table.table == name)


def _shape(
    client: Client,
    view_tables: tuple[ViewTable, ...],
    sources: Mapping[str, ViewShape],
    stamp: str,
) -> ViewTableShape:
    views = tuple(_view(client, view_table, sources) for view_table in view_tables)
    shape = _stored(together(views), view_tables, changing(client, view_tables[0].columns))
    return ViewTableShape(view_tables, shape, views, stamp)


def _view(client: Client, view_table: ViewTable, sources: Mapping[str, ViewShape]) -> ViewShape:
    try:
        root = parse(explained(client, view_table.select))
    except ServerError as error:
        if error.retryable:
            raise
        return ViewShape(why=f"the server does not understand view {view_table.view}: {error.reason}")
    shape = shape_of(root, sources, deterministic(client, sorted(functions(root))))
    kinds = {column.name: column.type for column in view_table.columns}
    given_types = types(pushed(root))
    cut = [
        n
        for n, role in shape.columns.items()
        if role == "sum" and not keeps(kinds.get(n, ""), given_types.get(n, ""))
    ]
    columns = {name: role for name, role in shape.columns.items() if name not in cut}
    return replace(shape, columns=columns, unsure={**shape.unsure, **dict.fromkeys(cut, _CUT)})


def _stored(shape: ViewShape, view_tables: tuple[ViewTable, ...], different: Collection[str]) -> ViewShape:
    """Adds the table's columns that its views do not give, or not all of them."""
    given_by_all = frozenset.intersection(*(view_table.view_columns for view_table in view_tables))
    plain = all(role == KEY for role in shape.columns.values()) and not shape.unsure
    columns, unsure = dict(shape.columns), dict(shape.unsure)
    for column in view_tables[0].columns:
        if column.name in given_by_all or not column.default:
            continue
        columns.pop(column.name, None)
        if column.name in different:
            unsure[column.name] = _CHANGING
        elif plain:
            columns[column.name] = KEY
        else:
            unsure[column.name] = "it is computed of other columns"
    return ViewShape(shape.one_by_one, columns, unsure, shape.why)


# Which expressions give the same for the same row every time.
_CALL = re.compile(r"\b(\w+)\s*\(")
_WORDS = frozenset({"in", "and", "or", "not", "between", "like", "ilike", "when", "then", "else", "case"})


def changing(client: Client, columns: Sequence[Column]) -> frozenset[str]:
    """Returns columns whose DEFAULT calls what is not known to be deterministic, or reads such a column."""
    defaults = {c.name: c.default for c in columns if c.kind and c.default}
    called = {column: _calls(text) for column, text in defaults.items()}
    sure = deterministic(client, sorted(set().union(*called.values())))
    unsure = {column for column, names in called.items() if not names <= sure}
    while True:
        more = {
            name
            for name, text in defaults.items()
            if any(re.search(rf"(?<!\w){re.escape(other)}(?!\w)", text) for other in unsure)
        }
        if more <= unsure:
            return frozenset(unsure)
        unsure |= more


def _calls(expression: str) -> set[str]:
    return {name for name in _CALL.findall(expression) if name.lower() not in _WORDS}


def deterministic(client: Client, names: Sequence[str]) -> frozenset[str]:
    """Returns the functions that give the same every time; none where the server does not say."""
    for column in ("deterministic", "is_deterministic") if names else ():
        sql = render("verify/deterministic_functions", deterministic=Sql(column))
        try:
            return frozenset(name for (name,) in client.rows(sql, {"names": list(names)}))
        except ServerError as error:
            if error.code != UNKNOWN_IDENTIFIER:
                raise
    return frozenset()
