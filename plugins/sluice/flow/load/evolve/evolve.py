"""Adds columns for fields that no column takes, under the target's lease, before rows are staged."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pendulum

from sluice import crash_points
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNFINISHED, ServerError
from sluice.clients.clickhouse.inspect_tables import grant, lacking, read_table
from sluice.clients.clickhouse.shards import Server, connect_shards
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline, Tables, Target
from sluice.crash_points import Load
from sluice.errors import Changed, TargetRefused
from sluice.flow.load.evolve.fields import NewField, choose_fields, joined, slice_fields, taken_names
from sluice.flow.load.evolve.lake_values import (
    column_types,
    filled_fields,
    kinds_of,
    read_kinds,
    sample_values,
    values_of,
)
from sluice.flow.load.fencing import LoadAttempt
from sluice.flow.load.work import LoadWork, choose
from sluice.flow.load.writer import Writer
from sluice.plan.modes import Mode
from sluice.safe_text import Remark, Say, line, visible
from sluice.slices import Unit
from sluice.state.additions import Addition, announce, begin, confirm, decides, latest, read_additions
from sluice.state.departed_tables import adding, over
from sluice.state.lease import Lease
from sluice.state.ledger import unit_of
from sluice.state.status import UnitStatus

log = logging.getLogger(__name__)

_SHOWN = 20  # fields without a column that are logged one by one
_COMMENT = 400


@dataclass(frozen=True)
class NewColumn:
    name: str
    type: str
    why: str
    field: NewField

    @property
    def definition(self) -> Sql:
        comment = line(f"added by Sluice: {self.field.evidence}; {self.why}", _COMMENT)
        name = identifier(self.name)
        return Sql(f"ADD COLUMN IF NOT EXISTS {name} {self.type} COMMENT {literal(comment)}")


@dataclass(frozen=True)
class Evolution:
    """One load's, on the server of one shard. `elsewhere`: added columns that another shard has."""

    pipeline: Pipeline
    target: Target
    lake: Lake
    client: Client
    lease: Lease
    shard: str
    run: str
    say: Say
    committed: Collection[Unit] = ()
    elsewhere: Collection[str] = ()

    def add_columns(self, works: Sequence[LoadWork]) -> None:
        """Raises TargetRefused for a column that the server does not take, Conservation for a file that is
        missing, Fenced, and what the clients raise."""
        new = self._announced(works) if self.target.evolves else ()
        crash_points.reached(Load.ANNOUNCED)
        if new:
            self._alter(new)

    def _announced(self, works: Sequence[LoadWork]) -> tuple[NewColumn, ...]:
        """Returns the columns to add. The lake has an addition for each of them already."""
        columns = self._columns()
        additions = latest(read_additions(self.lake), self.target.table)
        # An attempt that died right after its ALTER has not said that the columns are there.
        if unconfirmed := {
            n for n, one in additions.items() if n in columns and self.shard not in one.shards
        }:
            self._confirm(unconfirmed)
        lent = tuple(
            _of_others(one) for name, one in additions.items() if self._is_lent(one, name in columns)
        )
        chosen = self._chosen(columns, works)
        new = [one for one in chosen if one.name not in {column.name for column in lent}]
        return (*lent, *(self._typed(new, works) if new else ()))

    def _is_lent(self, addition: Addition, present: bool) -> bool:
        """Returns whether another shard has the column, and this one lacks it: never had it, or lost it."""
        never = addition.done and self.shard not in addition.shards
        return bool(self.shard) and not present and (never or addition.column in self.elsewhere)

    def _columns(self) -> dict[str, Column]:
        target_table = read_table(self.client, self.target.database, self.target.name)
        if target_table is None:
            raise Changed(f"table {self.target.table} was dropped while it was loaded: load it again")
        return {column.name: column for column in target_table.columns}

    def _confirm(self, columns: Collection[str]) -> None:
        confirm(self.lake, self.target.table, columns, self.shard, self.lease.generation)

    def _chosen(self, columns: Mapping[str, Column], works: Sequence[LoadWork]) -> tuple[NewField, ...]:
        slices = joined(
            slice_fields(work.unit.slice.id, work.fields) if work.counted else filled_fields(self.lake, work)
            for work in works
        )
        taken = taken_names(self.pipeline, self.target, list(columns.values()))
        chosen = choose_fields(taken, slices, self.target.evolve_rows)
        for name, why in list(chosen.left_out.items())[:_SHOWN]:
            self._tell(f"field {visible(name)} gets no column: {why}")
        if len(chosen.left_out) > _SHOWN:
            self._tell(f"{len(chosen.left_out) - _SHOWN:,} more fields get no column")
        for counted in slices:
            if counted.others:
                self._tell(
                    f"slice {counted.slice}: values of fields beyond those that are counted one by one, and "
                    f"get no column: {counted.others:,}"
                )
        return chosen.fields

    def _typed(self, new: Sequence[NewField], works: Sequence[LoadWork]) -> list[NewColumn]:
        names = [one.name for one in new]
        holding = [work for work in works if work.may_have(names)]
        all_values = partial(values_of, self.lake, holding)
        earlier = set(self.committed) - {work.unit for work in works}
        kinds = read_kinds(self.pipeline, self.target, self.lake, earlier, names)
        inferred = column_types(sample_values(self.lake, holding, names), all_values, kinds)
        found = [NewColumn(one.name, inferred[one.name].type, inferred[one.name].why, one) for one in new]
        types = announce(self.lake, self._additions(found), self.shard)
        return [replace(column, type=types[column.name]) for column in found]

    def _additions(self, new: Sequence[NewColumn]) -> list[Addition]:
        at, by = pendulum.now("UTC").isoformat(), f"process {os.getpid()} on {socket.gethostname()}"
        counted = [(column, column.field) for column in new]
        return [
            Addition(self.target.table, c.name, c.type, f.slice, f.filled, f.rows, at, by, self.run)
            for c, f in counted
        ]

    def _alter(self, new: Sequence[NewColumn]) -> None:
        types = begin(self.lake, self._additions(new), self.shard)
        crash_points.reached(Load.FIXED)
        new = [replace(column, type=types[column.name]) for column in new]
        parts = listed(column.definition for column in new)
        sql = render("load/add_columns", table=table(self.target.table), columns=parts)
        attempt = LoadAttempt(self.target.table, self.lease.generation, 0)
        unit = partial(unit_of, self.pipeline)
        try:
            Writer(self.client, attempt, self.lease.renew, unit, frozenset()).run("evolve", sql)
        except ServerError as error:
            # A replica that is away takes the columns when it is back.
            if error.code != UNFINISHED:
                raise self._refused(error, sql) from error
        names = {column.name for column in new}
        if missing := names - self._columns().keys():
            raise Changed(
                f"table {self.target.table}: column {visible(min(missing))} is not there after its ALTER: "
                "load it again"
            )
        crash_points.reached(Load.ALTERED)
        self._confirm(names)
        for column in new:
            self._tell(f"column {visible(column.name)} {column.type} was added: {column.field.evidence}")
        if new and self.target.latest is not None:
            newest = self.target.latest.table
            added = adding(newest, [Column(column.name, column.type) for column in new])
            self._tell(f"{newest} gets what was added by {added}, and is loaded again then")

    def _refused(self, error: ServerError, sql: Sql) -> Exception:
        if error.retryable:
            return error
        reason = f"`evolve: add`: the server does not take {line(sql, 300)}: {error.reason}"
        return TargetRefused(self.target.table, reason, "add the columns by hand, or set `evolve: off`")

    def _tell(self, text: str) -> None:
        where = f"{self.target.table}{f' on {self.shard}' if self.shard else ''}"
        log.info("%s: %s", where, line(text))
        self.say(Remark(f"{where}: {line(text)}"))


def _of_others(addition: Addition) -> NewColumn:
    field = NewField(addition.column, addition.slice, addition.filled, addition.rows)
    return NewColumn(addition.column, addition.type, "as on the other shards", field)


# Refuses `evolve: add` where a column cannot be added, or would break what reads the table.
_RIGHT = Sql("ALTER ADD COLUMN")
_ALL = re.compile(r" *(Qualified)?(Asterisk|ColumnsRegexpMatcher)\b")
_COUNTS = " Function count ("


def check_may_add(client: Client, pipeline: Pipeline, target: Target, target_table: TargetTable) -> None:
    """Raises TargetRefused where `evolve: add` lacks the right, or a SELECT would take the new columns to a
    table that has none of them; and what the client raises."""
    if not target.evolves:
        return
    name = table(target.table)
    if lacking(client, [_RIGHT], name):
        raise TargetRefused(
            target.table,
            f"`evolve: add`: the user of the connection lacks {_RIGHT}",
            f"`{grant(client, [_RIGHT], name)}`, or set `evolve: off`",
        )
    for reader, select in _selects(pipeline, target_table):
        tree = client.rows(render("load/explain_syntax", select=Sql(select)))
        if takes_all([line for (line,) in tree]):
            raise TargetRefused(
                target.table,
                f"`evolve: add`: {reader} selects all its columns, and its own table would lack the new ones",
                "name the columns in its SELECT, or set `evolve: off`",
            )


def _selects(pipeline: Pipeline, target_table: TargetTable) -> Iterator[tuple[str, str]]:
    for view_table in target_table.view_tables:
        if view_table.source == target_table.table:
            yield f"view {view_table.view}", view_table.select
    for name, rollup in pipeline.rollups.items():
        if rollup.source == target_table.table:
            yield f"rollup {name}", over(rollup, table(target_table.table))


def takes_all(tree: Sequence[str]) -> bool:
    """Returns whether a SELECT has columns that it does not name; `count(*)` has none."""
    return any(
        _ALL.match(line) and _COUNTS not in (tree[number - 2] if number > 1 else "")
        for number, line in enumerate(tree)
    )


# What a load would add, for a plan: nothing is changed, and little is read.

_MOST_ROWS = 200_000  # whose values are read


def new_columns(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], mode: Mode, tables: Tables | None = None
) -> tuple[str, ...]:
    """Returns a line for each column that the loads of a run would add, as far as its slices have landed."""
    if not pipeline.evolving_types:
        return ()
    with connect_shards(pipeline) as servers:
        server = next(server for server in servers if server.client)
        return tuple(forecast(server, pipeline, open_lake(pipeline), statuses, mode, tables))


def forecast(
    server: Server,
    pipeline: Pipeline,
    lake: Lake,
    statuses: Sequence[UnitStatus],
    mode: Mode,
    tables: Tables | None = None,
) -> Iterator[str]:
    """Yields a line for each column that loads of what has landed would add, and for what is not known.

    Raises what the clients raise.
    """
    for target in pipeline.chosen(tables):
        if target.evolves:
            works = _works(pipeline, lake, target, statuses, mode)
            yield from _columns(server, pipeline, lake, target, works, statuses)
            unknown = sum(not work.counted for work in works)
            if unknown:
                yield (
                    f"{target.table}: the fields of {_slices(unknown)} are not counted in every row: "
                    "the load counts them"
                )
    missing = sum(status.manifest is None for status in statuses)
    if missing and pipeline.evolving_types:
        yield f"what has not landed is not known: {_slices(missing)}"


def _slices(count: int) -> str:
    return f"{count:,} slice{'' if count == 1 else 's'}"


def _works(
    pipeline: Pipeline, lake: Lake, target: Target, statuses: Sequence[UnitStatus], mode: Mode
) -> list[LoadWork]:
    landed = {status.unit: status.manifest for status in statuses if status.manifest is not None}
    rows = {s.unit: row for s in statuses if (row := s.tables.get(target.table)) and not row.lacking}
    sharding = pipeline.clickhouse.sharding(target.table)
    todo, _ = choose(pipeline, target, landed, rows, mode, "", sharding, read_additions(lake))
    return todo


def _columns(
    server: Server,
    pipeline: Pipeline,
    lake: Lake,
    target: Target,
    works: Sequence[LoadWork],
    statuses: Sequence[UnitStatus],
) -> Iterator[str]:
    table = read_table(server.reached, target.database, target.name)
    if table is None or not works:
        return
    taken = taken_names(pipeline, target, table.columns)
    slices = joined(slice_fields(work.unit.slice.id, work.fields) for work in works)
    chosen = choose_fields(taken, slices, target.evolve_rows).fields
    names = [new_field.name for new_field in chosen]
    holding = _first([work for work in works if work.may_have(names)])
    all_values = partial(values_of, lake, holding)
    todo = {work.unit for work in works}
    earlier = [s.manifest for s in statuses if s.manifest is not None and s.unit not in todo]
    kinds = kinds_of(pipeline, target, earlier, names)
    types = column_types(sample_values(lake, holding, names), all_values, kinds) if names else {}
    additions = latest(read_additions(lake), target.table)
    decided = {
        name: addition.type
        for name, addition in additions.items()
        if decides(addition, server.shard.name, "")
    }
    for new_field in chosen:
        kind = decided.get(new_field.name, types[new_field.name].type)
        yield f"{target.table}: would add `{visible(new_field.name)}` {kind}, {new_field.evidence}"


def _first(works: Sequence[LoadWork]) -> list[LoadWork]:
    """Returns the first works with at most _MOST_ROWS rows together; at least one."""
    chosen: list[LoadWork] = []
    for work in works:
        if chosen and sum(chosen_work.landed for chosen_work in chosen) + work.landed > _MOST_ROWS:
            break
        chosen.append(work)
    return chosen
