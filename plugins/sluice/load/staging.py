"""From the lake's files to the attempt's own tables: rows that fit, and misfits. Nothing else sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.clickhouse.errors import TOO_MANY_PARTS, ServerError
from sluice.errors import Conservation
from sluice.load.columns import Filling
from sluice.load.decide import Work, differences
from sluice.load.inspect import TargetTable
from sluice.load.reading import Reading
from sluice.load.source import keys_of, needed, overflowing, routed, selected
from sluice.load.sql import Sql, identifier, listed, literal, render, table
from sluice.load.writer import UnitCounts, Writer
from sluice.pipeline import Pipeline, Target


@dataclass(frozen=True)
class Staging:
    """The staging and misfits tables of one attempt."""

    pipeline: Pipeline
    target: Target
    found: TargetTable
    filling: Filling
    works: Sequence[Work]
    reading: Reading
    writer: Writer

    @property
    def _fence(self) -> Sql:
        return self.writer.attempt.fence

    @property
    def _staging(self) -> Sql:
        return self.writer.attempt.staging

    @property
    def _misfits(self) -> Sql:
        return self.writer.attempt.misfits

    def stage(self) -> bool:
        """Fills the staging table; whether its parts can be attached to the target."""
        if self.found.attachable:
            try:
                self._stage_like_target()
            except ServerError as error:
                if error.code != TOO_MANY_PARTS:
                    raise
                # More partitions than one INSERT may touch: they are moved in ranges instead.
                self.writer.run("stage", render("drop_table", table=self._staging))
            else:
                return True
        definitions = listed(column.definition for column in self.found.columns)
        sql = render("create_staging_plain", staging=self._staging, definitions=definitions)
        self.writer.run("stage", sql)
        self._insert_rows()
        return False

    def _stage_like_target(self) -> None:
        sql = render(
            "create_staging_like_target",
            staging=self._staging,
            target=table(self.found.table),
            engine=Sql(self.found.engine_full),
        )
        self.writer.run("stage", sql)
        self._insert_rows()

    def _insert_rows(self) -> None:
        filtered = overflowing(self.works)
        columns = needed(self.filling, filtered)
        for source in self.reading.sources(keys_of(self.works), columns):
            sql = render(
                "stage_rows",
                staging=self._staging,
                columns=listed(map(identifier, self.filling.columns)),
                values=listed(self.filling.values),
                named=selected(columns, self.filling.named),
                source=source.select,
                routed=routed(self.pipeline, self.target) if filtered else Sql("1"),
                misfit=self.filling.misfit,
                format=source.format,
            )
            self.writer.run("stage", sql, body=source.body)

    def review(self) -> tuple[UnitCounts, UnitCounts]:
        """Rows and misfits by unit, after the second look at units that lack rows."""
        staged = self.writer.counts(render("count_rows", table=self._staging, fence=self._fence))
        lacking = differences(self.works, staged)
        if not lacking:
            return staged, {}
        self._insert_misfits([work for work in self.works if work.unit in lacking])
        misfits = self.count_misfits(self._misfits)
        for unit, (landed, counted) in differences(self.works, staged, misfits).items():
            raise Conservation(
                f"table {self.found.table}, slice {unit}: its manifest says {landed:,} rows landed, the "
                f"lake's files gave {counted:,} (misfits included): `sluice verify` says which file changed; "
                "`--mode reland` over the slice writes them again"
            )
        return staged, misfits

    def _insert_misfits(self, works: Sequence[Work]) -> None:
        columns = self.filling.lake_columns
        for source in self.reading.sources(keys_of(works), columns):
            sql = render(
                "stage_misfits",
                misfits=self._misfits,
                column=_first_misfit(self.filling, "column"),
                type=_first_misfit(self.filling, "type"),
                value=_first_misfit(self.filling, "text"),
                named=selected(columns, self.filling.named),
                source=source.select,
                routed=routed(self.pipeline, self.target),
                misfit=self.filling.misfit,
                format=source.format,
            )
            self.writer.run("misfits", sql, {"target": self.target.table}, body=source.body)

    def count_misfits(self, place: Sql) -> UnitCounts:
        sql = render("count_misfits", table=place, fence=self._fence)
        return self.writer.counts(sql, {"target": self.target.table})


def _first_misfit(filling: Filling, attribute: str) -> Sql:
    """`attribute` of the first check that a row does not pass: a name, a type, or the value's text."""
    parts = []
    for check in filling.checks:
        value = getattr(check, attribute)
        parts += [check.misfit, value if attribute == "text" else literal(value)]
    return Sql(f"multiIf({listed(parts)}, '')")
