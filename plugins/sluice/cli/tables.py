"""Tables and lines that fit the terminal on which they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from sluice.cli.fit_columns import ColumnNeeds, TableColumn, fit, flowing


@dataclass(frozen=True)
class FlowingLine:
    """A line that is wrapped at spaces only."""

    text: str
    style: str = ""

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield _as_it_is("\n".join(flowing(self.text, options.max_width)), self.style)


@dataclass(frozen=True)
class FittedTable:
    """A table of texts: columns that do not fit are hidden by rank, and a line names them. Where even those
    of rank 0 do not fit, each row is a list of all its values.

    `right`: the indexes of the columns that are aligned to the right.
    """

    title: str
    columns: Sequence[TableColumn]
    right: frozenset[int]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield FlowingLine(self.title, "table.title")
        shown = fit(self._needs(), options.max_width)
        if shown is None:
            yield from (_as_it_is(line) for line in self._listed())
            return
        yield self._table(shown)
        if hidden := [column.name for index, column in enumerate(self.columns) if index not in shown]:
            yield FlowingLine(f"hidden: {', '.join(hidden)}; --wide or a wider terminal shows them", "dim")

    def _needs(self) -> list[ColumnNeeds]:
        """A column without any value is hidden first."""
        needs = []
        for index, column in enumerate(self.columns):
            texts = [row[index] for row in self.rows]
            unused = column.rank and self.rows and not any(texts)
            rank = column.rank + (len(self.columns) if unused else 0)
            needs.append(ColumnNeeds.of(texts, replace(column, rank=rank)))
        return needs

    def _table(self, shown: dict[int, int]) -> Table:
        table = Table()
        for index, width in sorted(shown.items()):
            name, right = Text(self.columns[index].name), index in self.right
            table.add_column(name, justify="right" if right else "left", width=width)
        for row in self.rows:
            table.add_row(*(Text(row[index]) for index in sorted(shown)))
        return table

    def _listed(self) -> Iterable[str]:
        for row in self.rows:
            for index, (column, text) in enumerate(zip(self.columns, row, strict=True)):
                yield f"{'  ' if index else '- '}{column.name}: {text}"


def _as_it_is(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ignore")
