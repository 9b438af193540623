"""From the lake's files to the attempt's own tables: rows that fit, and rejected rows. Nothing else sees
them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.clients.clickhouse.client import WRITE
from sluice.clients.clickhouse.errors import ACCESS_DENIED, ServerError, shorten
from sluice.clients.clickhouse.query_tree import candidates, same_reading
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, listed, render, table
from sluice.clients.clickhouse.tables import TargetTable, ViewTable, staged_engine
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Conservation, TargetRefused
from sluice.flow.load.casts.columns import Filling
from sluice.flow.load.failing_defaults import DefaultSuspects, Failing, other_records
from sluice.flow.load.kept_rows import KeptRows
from sluice.flow.load.shard_filter import ShardFilter
from sluice.flow.load.source.pull_or_push import (
    Reading,
    damaged,
    files_of,
    filled,
    needed,
    overflowing,
    rejected_rows,
    reland,
    routed,
)
from sluice.flow.load.work import LoadWork, differences
from sluice.flow.load.writer import UnitCounts, Writer, staged_names
from sluice.safe_text import visible
from sluice.slices import Unit


@dataclass(frozen=True)
class Tally:
    """Rows that got a default, by column, and rows that fail a check that doesn't reject them, by check."""

    defaulted: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Staging:
    """The staging and rejected rows tables of one attempt."""

    pipeline: Pipeline
    target: Target
    target_table: TargetTable
    filling: Filling
    works: Sequence[LoadWork]
    reading: Reading
    writer: Writer
    shard_filter: ShardFilter

    @property
    def views(self) -> ViewStaging:
        return ViewStaging(self.target_table, self.writer)

    @property
    def tables(self) -> tuple[Sql, ...]:
        """Everything that staging makes, in the order in which it is dropped."""
        return (*self.shard_filter.tables, *self.views.tables, self._staging, self._rejected_rows)

    @property
    def _fence(self) -> Sql:
        return self.writer.attempt.fence

    @property
    def _staging(self) -> Sql:
        return self.writer.attempt.staging

    @property
    def _rejected_rows(self) -> Sql:
        return self.writer.attempt.rejected_rows

    @property
    def _routed(self) -> Sql:
        return routed(self.pipeline, self.target, self.works)

    @property
    def _kept(self) -> KeptRows | None:
        kept = self.works[0].kept
        return KeptRows(self.target_table, self.writer, kept.identity) if kept is not None else None

    def _wanted(self, routed: Sql) -> Sql:
        """Returns the condition on the lake's rows, for those that are to be made."""
        condition = self.shard_filter.wanted(routed)
        return condition if self._kept is None else Sql(f"({condition}) AND {self._kept.others}")

    def _sources(self, columns: Sequence[str]) -> Iterator[Sql]:
        return self.reading.sources(self.pipeline, files_of(self.works), columns, self.writer)

    def stage(self) -> None:
        """Fills the staging table, and by it those of the views. The error of a CONSTRAINT or a view names
        the table or view that would have refused the rows."""
        try:
            self._create()
            try:
                self._insert_own()
            except ServerError as error:
                if not self._reject_failing(error):
                    raise
        except ServerError as error:
            if error.code == ACCESS_DENIED:  # the grant is one on Sluice's own tables
                raise
            if not error.retryable:
                wrong = damaged(self.pipeline, self.reading.lake, self.works, error.reason)
                if wrong is not None:
                    raise wrong from error
            raise replace(error, reason=self._with_names_of_tables(error.reason)) from error

    def _create(self) -> None:
        parts = {"target": table(self.target_table.table), "engine": staged_engine(self.target_table)}
        self.writer.run("stage", render("load/create_staging", staging=self._staging, **parts))
        changed = (change for column in self.target_table.columns for change in column.changes)
        expiring = (Sql(f"MODIFY COLUMN {identifier(n)} REMOVE TTL") for n in self.target_table.expiring)
        changes = listed([*changed, *expiring])
        if changes:
            sql = render("load/compute_defaults", staging=self._staging, changes=changes)
            try:
                self.writer.run("stage", sql)
            except ServerError as error:
                altered = [column.name for column in self.target_table.columns if column.altered]
                if error.retryable or not altered:
                    raise
                raise TargetRefused(
                    self.target_table.table,
                    f"the expressions that {', '.join(altered)} had when these hours were loaded do not fit "
                    f"today's columns ({shorten(error.reason, 200)})",
                    "ALTER it back, or reload these hours, which takes the table as it is",
                ) from error
        self.views.create()

    def _reject_failing(self, error: ServerError) -> bool:
        """Stages all again without the rows for which a DEFAULT fails, which become rejected rows; returns
        whether there are any. Raises DefaultFails where there are too many."""
        if error.retryable or not self._may_fail:
            return False
        suspects = DefaultSuspects(self.target_table, self.filling, self.writer)
        try:
            suspects.add(self._sources(self.filling.lake_columns), self._wanted(self._routed))
            failing = suspects.find()
            if failing:
                for temporary in self.tables:
                    self.writer.run("stage", render("clickhouse/drop_table", table=temporary))
                create_rejected_rows(self.writer)
            for failing_row in failing:
                suspects.reject(failing_row, self._rejected_rows, self.target.table)
        finally:
            suspects.close()
        if failing:
            self._create()
            self._insert_own(failing)
        return bool(failing)

    def _with_names_of_tables(self, reason: str) -> str:
        """Names the user's tables in place of the attempt's own. The own views also try the checks."""
        checks = ", ".join(visible(name, 40) for name in self.shard_filter.checks.names)
        target = f"{self.target_table.table} (checks: {checks})" if checks else self.target_table.table
        own = {str(name).replace("`", ""): target for name in self.shard_filter.tables}
        for own_name, meant in sorted({**own, **self.views.meanings}.items(), reverse=True):
            reason = re.sub(rf"{re.escape(own_name)}\b", meant.replace("\\", r"\\"), reason)
        return reason

    @property
    def _may_fail(self) -> bool:
        """Whether a DEFAULT may fail of a row: a rollup's rows are no events."""
        return self.target.rollup is None and any(column.default for column in self.target_table.columns)

    def _insert_own(self, failing: Sequence[Failing] = ()) -> None:
        self.shard_filter.create()
        if self.shard_filter.by_record:
            self._count_records()
        if self._kept is not None:
            for source in self._sources(("_type", "_cluster", *self._kept.identity)):
                self._kept.stage(source, self._routed)
        self._insert_rows(failing)

    def _count_records(self) -> None:
        """Counts all of the target's rows in the lake's files, without reading payloads."""
        filtered = overflowing(self.works)
        columns = ("_cluster", "_partition", *(("_type",) if filtered else ()))
        for source in self._sources(columns):
            sql = render(
                "load/count_records",
                counted=self.shard_filter.counts,
                own=self.shard_filter.placement.own_record,
                source=source,
                routed=self._routed if filtered else Sql("1"),
            )
            self.writer.run("stage", sql)

    def _insert_rows(self, failing: Sequence[Failing]) -> None:
        filtered = overflowing(self.works)
        columns = needed(self.filling, filtered, self.shard_filter.by_record)
        condition, beside = self._wanted(self._routed if filtered else Sql("1")), self.shard_filter.beside
        if failing:
            condition = Sql(f"({condition}) AND {other_records(failing)}")
        if failing or self._kept is not None or self.shard_filter.rejects:
            columns = self.filling.lake_columns
        for source in self._sources(columns):
            sql = render(
                "load/stage_rows",
                staging=self.shard_filter.entry,
                columns=listed(map(identifier, (*self.filling.into, *beside))),
                values=listed((*self.filling.values, *beside.values())),
                rows=filled(self.filling, columns, source, condition),
                unfit=self.filling.unfit,
                block=self.filling.block,
            )
            self.writer.run("stage", sql)

    def review(self) -> tuple[UnitCounts, UnitCounts]:
        """Returns this shard's rows and rejected rows by unit, after a second read of units that lack rows.

        Raises Conservation when the lake's files do not hold what landed, on this shard and all others.
        """
        staged = self.writer.count_rows(self._staging)
        if self.shard_filter.by_record:
            return staged, self._rest(self._own_works(), staged)
        if not self.shard_filter.by_value:
            return staged, self._rest(self.works, staged)
        fitting, own_rows = self.shard_filter.counted()
        for unit, (expected, counted) in differences(_sharing(self.works, own_rows), staged).items():
            raise Conservation(
                f"table {self.target_table.table}, slice {unit}: {expected:,} rows belong on this shard, and "
                f"{counted:,} were staged: does another program write to Sluice's own tables? Load it again"
            )
        if self._rest(self.works, fitting):
            sql = render(
                "load/drop_foreign_rejected_rows",
                rejected_rows=self._rejected_rows,
                own=self.shard_filter.placement.own_rejected_row,
            )
            self.writer.run("rejected_rows", sql)
        return staged, self.count_rejected_rows(self._rejected_rows)

    def _own_works(self) -> list[LoadWork]:
        """Returns the works with this shard's rows as what landed."""
        all_rows, own_rows = self.shard_filter.counted()
        for unit, (landed, counted) in differences(self.works, all_rows).items():
            raise self._uneven(unit, landed, counted)
        return _sharing(self.works, own_rows)

    def _rest(self, works: Sequence[LoadWork], staged: UnitCounts) -> UnitCounts:
        """Returns the rejected rows of units that lack rows. Raises Conservation when some lack more than
        those."""
        lacking = differences(works, staged)
        if not lacking:
            return {}
        if self.filling.checks:  # else every value fits
            self._insert_rejected_rows([work for work in works if work.unit in lacking])
        rejected_rows = self.count_rejected_rows(self._rejected_rows)
        for unit, (landed, counted) in differences(works, staged, rejected_rows).items():
            raise self._uneven(unit, landed, counted)
        return rejected_rows

    def _uneven(self, unit: Unit, landed: int, counted: int) -> Conservation:
        verify = self.pipeline.command("verify")
        return Conservation(
            f"table {self.target_table.table}, slice {unit}: its manifest says {landed:,} rows landed, the "
            f"lake's files gave {counted:,} (rejected rows included): `{verify}` says which file changed; "
            f"`{reland(self.pipeline, unit)}` writes them again"
        )

    def _insert_rejected_rows(self, works: Sequence[LoadWork]) -> None:
        columns = self.filling.lake_columns
        condition = self._wanted(self._routed)
        for source in self.reading.sources(self.pipeline, files_of(works), columns, self.writer):
            sql = render(
                "load/stage_rejected_rows",
                rejected_rows=self._rejected_rows,
                column=self.filling.first("column"),
                reason=self.filling.first("reason"),
                value=self.filling.first("text"),
                rows=rejected_rows(self.filling, filled(self.filling, columns, source, condition)),
                block=self.filling.block,
            )
            self.writer.run("rejected_rows", sql, {"target": self.target.table})

    def tallies(self) -> dict[Unit, Tally]:
        """Returns what the staged rows of each unit lack and fail, as far as that is counted."""
        rows = self.writer.rows(render("load/read_lacking", lacking=self.shard_filter.lacking))
        return {
            self.writer.unit_of(start, cluster): Tally(dict(defaulted), dict(failed))
            for start, cluster, defaulted, failed in rows
        }

    def count_rejected_rows(self, rejected_rows_table: Sql) -> UnitCounts:
        sql = render("load/count_rejected_rows", table=rejected_rows_table, fence=self._fence)
        return self.writer.counts(sql, {"target": self.target.table})


def _sharing(works: Sequence[LoadWork], own_rows: UnitCounts) -> list[LoadWork]:
    return [replace(work, landed=own_rows.get(work.unit, 0)) for work in works]


def create_rejected_rows(writer: Writer) -> None:
    """Creates the attempt's table of rejected rows."""
    rejected = identifier(writer.attempt.database, "rejected")
    parts = {"rejected_rows": writer.attempt.rejected_rows, "rejected": rejected}
    writer.run("fence", render("load/create_staged_rejected_rows", **parts))


# From staged rows to the rows that the target's materialized views give, in tables of the attempt's own.
#
# Each view has a double that reads one staging table and writes to another: the server itself fires it when
# rows are staged, and what a view cannot do is known before anything is deleted.
@dataclass(frozen=True)
class ViewStaging:
    target_table: TargetTable
    writer: Writer

    @property
    def tables(self) -> tuple[Sql, ...]:
        """Everything that `create` makes, views first."""
        views = [identifier(SYSTEM, name) for name in self._doubles.values()]
        return (*views, *(self._staged(name) for name in self._names if name != self.target_table.table))

    @property
    def meanings(self) -> dict[str, str]:
        """The tables and views that the attempt's own ones stand for, by the names of its own."""
        views = {view_table.table: view_table.called for view_table in self.target_table.view_tables}
        names = {f"{SYSTEM}.{own_name}": views.get(name, name) for name, own_name in self._names.items()}
        return {**names, **{f"{SYSTEM}.{own_name}": view for view, own_name in self._doubles.items()}}

    @property
    def _names(self) -> dict[str, str]:
        return staged_names(self.target_table, self.writer.attempt)

    @property
    def _doubles(self) -> dict[str, str]:
        views = enumerate(view_table.view for view_table in self.target_table.view_tables)
        return {view: self.writer.attempt.temporary_name(f"view{number}") for number, view in views}

    def _staged(self, name: str) -> Sql:
        return identifier(SYSTEM, self._names[name])

    def create(self) -> None:
        """Creates them after the target's staging table, and before rows are in it. Raises TargetRefused."""
        for view_table in {
            view_table.table: view_table for view_table in self.target_table.view_tables
        }.values():
            parts = {"target": table(view_table.table), "engine": staged_engine(view_table)}
            sql = render("load/create_staging", staging=self._staged(view_table.table), **parts)
            self.writer.run("stage", sql)
        for view_table in self.target_table.view_tables:
            view = identifier(SYSTEM, self._doubles[view_table.view])
            staging, select = self._staged(view_table.table), self._moved(view_table)
            self.writer.run(
                "stage", render("load/create_staged_view", view=view, staging=staging, select=select)
            )

    def _moved(self, view_table: ViewTable) -> Sql:
        """Returns the view's SELECT over staged rows; the server confirms that it reads nothing else."""
        staged_name = self._names[view_table.source]
        right, reason = self._tree(Sql(view_table.select)), "the server would read it in another way"
        for select in candidates(view_table.select, view_table.source, identifier(SYSTEM, staged_name)):
            try:
                tree = self._tree(select)
            except ServerError as error:
                if error.retryable:
                    raise
                reason = error.reason
                continue
            if same_reading(right, view_table.source, tree, f"{SYSTEM}.{staged_name}"):
                return select
        raise TargetRefused(
            view_table.called,
            f"the SELECT of materialized view {view_table.view} cannot be tried over other rows ({reason})",
            f"ALTER TABLE {table(view_table.view)} MODIFY QUERY, with an alias for {view_table.source}",
        )

    def _tree(self, select: Sql) -> list[str]:
        return [
            line
            for (line,) in self.writer.rows(render("clickhouse/explain_view", select=select), settings=WRITE)
        ]
