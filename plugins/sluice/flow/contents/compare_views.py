"""Tables of materialized views against what the views give of the rows that a load of the lake gives now.

The doubles of the views, which a load has too, give them into tables that keep every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, listed, render, table
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.comparable_columns import Comparison, compare
from sluice.flow.contents.merged_rows import Merging, certain, merging
from sluice.flow.contents.staged_load import Staged
from sluice.flow.contents.sums import ALL_ROWS, RowSums, columns_that_differ, sums_of
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.read_view_shapes import ViewTableShape, view_table_shapes
from sluice.flow.verify.view_sums import ViewSums as Merged
from sluice.slices import Unit
from sluice.state.ledger import unit_of

_OFTEN = "how often a row is there is not compared: blocks of rows, or another table, decide"


@dataclass
class ViewContents:
    """The views' tables of one target on one server. `anomaly` makes those of a unit."""

    client: Client
    pipeline: Pipeline
    staged: Staged
    anomaly: Callable[[Unit], Callable[..., Anomaly]]
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def check(self, units: Sequence[Unit], derived: bool) -> None:
        """Finds the anomalies, and a line for each table, column and unit that is not compared.

        `derived`: a SELECT gave the target's rows. Raises what the client raises.
        """
        for found in view_table_shapes(self.client, self.staged.found, derived).values():
            if not found.view_tables[0].stores:
                continue
            covered = found.covered(self.client, self.pipeline, self.staged.found)
            older = [unit for unit in units if unit not in covered]
            if older:
                self.notes.append(
                    f"table {found.called}: {len(older):,} slices are not compared: they were loaded before "
                    "its views last changed"
                )
            if len(older) < len(units):
                self.anomalies += [replace(a, table=found.called) for a in self._table(found, covered)]

    def _note(self, found: ViewTableShape, why: str, column: str = "") -> None:
        what = f": column {column} is not compared" if column else " is not compared"
        self.notes.append(f"table {found.called}{what}: {why}")

    def _table(self, found: ViewTableShape, covered: frozenset[Unit]) -> Iterator[Anomaly]:
        view_table, shape = found.view_tables[0], found.shape
        known = compare(self.client, view_table, derived=False)
        columns, unsure = certain(known.columns, shape)
        plain = view_table.engine.removeprefix("Replicated") == "MergeTree"
        if plain and shape.one_by_one and not shape.why:
            left_out = [*known.left_out, *unsure.items()]
            yield from self._apart(found, replace(known, columns=tuple(columns)), covered)
        else:
            made = merging(view_table, shape, columns)
            if known.kept != "1" and not made.why:
                made = Merging(why="its TTL deletes rows, and merges put them together before")
            if made.why:
                self._note(found, made.why)
                return
            left_out = [*known.left_out, *unsure.items(), *made.left_out]
            if plain and not any(role == "sum" for role in shape.columns.values()):
                self.notes.append(f"table {found.called}: {_OFTEN}")
            yield from self._merged(found, made, covered)
        for name, why in left_out:
            self._note(found, why, name)

    def _apart(
        self, found: ViewTableShape, comparison: Comparison, covered: frozenset[Unit]
    ) -> Iterator[Anomaly]:
        """Row by row, with all values."""

        def sums(name: Sql, by_column: bool) -> Mapping[Unit, RowSums]:
            known = (self.client, self.pipeline, self.staged)
            return sums_of(*known, name, comparison, ALL_ROWS, by_column)

        here, given = sums(table(found.table), False), sums(self.staged.view_tables[found.table], False)
        wrong = sorted(unit for unit in {*here, *given} & covered if here.get(unit) != given.get(unit))
        if wrong:
            here, given = sums(table(found.table), True), sums(self.staged.view_tables[found.table], True)
        for unit in wrong:
            mine, theirs = here.get(unit, RowSums()), given.get(unit, RowSums())
            named = ""
            if mine.rows == theirs.rows:
                named = f", other values in {', '.join(columns_that_differ(comparison, mine, theirs))}"
            yield self._anomaly(unit, f"{theirs.rows:,} rows", f"{mine.rows:,} rows{named}", found)

    def _merged(self, found: ViewTableShape, made: Merging, covered: frozenset[Unit]) -> Iterator[Anomaly]:
        here = self._together(made, table(found.table))
        given = self._together(made, self.staged.view_tables[found.table])
        strange = self._strange(found, made)
        for unit in sorted({*here, *given, *strange} & covered):
            mine, theirs = here.get(unit, made.nothing), given.get(unit, made.nothing)
            rows, seen = theirs.exact.split()[0], mine.exact.split()[0]
            expected = f"{int(rows):,} rows, put together by their key,"
            if not mine.agrees(theirs):
                other = ", with other values" if rows == seen else ""
                yield self._anomaly(unit, expected, f"{int(seen):,}{other}", found)
            elif unit in strange:
                yield self._anomaly(unit, expected, f"{strange[unit]:,} that no view gives", found)

    def _together(self, made: Merging, name: Sql) -> dict[Unit, Merged]:
        sql = render("verify/merged", table=name, fence=self.staged.fence, **made.parts)
        return {
            unit_of(self.pipeline, start, cluster): made.read(*held)
            for start, cluster, *held in self.client.rows(sql)
        }

    def _strange(self, found: ViewTableShape, made: Merging) -> dict[Unit, int]:
        """Returns how many rows are none of those that the views gave."""
        if not made.members:
            return {}
        row, staged = Sql(f"tuple({listed([*made.members, '0'])})"), self.staged.view_tables[found.table]
        parts = {"table": table(found.table), "staged": staged, "fence": self.staged.fence, "row": row}
        rows = self.client.rows(render("verify/strange", **parts))
        return {unit_of(self.pipeline, start, cluster): count for start, cluster, count in rows}

    def _anomaly(self, unit: Unit, expected: str, seen: str, found: ViewTableShape) -> Anomaly:
        views = ", ".join(dict.fromkeys(view_table.view for view_table in found.view_tables))
        expected = f"{expected} with the values that {views} gives of the lake's"
        return self.anomaly(unit)(AnomalyKind.VALUES, expected, seen)
