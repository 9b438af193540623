"""From the source's committed rows to the attempt's own table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.errors import THROWN, ServerError
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.config.rollups import Rollup
from sluice.errors import SourceChanged, TargetRefused
from sluice.flow.load.failing_defaults import Failing
from sluice.flow.load.rollups.decide import LedgerRows, changed
from sluice.flow.load.rollups.select import instant, of_hour, of_unit
from sluice.flow.load.staging import Staging
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import UnitCounts
from sluice.slices import Slice, Unit
from sluice.state.rollup_commits import is_hour

# A replica that has just taken over may lack rows of the source that a quorum has.
_SEQUENTIAL = "SETTINGS select_sequential_consistency = 1"
_MISFIT = "a value does not fit its column"


@dataclass(frozen=True)
class RollupStaging(Staging):
    """`source` reads what the ledger holds of the source now.

    A load revokes a unit before it touches its rows: the same commit before and after the SELECT means that
    they were not changed in between.
    """

    rollup: Rollup
    source: Callable[[], LedgerRows]

    def _insert_own(self, failing: Sequence[Failing] = ()) -> None:
        """Its rows are no events: none is left out as `failing`."""
        for work in self.works:
            select = self._select(work)
            if select is None:
                continue
            sql = render(
                "rollups/stage",
                staging=self.writer.attempt.staging,
                columns=listed(map(identifier, self.filling.columns)),
                values=listed(self.filling.values),
                slice=instant(work.unit),
                cluster=literal(work.unit.cluster),
                misfit=self.filling.misfit,
                says=literal(_MISFIT),
                **self._rows(select),
            )
            try:
                self.writer.run("stage", sql)
            except ServerError as error:
                if error.code != THROWN or _MISFIT not in error.reason:
                    raise
                raise self._refused(work, select, error) from error

    def _rows(self, select: Sql) -> dict[str, Sql]:
        columns = [
            Sql(f"sluice_given.{identifier(name)} AS g{n}") for n, name in enumerate(self.filling.columns)
        ]  # qualified: a column may be named like an alias
        return {
            "named": listed([*(f"g{n}" for n in range(len(columns))), *self.filling.named]),
            "given": listed(columns),
            "select": select,
            "settings": Sql(_SEQUENTIAL if self.target_table.replicated else ""),
        }

    def _refused(self, work: LoadWork, select: Sql, error: ServerError) -> Exception:
        """Returns the error that names the column; the server's own error where the value is gone."""
        sql = render(
            "rollups/find_misfit",
            column=self.filling.first("column"),
            type=self.filling.first("type"),
            misfit=self.filling.misfit,
            **self._rows(select),
        )
        rows = self.writer.rows(sql)
        if not rows:
            return error
        [(column, kind)] = rows
        return TargetRefused(
            self.target_table.table,
            f"column {column} has type {kind}, which a value that its SELECT gives of slice {work.unit} does "
            "not fit",
            f"correct {self.rollup.sql}, or give the column a type that takes it",
        )

    def _select(self, work: LoadWork) -> Sql | None:
        """Returns None where the unit has no rows of its own: by event hour its rows are the hours'."""
        if self.rollup.grain == "slice":
            return of_unit(self.rollup, work.unit)
        if not is_hour(work.unit) or not work.types:
            return None
        return of_hour(self.rollup, work.unit, [self._named(name) for name in work.types])

    def _named(self, name: str) -> Unit:
        slice_id, _, cluster = name.split("@")[0].partition("/")
        return Unit(Slice.from_id(slice_id, self.pipeline.slice), cluster)

    def review(self) -> tuple[UnitCounts, UnitCounts]:
        """Counts rows by unit; a rollup has no misfits. Raises SourceChanged."""
        for unit in changed(self.rollup, self.works, self.source()):
            raise SourceChanged(
                f"table {self.target_table.table}: {self.rollup.source} was loaded again in slice {unit} "
                "while the rollup read it: make it again"
            )
        return self.writer.count_rows(self.writer.attempt.staging), {}
