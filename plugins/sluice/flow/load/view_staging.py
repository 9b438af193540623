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
    found: TargetTable
    writer: Writer

    @property
    def tables(self) -> tuple[Sql, ...]:
        """Everything that `create` makes, views first."""
        views = [identifier(SYSTEM, name) for name in self._doubles.values()]
        return (*views, *(self._staged(name) for name in self._names if name != self.found.table))

    @property
    def meanings(self) -> dict[str, str]:
        """The tables and views that the attempt's own ones stand for, by the names of its own."""
        views = {fed.table: fed.called for fed in self.found.fed}
        names = {f"{SYSTEM}.{own}": views.get(name, name) for name, own in self._names.items()}
        return {**names, **{f"{SYSTEM}.{own}": view for view, own in self._doubles.items()}}

    @property
    def _names(self) -> dict[str, str]:
        return staged_names(self.found, self.writer.attempt)

    @property
    def _doubles(self) -> dict[str, str]:
        views = enumerate(fed.view for fed in self.found.fed)
        return {view: self.writer.attempt.temporary_name(f"view{number}") for number, view in views}

    def _staged(self, name: str) -> Sql:
        return identifier(SYSTEM, self._names[name])

    def create(self) -> None:
        """After the target's staging table is there, and before rows are in it. Raises TargetRefused."""
        for fed in {fed.table: fed for fed in self.found.fed}.values():
            parts = {"target": table(fed.table), "engine": staged_engine(fed)}
            sql = render("load/create_staging", staging=self._staged(fed.table), **parts)
            self.writer.run("stage", sql)
        for fed in self.found.fed:
            view = identifier(SYSTEM, self._doubles[fed.view])
            staging, select = self._staged(fed.table), self._moved(fed)
            self.writer.run(
                "stage", render("load/create_staged_view", view=view, staging=staging, select=select)
            )

    def _moved(self, fed: ViewTable) -> Sql:
        """Returns the view's SELECT over staged rows; the server says that nothing else of it has changed."""
        place = self._names[fed.source]
        right, reason = self._tree(Sql(fed.select)), "the server would read it in another way"
        for select in candidates(fed.select, fed.source, identifier(SYSTEM, place)):
            try:
                tree = self._tree(select)
            except ServerError as error:
                if error.retryable:
                    raise
                reason = error.reason
                continue
            if same_reading(right, fed.source, tree, f"{SYSTEM}.{place}"):
                return select
        raise TargetRefused(
            fed.called,
            f"the SELECT of materialized view {fed.view} cannot be tried over other rows ({reason})",
            f"ALTER TABLE {table(fed.view)} MODIFY QUERY, with an alias for {fed.source}",
        )

    def _tree(self, select: Sql) -> list[str]:
        return [
            line
            for (line,) in self.writer.rows(render("clickhouse/explain_view", select=select), settings=WRITE)
        ]
