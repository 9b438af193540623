"""Tables of materialized views against what the views give of the rows that a load of the lake gives now.

Copies of the views, such as a load has, write what they give into tables that keep every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.own_names import own_prefix
from sluice.clients.clickhouse.sql import Sql, listed, render, table
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.comparable_columns import Comparison, compare
from sluice.flow.contents.merged_rows import Merging, certain, merging
from sluice.flow.contents.staged_load import Staged
from sluice.flow.contents.sums import ALL_ROWS, RowSums, columns_that_differ, sums_of, units_that_differ
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.read_view_shapes import ViewTableShape, view_table_shapes
from sluice.flow.verify.view_sums import ViewSums as Merged
from sluice.slices import Unit
from sluice.state.ledger import unit_of

_OFTEN = "how often a row is there is not compared: blocks of rows, or another table, decide"


@dataclass
class ViewContents:
    """The views' tables of one target on one server. `anomaly` returns what makes a unit's anomalies.

    `uncompared` are a unit and a table each, which are compared when the unit is loaded again."""

    client: Client
    pipeline: Pipeline
    staged: Staged
    anomaly: Callable[[Unit], Callable[..., Anomaly]]
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    uncompared: list[tuple[Unit, str]] = field(default_factory=list)

    def check(self, units: Sequence[Unit], derived: bool) -> None:
        """Finds the anomalies, and a line for each table, column and unit that is not compared.

        `derived`: a SELECT gave the target's rows. Raises what the client raises.
        """
        for table_shape in view_table_shapes(self.client, self.staged.target_table, derived).values():
            if not table_shape.view_tables[0].stores:
                continue
            covered = table_shape.covered(self.client, self.pipeline, self.staged.target_table)
            older = [unit for unit in units if unit not in covered]
            if older:
                self._note_older(table_shape.called, older)
            if len(older) < len(units):
                self.anomalies += [
                    replace(a, table=table_shape.called) for a in self._table(table_shape, covered)
                ]
        for called in self._later_tables():
            self._note_older(called, units)

    def _later_tables(self) -> list[str]:
        """Returns the tables that no view of the units' rules writes to, but a view of now does."""
        target = self.staged.target
        now = read_table(self.client, target.database, target.name)
        view_tables = () if now is None else now.stored
        later = [one.called for one in view_tables if one.table not in self.staged.view_tables]
        return list(dict.fromkeys(later))

    def _note_older(self, called: str, units: Sequence[Unit]) -> None:
        self.uncompared += [(unit, called) for unit in units]
        self.notes.append(
            f"table {called}: {len(units):,} slices are not compared: they were loaded before its views "
            "last changed"
        )

    def leave_out(self, units: Sequence[Unit], rollup: str) -> None:
        """Says of each table that it is not compared, because the rows of its source are others by now."""
        for view_table in self.staged.target_table.stored:
            self.notes.append(f"table {view_table.called} is not compared: {rollup} differs")
            self.uncompared += [(unit, view_table.called) for unit in units]

    def _note(self, table_shape: ViewTableShape, why: str, column: str = "") -> None:
        what = f": column {column} is not compared" if column else " is not compared"
        self.notes.append(f"table {table_shape.called}{what}: {why}")

    def _table(self, table_shape: ViewTableShape, covered: frozenset[Unit]) -> Iterator[Anomaly]:
        view_table, shape = table_shape.view_tables[0], table_shape.shape
        comparison = compare(self.client, view_table, derived=False)
        columns, unsure = certain(comparison.columns, shape)
        plain = view_table.engine.removeprefix("Replicated") == "MergeTree"
        if plain and shape.one_by_one and not shape.why:
            left_out = [*comparison.left_out, *unsure.items()]
            yield from self._apart(table_shape, replace(comparison, columns=tuple(columns)), covered)
        else:
            rule = merging(view_table, shape, columns)
            if comparison.kept != "1" and not rule.why:
                rule = Merging(why="its TTL deletes rows, and merges put them together before")
            if rule.why:
                self._note(table_shape, rule.why)
                return
            left_out = [*comparison.left_out, *unsure.items(), *rule.left_out]
            if plain and not any(role == "sum" for role in shape.columns.values()):
                self.notes.append(f"table {table_shape.called}: {_OFTEN}")
            yield from self._merged(table_shape, rule, covered)
        for name, why in left_out:
            self._note(table_shape, why, name)

    def _apart(
        self, table_shape: ViewTableShape, comparison: Comparison, covered: frozenset[Unit]
    ) -> Iterator[Anomaly]:
        """Compares row by row, with all values."""

        def sums(name: Sql, by_column: bool) -> Mapping[Unit, RowSums]:
            shared = (self.client, self.pipeline, self.staged)
            return sums_of(*shared, name, comparison, ALL_ROWS, by_column)

        stored, staged = table(table_shape.table), self.staged.view_tables[table_shape.table]
        table_sums, view_sums = sums(stored, False), sums(staged, False)
        wrong = [unit for unit in units_that_differ(table_sums, view_sums) if unit in covered]
        if wrong:
            table_sums, view_sums = sums(stored, True), sums(staged, True)
        for unit in wrong:
            mine, theirs = table_sums.get(unit, RowSums()), view_sums.get(unit, RowSums())
            named = ""
            if mine.rows == theirs.rows:
                named = f", other values in {', '.join(columns_that_differ(comparison, mine, theirs))}"
            yield self._anomaly(unit, f"{theirs.rows:,} rows", f"{mine.rows:,} rows{named}", table_shape)

    def _merged(
        self, table_shape: ViewTableShape, rule: Merging, covered: frozenset[Unit]
    ) -> Iterator[Anomaly]:
        own = own_prefix([column.name for column in table_shape.view_tables[0].columns])
        table_sums = self._together(rule, table(table_shape.table), own)
        view_sums = self._together(rule, self.staged.view_tables[table_shape.table], own)
        strange = self._strange(table_shape, rule)
        for unit in sorted({*table_sums, *view_sums, *strange} & covered):
            mine, theirs = table_sums.get(unit, rule.nothing), view_sums.get(unit, rule.nothing)
            rows, seen = theirs.exact.split()[0], mine.exact.split()[0]
            expected = f"{int(rows):,} rows, put together by their key,"
            if not mine.agrees(theirs):
                other = ", with other values" if rows == seen else ""
                yield self._anomaly(unit, expected, f"{int(seen):,}{other}", table_shape)
            elif unit in strange:
                yield self._anomaly(unit, expected, f"{strange[unit]:,} that no view gives", table_shape)

    def _together(self, rule: Merging, name: Sql, own: str) -> dict[Unit, Merged]:
        sql = render("verify/merged", table=name, fence=self.staged.fence, **rule.parts(own))
        return {
            unit_of(self.pipeline, start, cluster): rule.read(*sums)
            for start, cluster, *sums in self.client.rows(sql)
        }

    def _strange(self, table_shape: ViewTableShape, rule: Merging) -> dict[Unit, int]:
        """Returns how many rows are none of those that the views gave."""
        if not rule.members:
            return {}
        row = Sql(f"tuple({listed([*rule.members, '0'])})")
        staged = self.staged.view_tables[table_shape.table]
        parts = {"table": table(table_shape.table), "staged": staged, "fence": self.staged.fence, "row": row}
        rows = self.client.rows(render("verify/strange", **parts))
        return {unit_of(self.pipeline, start, cluster): count for start, cluster, count in rows}

    def _anomaly(self, unit: Unit, expected: str, seen: str, table_shape: ViewTableShape) -> Anomaly:
        views = ", ".join(dict.fromkeys(view_table.view for view_table in table_shape.view_tables))
        expected = f"{expected} with the values that {views} gives of the lake's"
        return self.anomaly(unit)(AnomalyKind.VALUES, expected, seen)
