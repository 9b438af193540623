"""Columns that a table has got since hours of it were loaded: the hours' rows have their DEFAULT.

Other values may be those of a column that was renamed, where the table lacks one that the hours' rules fill:
nobody takes these away. Else somebody has changed them, and a repair puts the DEFAULT back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, identifier, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import TargetRefused
from sluice.field_path import path_of
from sluice.safe_text import visible
from sluice.slices import Slice, SliceRange
from sluice.state.rules import TableRules


@dataclass(frozen=True)
class LaterValues:
    """How many rows have values that no rules explain, by the column that came later. `target` is the
    pipeline file's; `lacking`: columns that the `rules` fill and the table lacks."""

    pipeline: Pipeline
    target: Target
    rules: TableRules
    lacking: tuple[str, ...]
    rows: Mapping[str, int]

    def refusal(self, slices: Collection[Slice]) -> TargetRefused:
        """Returns why the slices are not loaded by their rules."""
        (column, rows), *_ = self.rows.items()
        return TargetRefused(
            self.target.table,
            f"column {visible(column)} came after these hours were loaded, and {rows:,} of their rows have "
            "values there that no rule says where from",
            self.remedy(slices),
        )

    def remedy(self, slices: Collection[Slice]) -> str:
        if self._named:
            return f"the pipeline file says it now: `{self._reload(slices)}`"
        back = "was it renamed? Rename it back, or name its field under `columns`; then"
        return f"{back} `{self._reload(slices)}`"

    def command(self, slices: Collection[Slice]) -> str:
        """Returns what loads the slices again as the file is; empty where that would take values away."""
        return self._reload(slices) if self._named else ""

    @property
    def _named(self) -> bool:
        """Whether the file fills the columns from the fields of those that are gone."""
        fields = {path_of(name, self.rules.columns) for name in self.lacking}
        return all(path_of(name, self.target.columns) in fields for name in self.rows)

    def _reload(self, slices: Collection[Slice]) -> str:
        first, last = min(slices), max(slices)
        words = SliceRange(first.start, last.end, first.length).words
        return self.pipeline.command("run", *words, "--mode", "reload", "--table", self.target.table)


def later_columns(target_table: TargetTable, rules: TableRules) -> frozenset[str]:
    """Returns the columns that the table has got since a load by the rules."""
    taken = frozenset(column.name for column in target_table.columns if column.taken)
    return taken - frozenset(rules.filled)


def later_values(
    client: Client,
    pipeline: Pipeline,
    target: Target,
    target_table: TargetTable,
    rules: TableRules,
    slices: Collection[Slice],
) -> LaterValues | None:
    """Returns what rows of the slices have in later columns other than the DEFAULT; None where they have
    nothing. Raises what the client raises."""
    starts = sorted({int(one.start.timestamp()) for one in slices})
    later = later_columns(target_table, rules)
    rows_by_column: dict[str, int] = {}
    for column in target_table.columns if starts else ():
        if column.name not in later or not column.filled:
            continue
        default = column.default or f"defaultValueOfTypeName({literal(column.type)})"
        sql = render(
            "load/count_given",
            target=table(target_table.table),
            column=identifier(column.name),
            default=Sql(f"CAST({default}, {literal(column.type)})"),
        )
        [(rows,)] = client.rows(sql, {"starts": starts})
        if rows:
            rows_by_column[column.name] = rows
    names = {column.name for column in target_table.columns}
    lacking = tuple(name for name in rules.filled if name not in names)
    return LaterValues(pipeline, target, rules, lacking, rows_by_column) if rows_by_column else None
