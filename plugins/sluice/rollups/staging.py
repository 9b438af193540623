"""From the source's committed rows to the attempt's own table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.errors import SourceChanged
from sluice.load.decide import Work
from sluice.load.sql import Sql, identifier, listed, literal, render
from sluice.load.staging import Staging
from sluice.load.writer import UnitCounts
from sluice.rollups.decide import Ledger, changed, is_hour
from sluice.rollups.select import instant, of_hour, of_unit
from sluice.rollups.spec import Rollup
from sluice.rollups.target import cast, columns_of
from sluice.slices import Slice, Unit

# A replica that has just taken over may lack rows of the source that a quorum has.
_SEQUENTIAL = "SETTINGS select_sequential_consistency = 1"


@dataclass(frozen=True)
class RollupStaging(Staging):
    """`source` reads what the ledger holds of the source now.

    A load revokes a unit before it touches its rows: the same commit before and after the SELECT means that
    nobody has changed them in between.
    """

    rollup: Rollup
    source: Callable[[], Ledger]

    def _insert_own(self) -> None:
        given = columns_of(self.writer.client, self.rollup)
        kinds = {column.name: column.type for column in self.found.columns}
        for work in self.works:
            select = self._select(work)
            if select is None:
                continue
            sql = render(
                "stage_rollup",
                staging=self.writer.attempt.staging,
                columns=listed(identifier(name) for name, _ in given),
                values=listed(cast(name, kind, kinds[name]) for name, kind in given),
                slice=instant(work.unit),
                cluster=literal(work.unit.cluster),
                select=select,
                settings=Sql(_SEQUENTIAL if self.found.replicated else ""),
            )
            self.writer.run("stage", sql)

    def _select(self, work: Work) -> Sql | None:
        """None where the unit has no rows of its own: by event hour its rows are the hours'."""
        if self.rollup.grain == "slice":
            return of_unit(self.rollup, work.unit)
        if not is_hour(work.unit) or not work.types:
            return None
        return of_hour(self.rollup, work.unit, [self._named(name) for name in work.types])

    def _named(self, name: str) -> Unit:
        slice_id, _, cluster = name.split("@")[0].partition("/")
        return Unit(Slice.from_id(slice_id, self.pipeline.slice), cluster)

    def review(self) -> tuple[UnitCounts, UnitCounts]:
        """Rows by unit; a rollup has no misfits. Raises SourceChanged."""
        for unit in changed(self.rollup, self.works, self.source()):
            raise SourceChanged(
                f"table {self.found.table}: {self.rollup.source} was loaded again in slice {unit} while the "
                "rollup read it: make it again"
            )
        return self.writer.count_rows(self.writer.attempt.staging), {}
