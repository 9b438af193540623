"""From all of the rows of a unit in the source to the attempt's own table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.config.target import Rollup
from sluice.errors import Changed, TargetRefused
from sluice.flow.load.failing_defaults import Failing
from sluice.flow.load.protocol import create_fence
from sluice.flow.load.rollups.decide import changed
from sluice.flow.load.rollups.source import RollupSource
from sluice.flow.load.rollups.target import check_rollup, given
from sluice.flow.load.staging import Staging
from sluice.flow.load.writer import UnitCounts
from sluice.slices import Unit
from sluice.state.last_ddl import over

# A replica that has just taken over may lack rows of the source that a quorum has.
_SEQUENTIAL = "SETTINGS select_sequential_consistency = 1"


@dataclass(frozen=True)
class RollupStaging(Staging):
    """`lake_rows` stage the source's rows of the units whose work says so. `shuffled`: the SELECT reads its
    rows in an order that chance decides. `then`: the types that the columns had by the rules of the load.

    A load revokes a unit before it touches its rows: the same commit before and after the SELECT, and as many
    rows as it has, mean that the SELECT has read all of them.
    """

    rollup: Rollup
    source: RollupSource
    lake_rows: tuple[Staging, ...] = ()
    shuffled: bool = False
    then: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[Sql, ...]:
        own = super().tables
        return (
            *(name for part in self.lake_rows for name in (part.writer.attempt.fence, *part.tables)),
            *own,
        )

    def _insert_own(self, failing: Sequence[Failing] = ()) -> None:
        """Its rows are no events: none is left out as `failing`."""
        staged = self._stage_lake_rows()
        settings = Sql(_SEQUENTIAL if self.target_table.replicated or self.source.replicated else "")
        for work in self.works:
            rows = staged.get(work.unit, table(self.rollup.source))
            sql = render(
                "rollups/stage",
                staging=self.writer.attempt.staging,
                columns=listed(map(identifier, self.filling.columns)),
                values=listed(self.filling.values),
                slice=instant(work.unit),
                cluster=literal(work.unit.cluster),
                select=of_unit(self.rollup, work.unit, rows, self.shuffled),
                given=given(self.filling.columns),
                settings=settings,
            )
            self.writer.run("stage", sql)

    def _stage_lake_rows(self) -> dict[Unit, Sql]:
        """Returns the tables that have the source's rows of units, out of the lake.

        Raises Conservation where the files do not give what landed, and TargetRefused where they do not give
        the rows that the source's commit had.
        """
        landed, tables = {work.unit: work.landed for work in self.works}, {}
        for part in self.lake_rows:
            create_fence(part.writer, part.works)
            part.stage()
            counted, _ = part.review()
            for work in part.works:
                self._expect(work.unit, landed[work.unit], counted.get(work.unit, 0))
                tables[work.unit] = part.writer.attempt.staging
        return tables

    def _expect(self, unit: Unit, committed: int, given: int) -> None:
        if given != committed:
            raise TargetRefused(
                self.target_table.table,
                f"of slice {unit} the lake gives {given:,} rows of {self.rollup.source}, and its commit has "
                f"{committed:,}: other values fit its columns now",
                f"load that again first: `{self._reload(unit)}`",
            )

    def _reload(self, unit: Unit) -> str:
        words = (*unit.slice.words, "--table", self.rollup.source, "--mode", "reload")
        return self.pipeline.command("run", *words)

    def review(self) -> tuple[UnitCounts, UnitCounts]:
        """Counts rows by unit; a rollup has no rejected rows. Raises Changed, and TargetRefused where the
        types are others by now."""
        source = self.source.ledger()
        for unit in changed(self.rollup, self.works, source):
            raise self._changed(unit, "was loaded again")
        read = {work.unit: work.landed for work in self.works if work.source is None}
        counted = self.source.counted(read)
        for unit, rows in read.items():
            if counted.get(unit, 0) != rows:
                raise self._changed(unit, "lost rows")
        check_rollup(self.writer.client, self.target_table, self.target, self.rollup, self.then)
        return self.writer.count_rows(self.writer.attempt.staging), {}

    def _changed(self, unit: Unit, what: str) -> Changed:
        return Changed(
            f"table {self.target_table.table}: {self.rollup.source} {what} in slice {unit} while the rollup "
            "read it: make it again"
        )


# The SELECT of one unit. Pure.
#
# A unit's rows are derived from the source's rows of the unit and from nothing else of it, whatever else is
# in the batch: so they are the same however often and in whatever batches they are made.
def of_unit(rollup: Rollup, unit: Unit, rows: Sql, shuffled: bool = False) -> Sql:
    """`rows` is a table with the source's columns. `shuffled`: they come in an order that chance decides."""
    condition = f"_slice = {instant(unit)} AND _cluster = {literal(unit.cluster)}"
    order = " ORDER BY rand()" if shuffled else ""
    return over(rollup, Sql(f"(SELECT * FROM {rows} WHERE {condition}{order})"))  # noqa: S608 - quoted


def instant(unit: Unit) -> Sql:
    return Sql(f"toDateTime({int(unit.slice.start.timestamp())}, 'UTC')")
