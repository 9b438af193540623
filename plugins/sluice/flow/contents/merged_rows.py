"""How the rows of a view's table are compared where merges, or the blocks in which rows came, decide how many
there are: put together by their key, as a merge would, on both sides. Pure.

Floating point sums are linear: of each unit their sum is taken, weighted by a hash of the key, so that it
is the same however the rows were merged, and another one where a value stands at another key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.sql import Sql, identifier, listed
from sluice.clients.clickhouse.tables import Column, ViewTable
from sluice.clients.clickhouse.types import Type, parse
from sluice.flow.contents.comparable_columns import value
from sluice.flow.verify.view_shape import KEY, ViewShape
from sluice.flow.verify.view_sums import TOLERANCES, FloatSum, ViewSums, added_up, arguments, merged_by, named

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
