"""From staged rows to the rows that the target's materialized views give, in tables of the attempt's own.

Each view has a double that reads one staging table and writes to another: the server itself fires it when
rows are staged, and what a view cannot do is known before anything is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.query_tree import same_reading
from sluice.clients.clickhouse.settings import WRITE
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, render, table
from sluice.clients.clickhouse.tables import TargetTable, ViewTable, staged_engine
from sluice.clients.clickhouse.view_select import candidates
from sluice.errors import TargetRefused
from sluice.flow.load.destinations import staged_names
from sluice.flow.load.writer import Writer


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
