"""What of a table that a view fills can be compared, as expressions of ClickHouse. Pure.

Floating point numbers are compared bit by bit where the view passes rows on one by one. Where it adds them
up, the sum depends on the order: it is the same within 1e-9 (Float32: 1e-5) of the sum of absolute values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.load.columns import Column
from sluice.load.inspect import FedTable
from sluice.load.sql import Sql, identifier
from sluice.load.types import parse
from sluice.verification.sums import FloatSum, Sums

# Of other tables, dictionaries, the clock and chance nobody knows what they said when the rows came.
_UNSURE = re.compile(
    r"\b(JOIN|IN\s*\(\s*SELECT|dict\w+\(|joinGet\w*\(|now\w*\(|today\(|yesterday\(|rand\w*\(|generate\w+\(|"
    r"currentUser\(|hostName\(|rowNumber\w+\(|LIMIT|file\(|url\(|s3\()",
    re.IGNORECASE,
)
_GROUPED = re.compile(r"\b(GROUP BY|DISTINCT)\b", re.IGNORECASE)
_SUMMED = re.compile(r"(U?Int\d+|Decimal\w*)")
_MERGED = ("count", "sum", "min", "max", "uniqExact")
_TOLERANCES = {"Float64": 1e-9, "Float32": 1e-5}


@dataclass(frozen=True)
class Summing:
    """What is counted and summed of a unit's rows: `exact` expressions, and sums of floats, each as `(sum,
    sum of absolute values)` with its tolerance."""

    exact: tuple[str, ...]
    floats: tuple[tuple[str, float], ...]

    @property
    def parts(self) -> dict[str, Sql]:
        """For verify_view.sql."""
        sums = ", ".join(expression for expression, _ in self.floats)
        return {
            "exact": Sql(f"toString(tuple({', '.join(self.exact)}))" if self.exact else "''"),
            "floats": Sql(f"CAST([{sums}], 'Array(Tuple(Float64, Float64))')"),
        }

    def read(self, exact: str, floats: list[tuple[float, float]]) -> Sums:
        known = zip(floats, self.floats, strict=True)
        return Sums(exact, tuple(FloatSum(*pair, tolerance) for pair, (_, tolerance) in known))


def summing(fed: FedTable, select: str) -> Summing | None:
    """None where the comparison would prove nothing."""
    if _UNSURE.search(select) or "_slice" not in fed.view_columns:
        return None
    keys = {part.strip(" `") for part in fed.sorting_key.split(",")}
    engine = fed.engine.removeprefix("Replicated")
    one_by_one = engine == "MergeTree" and not _GROUPED.search(select)
    exact, floats = ["count()"] if one_by_one else [], []
    if engine in ("MergeTree", "SummingMergeTree", "AggregatingMergeTree"):
        for column in fed.columns:
            if not column.filled or column.name in keys or column.name not in fed.view_columns:
                continue
            if one_by_one and parse(column.type).plain.name in _TOLERANCES:
                exact.append(_bits(column))
            elif found := _float_sum(column):
                floats.append(found)
            elif part := _sum(column):
                exact.append(part)
    return Summing(tuple(exact), tuple(floats)) if exact or floats else None


def _bits(column: Column) -> str:
    """The same for the same values in any order. The view's SELECT may give another type than the table's."""
    return f"sumWithOverflow(cityHash64(CAST({identifier(column.name)} AS {column.type})))"


def _float_sum(column: Column) -> tuple[str, float] | None:
    """`sum` and `scale` of a column that adds floats up, with their tolerance; None for any other column."""
    kind, name = parse(column.type), identifier(column.name)
    total, values = f"sum({name})", name
    if kind.name in ("AggregateFunction", "SimpleAggregateFunction"):
        if kind.arguments[0] != "sum":
            return None
        if kind.name == "AggregateFunction":
            total, values = f"sumMerge({name})", f"finalizeAggregation({name})"
        kind = kind.argument(1)
    tolerance = _TOLERANCES.get(kind.plain.name)
    return tolerance and (f"(ifNull({total}, 0), ifNull(sum(abs({values})), 0))", tolerance)


def _sum(column: Column) -> str:
    """What has to be the same to the last digit of a column; empty where nothing has."""
    kind, name = parse(column.type), identifier(column.name)
    if _SUMMED.fullmatch(kind.plain.name):
        return f"sum({name})"
    if kind.name == "AggregateFunction" and kind.arguments[0] in _MERGED:
        return f"{kind.arguments[0]}Merge({name})"
    if kind.name == "SimpleAggregateFunction" and kind.arguments[0] in ("sum", "min", "max"):
        return f"{kind.arguments[0]}({name})"
    return ""
