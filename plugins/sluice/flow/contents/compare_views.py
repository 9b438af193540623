"""Tables of materialized views against what the views give of the rows that a load of the lake gives now.

Copies of the views, such as a load has, write what they give into tables that keep every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import Sql, identifier, listed, own_prefix, render, table
from sluice.clients.clickhouse.tables import Column, ViewTable
from sluice.clients.clickhouse.types import Type, parse
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.comparable_columns import Comparison, compare, value
from sluice.flow.contents.staged_load import Staged
from sluice.flow.contents.sums import ALL_ROWS, RowSums, columns_that_differ, sums_of, units_that_differ
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.read_view_shapes import ViewTableShape, view_table_shapes
from sluice.flow.verify.view_shape import KEY, ViewShape
from sluice.flow.verify.view_sums import TOLERANCES, FloatSum, ViewSums, added_up, arguments, merged_by, named
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


# How the rows of a view's table are compared where merges, or the blocks in which rows came, decide how many
# there are: put together by their key, as a merge would, on both sides. Pure.
#
# Floating point sums are linear: of each unit their sum is taken, weighted by a hash of the key, so that it
# is the same however the rows were merged, and another one where a value stands at another key.
_MERGES = "merges keep any of its values"


@dataclass
class Merging:
    """`key` and `values` are expressions; `present` is the condition on what is put together; each of
    `floats` is a number and its tolerance. `members`: every row has one of the view's, in these columns."""

    key: tuple[str, ...] = ()
    values: list[str] = field(default_factory=list)
    present: str = "1"
    floats: list[tuple[str, float]] = field(default_factory=list)
    members: tuple[str, ...] = ()
    left_out: list[tuple[str, str]] = field(default_factory=list)
    why: str = ""

    def parts(self, own: str) -> dict[str, Sql]:
        """Returns the parts of verify/merged.sql; `own`: what no column's name begins with."""
        weight = f"(1 + cityHash64({own}key) % 1000003 / 1000003)"
        numbers = [f"ifNull(sum({number}), 0) * {weight}" for number, _ in self.floats]
        scales = [f"ifNull(sum(abs({number})), 0) * {weight}" for number, _ in self.floats]
        return {
            "own": Sql(own),
            "key": Sql(f"tuple({listed([*self.key, '0'])})"),
            "values": Sql(f"tuple({listed([*self.values, '0'])})"),
            "present": Sql(self.present),
            "numbers": listed(numbers),
            "scales": listed(scales),
        }

    @property
    def nothing(self) -> ViewSums:
        """Returns the sums of a unit without rows."""
        return ViewSums("0 0 0", tuple(FloatSum(0.0, 0.0, tolerance) for _, tolerance in self.floats))

    def read(self, exact: str, numbers: Sequence[float], scales: Sequence[float]) -> ViewSums:
        """Returns what verify/merged.sql gives of a unit."""
        triples = zip(numbers, scales, (tolerance for _, tolerance in self.floats), strict=True)
        return ViewSums(exact, tuple(FloatSum(*triple) for triple in triples))


def merging(view_table: ViewTable, shape: ViewShape, columns: Sequence[Column]) -> Merging:
    """`columns` are those that can be compared at all, as far as their values are certain."""
    engine = view_table.engine.removeprefix("Replicated")
    if shape.why:
        return Merging(why=shape.why)
    if engine == "MergeTree":
        return _kept_apart(shape, columns)
    columns_by_name = {column.name: column for column in columns}
    keys = named(view_table.sorting_key, [column.name for column in view_table.columns])
    unsure = [n for n in keys if n not in columns_by_name or shape.columns.get(n, KEY) != KEY]
    if unsure or " DESC" in view_table.sorting_key:
        return Merging(why=f"its sorting key is not certain ({', '.join(unsure) or view_table.sorting_key})")
    rule = Merging(key=(view_table.sorting_key,))
    others = [column for column in columns if column.name not in keys]
    if engine == "SummingMergeTree":
        return _summed(rule, view_table, shape, others)
    if engine == "AggregatingMergeTree":
        return _aggregated(rule, view_table, shape, others)
    if engine == "ReplacingMergeTree":
        return _replaced(rule, view_table, shape, columns)
    return Merging(why=f"rows of a {engine} cannot be told apart from those that merges have removed")


def _kept_apart(shape: ViewShape, columns: Sequence[Column]) -> Merging:
    """Rows that a GROUP BY gives of each block, or a DISTINCT, or a join as often as the other table says."""
    roles = {column.name: shape.columns.get(column.name, KEY) for column in columns}
    rule = Merging(key=tuple(value(column) for column in columns if roles[column.name] == KEY))
    for column in columns:
        if roles[column.name] != KEY:
            _put(rule, column, roles[column.name], parse(column.type))
    return rule


def _summed(rule: Merging, view_table: ViewTable, shape: ViewShape, columns: Sequence[Column]) -> Merging:
    """A row whose sums are all 0 may be gone. Sums wrap around as merges let them."""
    for column in columns:
        if merged_by(view_table, shape, column):
            _put(rule, column, "sum", parse(column.type))
        else:
            why = "it is no sum, and merges add it up" if column.name in added_up(view_table) else _MERGES
            rule.left_out.append((column.name, why))
    rule.present = " OR ".join(f"ifNull({expression} != 0, 0)" for expression in rule.values) or "0"
    return rule


def _aggregated(rule: Merging, view_table: ViewTable, shape: ViewShape, columns: Sequence[Column]) -> Merging:
    for column in columns:
        if function := merged_by(view_table, shape, column):
            _put(rule, column, function, parse(column.type))
        else:
            rule.left_out.append((column.name, _MERGES))
    return rule


def _replaced(rule: Merging, view_table: ViewTable, shape: ViewShape, columns: Sequence[Column]) -> Merging:
    """Compares by keys: which row of a key stays is not certain, only that the view gave it, of the newest
    version."""
    engine_arguments = arguments(view_table)
    if len(engine_arguments) > 1:
        return Merging(why="rows that are marked as deleted may be gone")
    for column in columns:
        role = shape.columns.get(column.name, KEY)
        if column.name in engine_arguments and role in (KEY, "max"):
            rule.values.append(f"max({identifier(column.name)})")
        elif role != KEY:
            rule.left_out.append((column.name, _MERGES))
    rule.members = tuple(value(c) for c in columns if shape.columns.get(c.name, KEY) == KEY)
    return rule


def _put(rule: Merging, column: Column, function: str, kind: Type) -> None:
    """Adds what a column's values of one key are together, by the function that puts them together."""
    name = identifier(column.name)
    inner = kind.argument(1) if kind.name.endswith("AggregateFunction") and len(kind.arguments) > 1 else kind
    merges = function.endswith("Merge")
    if function in ("sum", "sumMerge", "sumIfMerge") and inner.plain.name in TOLERANCES:
        number = f"finalizeAggregation({name})" if merges else name
        rule.floats.append((number, TOLERANCES[inner.plain.name]))
    elif function == "sum":
        rule.values.append(f"sumWithOverflow({name})")
    elif inner.plain.name in TOLERANCES:  # 0.0 and -0.0 are the same maximum
        rule.values.append(f"{function}({name}) + 0")
    else:
        rule.values.append(f"{function}({name})")


def certain(columns: Sequence[Column], shape: ViewShape) -> tuple[list[Column], Mapping[str, str]]:
    """Returns the columns whose values are certain, and of the others why not."""
    names = {column.name for column in columns}
    unsure = {name: why for name, why in shape.unsure.items() if name in names}
    return [column for column in columns if column.name not in unsure], unsure
