"""A target on one server, and what its rows are made from: files of the lake, or rows of another table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Placement, placement_of
from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.tables import Column, TargetTable, blank
from sluice.clients.clickhouse.types import parse
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Derived, Newest, Rollup
from sluice.errors import TargetRefused
from sluice.flow.load.casts.columns import HOLDERS, Filling, fill
from sluice.flow.load.failing_defaults import with_computed
from sluice.flow.load.rollups.newest import NewestStaging
from sluice.flow.load.rollups.staging import RollupSource, RollupStaging
from sluice.flow.load.shard_filter import ShardFilter
from sluice.flow.load.source.pull_or_push import Reading, choose_reading
from sluice.flow.load.staging import Staging
from sluice.flow.load.target_checks import inspect_target, required
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import Writer
from sluice.state.additions import later_columns
from sluice.state.ledger import Commits, committed
from sluice.state.rules import RulesReader, TableRules


@dataclass(frozen=True)
class LoadPlace:
    """`client` is of the shard that `placement` says. `rules`: those of an earlier load; None: today's.
    `every_column`: also fill the columns that the table got since. Without `types` the columns have today's
    types: a retry is for values that did not fit the types of that load."""

    client: Client
    pipeline: Pipeline
    target: Target
    lake: Lake
    placement: Placement
    rules: TableRules | None = None
    every_column: bool = False
    types: bool = True

    def ledger(self) -> Commits:
        """Reads what is committed now, by unit."""
        return committed(self.client, self.pipeline, self.lake.url, self.target)

    def source(self, rollup: Derived) -> RollupSource:
        """Returns the table that a rollup is made from, on this server."""
        target = next(t for t in self.pipeline.targets if t.table == rollup.source)
        clickhouse = self.pipeline.clickhouse
        shard = next((s for s in clickhouse.parts if s.name == self.placement.shard), clickhouse.parts[0])
        placement = placement_of(clickhouse, shard, target.table)
        return RollupSource(replace(self, target=target, placement=placement))

    def by_rules(self, digest: str, every_column: bool = False, types: bool = True) -> Self:
        """Returns the place whose rows are made by the rules of an earlier load; an empty digest stands for
        the pipeline file's.

        Raises TargetRefused if the lake doesn't have the rules."""
        if not digest:
            return self
        rules = RulesReader(self.lake).table(digest)
        if rules is None:
            raise TargetRefused(
                self.target.table,
                f"{self.lake.url} has no rules {digest}, by which hours of it were loaded",
                "restore _rules/ from a copy, or reload the hours by the pipeline file",
            )
        target_table = read_table(self.client, self.target.database, self.target.name)
        present = set() if target_table is None else {column.name for column in target_table.columns}
        return replace(
            self,
            target=rules.apply(self.target, present, types),
            rules=rules,
            every_column=every_column,
            types=types,
        )

    def inspect(self) -> tuple[TargetTable, Filling]:
        """Returns the table, as it was by the rules, and how its columns are filled. Raises as
        `inspect_target` and `as_loaded`."""
        target_table, filling = inspect_target(
            self.client, self.pipeline, self.target, self._then, self.rules is not None
        )
        if self.rules is None or self.target.rollup is not None:
            return target_table, filling
        later = self.later(target_table)
        loaded = as_loaded(target_table, self.rules)
        if loaded.columns != target_table.columns:
            loaded = with_computed(self.client, loaded)
        columns = filled_as_loaded(loaded, target_table, self.rules, self.types)
        columns = tuple(column for column in columns if column.name not in later)
        # The DEFAULT of a later column is the server's own, as in the rows that were there before it.
        plain = [replace(c, computed=False, reads=()) if c.name in later else c for c in loaded.columns]
        return replace(loaded, columns=tuple(plain)), fill(
            columns, self.target.columns, required(columns, self.target), self.target.spelled
        )

    @property
    def _then(self) -> dict[str, str]:
        """Returns the types that a rollup's columns had when its SELECT was the rules'."""
        if self.rules is None or self.target.rollup is None:
            return {}
        return {name: definition[0] for name, definition in self.rules.definitions.items()}

    def later(self, target_table: TargetTable) -> frozenset[str]:
        """Returns the columns that the table has got since the load whose rules these are."""
        if self.rules is None or self.every_column or self.target.rollup is not None:
            return frozenset()
        return later_columns(target_table, self.rules)

    def kept(self, target_table: TargetTable) -> TableRules:
        """Returns the rules of a load into the table that `inspect` gives."""
        needed = required(target_table.columns, self.target)
        rules = TableRules.of(self.target, target_table, self.later(target_table), needed)
        if self.rules is None:
            return rules
        return rules.again(self.rules, self.types)

    def staging(
        self,
        target_table: TargetTable,
        filling: Filling,
        works: Sequence[LoadWork],
        writer: Writer,
        shard_filter: ShardFilter,
        reading: Reading | None = None,
        shuffled: bool = False,
    ) -> Staging:
        """Chooses how `works` are staged, and without a `reading` how the server gets the lake's files.

        Raises Refused where it cannot get them as the pipeline file says."""
        if not any(work.long_numbers for work in works):
            filling = filling.of_short_numbers()
        arguments = (self.pipeline, self.target, target_table, filling, works)
        rollup = self.target.rollup
        own = (*arguments, Reading(self.lake, None), writer, shard_filter)
        if isinstance(rollup, Newest):
            revoked = self.ledger().revoked
            everything = any(work.unit in revoked for work in works)
            return NewestStaging(*own, rollup, self.source(rollup), everything)
        if isinstance(rollup, Rollup):
            source = self.source(rollup)
            out_of_lake = tuple(source.stagings([work.source for work in works if work.source], writer))
            return RollupStaging(*own, rollup, source, out_of_lake, shuffled, self._then)
        reading = reading or choose_reading(self.client, self.pipeline, self.lake, works[0].unit)
        return Staging(*arguments, reading, writer, shard_filter)


# A target table as it was when units were loaded: with the DEFAULTs, types and views of their rules. Pure.
#
# The table may have been changed since, for rows to come. Units that are loaded by their own rules get the
# values that they had: computed by the expressions and in the types of that load, then converted to today's
# types as ALTER TABLE converted the rows in the table.
def as_loaded(target_table: TargetTable, rules: TableRules) -> TargetTable:
    """Returns the table with the expressions of the rules' columns, and with their views: one that came since
    has no rows of these units.

    Raises TargetRefused for rows that have to be inserted where the server computes them by what is there
    now.
    """
    columns = tuple(_computing(column, rules) for column in target_table.columns)
    views = tuple(
        replace(view_table, select=rules.views[view_table.view])
        for view_table in target_table.view_tables
        if view_table.view in rules.views
    )
    loaded = replace(target_table, columns=columns, view_tables=views)
    if not target_table.attachable:
        for what in _computed_anew(target_table, loaded):
            raise TargetRefused(
                target_table.table,
                f"{what} was changed since these hours were loaded, and a replicated table computes it "
                "when rows are inserted",
                "ALTER it back, or reload these hours, which takes the table as it is",
            )
    return loaded


def filled_as_loaded(
    loaded: TargetTable, now: TargetTable, rules: TableRules, types: bool
) -> tuple[Column, ...]:
    """Returns the columns of `as_loaded` as events fill them; without `types` in today's types."""
    pairs = zip(loaded.columns, now.columns, strict=True)
    return tuple(_filled(column, column_now, rules, types) for column, column_now in pairs)


def _computing(column: Column, rules: TableRules) -> Column:
    _, kind, default, _ = rules.definitions.get(column.name, ("", column.kind, column.default, ""))
    passing = "EPHEMERAL" in (kind, column.kind) and kind != column.kind
    if passing or "ALIAS" in (kind, column.kind) or (kind, default) == (column.kind, column.default):
        return column
    # An empty expression cannot be given, and means the same.
    default = default or blank(column.type)
    return replace(column, kind=kind or "DEFAULT", default=default, altered=True)


def _filled(column: Column, now: Column, rules: TableRules, types: bool) -> Column:
    if column.name not in rules.definitions or column.name in HOLDERS or not column.stored:
        return column
    then, kind, default, absent = rules.definitions[column.name]
    type_, null, of_null = then if types else column.type, "", ""
    if not parse(absent).stored.nullable and absent != column.type:
        null, of_null = _default_of(absent, default), type_
    elif parse(absent).stored.nullable and not column.may_be_null:
        # ALTER TABLE put today's DEFAULT in place of NULLs.
        null, of_null = _default_of(now.type, now.default), now.type
    return replace(column, type=type_, kind=kind, default=default, null=null, of_null=of_null)


def _default_of(kind: str, default: str) -> str:
    return f"CAST({default or blank(kind)}, {literal(kind)})"


def _computed_anew(now: TargetTable, loaded: TargetTable) -> Iterator[str]:
    for before, after in zip(loaded.columns, now.columns, strict=True):
        if before.altered and "MATERIALIZED" in (before.kind, after.kind):
            yield f"column {after.name}"
    selects = {view_table.view: view_table.select for view_table in loaded.view_tables}
    for view_table in now.view_tables:
        if selects.get(view_table.view) != view_table.select:
            yield f"view {view_table.view}"
