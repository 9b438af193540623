"""What of a table that a view fills can be compared, as expressions of ClickHouse. Pure.

Floating point numbers are compared bit by bit where the view passes rows on one by one. Where it adds them
up, the sum depends on the order: it is the same within 1e-9 (Float32: 1e-5) of the sum of absolute values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql, identifier
from sluice.clients.clickhouse.tables import Column, ViewTable, staged_engine
from sluice.clients.clickhouse.types import parse
from sluice.flow.verify.view_shape import KEY, ViewShape

_NUMBER = re.compile(r"(U?Int\d+|Float(32|64)|Decimal\w*)")
_ARGUMENTS = re.compile(r"\w+MergeTree\((?P<list>.*?)\) (?=PARTITION BY|PRIMARY KEY|ORDER BY)", re.DOTALL)
_PARTITION = re.compile(r" PARTITION BY (?P<key>.*?) (?=PRIMARY KEY|ORDER BY)", re.DOTALL)
_WORD = re.compile(r"`(?:\\.|[^`\\])*`|\w+")
TOLERANCES = {"Float64": 1e-9, "Float32": 1e-5}
STATES = re.compile(r"(count|sum|min|max|uniq|uniqExact)(If)?")


@dataclass(frozen=True)
class Summing:
    """What is counted and summed of a unit's rows: `exact` expressions, and sums of floats, each as `(sum,
    sum of absolute values)` with its tolerance."""

    exact: tuple[str, ...]
    floats: tuple[tuple[str, float], ...]

    @property
    def parts(self) -> dict[str, Sql]:
        """Returns the parts of verify/view.sql."""
        sums = ", ".join(expression for expression, _ in self.floats)
        return {
            "exact": Sql(f"toString(tuple({', '.join(self.exact)}))" if self.exact else "''"),
            "floats": Sql(f"CAST([{sums}], 'Array(Tuple(Float64, Float64))')"),
        }

    def read(self, exact: str, floats: list[tuple[float, float]]) -> ViewSums:
        pairs = zip(floats, self.floats, strict=True)
        return ViewSums(exact, tuple(FloatSum(*pair, tolerance) for pair, (_, tolerance) in pairs))


def summing(view_table: ViewTable, shape: ViewShape) -> Summing | None:
    """Returns None where the comparison would prove nothing. `shape`: that of the view."""
    one_by_one = view_table.engine.removeprefix("Replicated") == "MergeTree" and shape.one_by_one
    exact, floats = ["count()"] if one_by_one else [], []
    for column in view_table.columns:
        if not column.filled or column.name not in view_table.view_columns or column.name in shape.unsure:
            continue
        if one_by_one:
            exact += _apart(column)
        elif function := merged_by(view_table, shape, column):
            exact += _exact(column, function)
            floats += _float_sum(column, function)
    return Summing(tuple(exact), tuple(floats)) if exact or floats else None


def merged_by(view_table: ViewTable, shape: ViewShape, column: Column) -> str:
    """Returns the function that puts the column's values of one key together, in merges and as its view gives
    them; empty where no function is certain to."""
    engine, kind = view_table.engine.removeprefix("Replicated"), parse(column.type)
    role = shape.columns.get(column.name, KEY)
    if engine == "MergeTree":
        return role
    if engine == "SummingMergeTree":
        return "sum" if column.name in added_up(view_table) and (shape.one_by_one or role == "sum") else ""
    if engine != "AggregatingMergeTree" or column.name in named(view_table.sorting_key, [column.name]):
        return ""
    merged = ""
    if kind.name == "AggregateFunction" and STATES.fullmatch(kind.arguments[0]):
        merged = f"{kind.arguments[0]}Merge"
    elif kind.name == "SimpleAggregateFunction" and kind.arguments[0] in ("sum", "min", "max"):
        merged = kind.arguments[0]
    fits = role == merged or (role == KEY and (shape.one_by_one or merged in ("min", "max")))
    return merged if fits else ""


def added_up(view_table: ViewTable) -> frozenset[str]:
    """Returns the columns that a SummingMergeTree adds up: those that it names, else all numbers out of its
    keys."""
    partition = _PARTITION.search(view_table.engine_full)
    keys = f"{view_table.sorting_key}, {partition['key'] if partition else ''}"
    listed = arguments(view_table)
    numbers = [c.name for c in view_table.columns if _NUMBER.fullmatch(parse(c.type).plain.name)]
    apart = named(keys, numbers)
    return frozenset(name for name in numbers if (name in listed if listed else name not in apart))


def arguments(view_table: ViewTable) -> list[str]:
    """Returns the engine's own, without a replicated one's path and replica."""
    found = _ARGUMENTS.match(staged_engine(view_table))
    words = _WORD.findall(found["list"]) if found else []
    return [word[1:-1] if word.startswith("`") else word for word in words]


def named(expression: str, names: Sequence[str]) -> list[str]:
    """Returns those of the columns that an expression names."""
    return [name for name in names if re.search(rf"(?<![\w`])`?{re.escape(name)}`?(?![\w`])", expression)]


def _apart(column: Column) -> list[str]:
    """Returns sums in which order plays no part. The SELECT may give another type than the table has."""
    kind, value = parse(column.type).plain.name, f"CAST({identifier(column.name)} AS {column.type})"
    if kind in TOLERANCES:
        return [f"sumWithOverflow(cityHash64({value}))"]
    return [f"sum({value})"] if _NUMBER.fullmatch(kind) else []


def _float_sum(column: Column, function: str) -> list[tuple[str, float]]:
    """`sum` and `scale` of a column that adds floats up, with their tolerance."""
    kind, name = parse(column.type), identifier(column.name)
    merges, states = kind.name == "AggregateFunction", kind.name.endswith("AggregateFunction")
    plain = (kind.argument(1) if states and len(kind.arguments) > 1 else kind).plain.name
    if function not in ("sum", "sumMerge") or plain not in TOLERANCES:
        return []
    total, values = (
        (f"sumMerge({name})", f"finalizeAggregation({name})") if merges else (f"sum({name})", name)
    )
    return [(f"(ifNull({total}, 0), ifNull(sum(abs({values})), 0))", TOLERANCES[plain])]


def _exact(column: Column, function: str) -> list[str]:
    """Returns what has to be the same to the last digit; nothing of a key, and of what adds floats up."""
    kind, name = parse(column.type), identifier(column.name)
    inner = kind.argument(1) if kind.name == "AggregateFunction" and len(kind.arguments) > 1 else kind
    inner = inner.argument(1) if inner.name == "SimpleAggregateFunction" else inner
    if function == KEY or (function.startswith("sum") and inner.plain.name in TOLERANCES):
        return []
    same = function != "sum" or _NUMBER.fullmatch(inner.plain.name)
    return [f"{function}({name})"] if same else []


@dataclass(frozen=True)
class FloatSum:
    """A sum of floating point numbers depends on the order in which they are added: ClickHouse keeps none.

    `scale` is the sum of their absolute values: two sums are the same within `tolerance` of it.
    """

    value: float
    scale: float
    tolerance: float

    def agrees(self, other: FloatSum) -> bool:
        if not (math.isfinite(self.value) and math.isfinite(other.value)):
            return self.value == other.value or (math.isnan(self.value) and math.isnan(other.value))
        return abs(self.value - other.value) <= self.tolerance * max(self.scale, other.scale)


@dataclass(frozen=True)
class ViewSums:
    """`exact` is the text of what has to be the same to the last digit."""

    exact: str
    floats: tuple[FloatSum, ...] = ()

    def agrees(self, other: ViewSums) -> bool:
        pairs = zip(self.floats, other.floats, strict=True)
        return self.exact == other.exact and all(mine.agrees(theirs) for mine, theirs in pairs)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.exact, *(repr(number.value) for number in self.floats))))
