"""Prints answers: a table for people, JSON for programs; progress goes to stderr.

No text is markup here, and none of it reaches the terminal as it is: safe_text.py.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from sluice.doctor.check import Check, Level
from sluice.safe_text import Remark, line, visible

_UNBOUNDED = 100_000  # characters of a line, for Rich has no name for it
_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def print_json(value: Any) -> None:
    clear()
    print(json.dumps(value, indent=2, default=str))


def show(*parts: RenderableType, wide: bool = False) -> None:
    """Prints tables and lines. A word that is longer than the terminal is wide is the terminal's to wrap."""
    clear()
    console(wide).print(Group(*parts), crop=False)


def table_of(
    title: str, columns: Sequence[str | TableColumn], rows: Iterable[Sequence[object]]
) -> FittedTable:
    """Columns whose values are numbers are aligned to the right; without ranks the last are hidden first."""
    rows = list(rows)
    named = [
        column if isinstance(column, TableColumn) else TableColumn(column, rank)
        for rank, column in enumerate(columns)
    ]
    return FittedTable(
        line(title),
        [replace(column, name=cell(column.name)) for column in named],
        frozenset(p for p in range(len(named)) if any(isinstance(row[p], int) for row in rows)),
        [[*map(cell, row)] for row in rows],
    )


def cell(value: object) -> str:
    """Returns a value in a table: numbers with their thousands, texts escaped and bounded."""
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def text_of(text: str, style: str = "") -> FlowingLine:
    """Returns a line between tables."""
    return FlowingLine(line(text), style)


def console(wide: bool = False) -> Console:
    """Returns the console, with the terminal's width. Without a terminal, or with --wide, lines are not
    cut."""
    return Console(width=None if sys.stdout.isatty() and not wide else _UNBOUNDED)


def print_line(text: object) -> None:
    clear()
    print(line(str(text)))


def print_verdict(text: str, good: bool) -> None:
    """Prints the line that an answer comes to: on a terminal in green, or in red."""
    show(text_of(text, style="green" if good else "bold red"))


def print_facts(facts: Mapping[str, object]) -> None:
    for name, value in facts.items():
        print_line(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")


def print_checks(checks: Iterable[Check]) -> list[Check]:
    """Prints one line for each check as soon as it is made, then how many there were of each level."""
    console = Console(width=None if sys.stdout.isatty() else _UNBOUNDED, highlight=False)
    printed: list[Check] = []
    for check in checks:
        printed.append(check)
        text = f"{check.finding}; {check.remedy}" if check.remedy else check.finding
        level = Text(f"{check.level:<4} ", style=_STYLES[check.level])
        rest = line(f"{check.area:<10} {check.place}: {text}")
        console.print(level.append(rest, style="none"), soft_wrap=True)
    counts = {level: sum(check.level is level for check in printed) for level in Level}
    console.print(", ".join(f"{count} {level}" for level, count in counts.items()))
    return printed


def progress(text: str) -> None:
    """In one write: shards report side by side, and print() would write the line's end by itself."""
    clear()
    print(f"{line(text)}\n", end="", file=sys.stderr, flush=True)


_CLEARED = "\r\x1b[2K"
_in_place = False


def clear() -> None:
    """Removes the line of `Progress`."""
    global _in_place
    if _in_place:
        _in_place = False
        print(_CLEARED, end="", file=sys.stderr, flush=True)


class Progress:
    """Says on stderr what is being done: on a terminal in one line, which gives way to anything else that is
    printed; elsewhere nothing, since the answer follows. `verbose`: each on a line of its own. A Remark
    stays."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._on_terminal = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        global _in_place
        if self._verbose or isinstance(text, Remark):
            progress(text)
        elif self._on_terminal:
            shown = line(text)
            while cell_len(shown) >= os.get_terminal_size(sys.stderr.fileno()).columns:
                shown = shown[:-1]
            print(f"{_CLEARED}{shown}", end="", file=sys.stderr, flush=True)
            _in_place = True


# Tables and lines that fit the terminal on which they are printed.
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
            table.add_row(*(Text(row[i], style=self.columns[i].style(row[i])) for i in sorted(shown)))
        return table

    def _listed(self) -> Iterable[str]:
        for row in self.rows:
            for index, (column, text) in enumerate(zip(self.columns, row, strict=True)):
                yield f"{'  ' if index else '- '}{column.name}: {text}"


def _as_it_is(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ignore")


# Decides which columns of a table fit a terminal, and how wide each is. Pure.
_BORDERS = 3  # of each column: a space on both sides and a line; the table has one more line


@dataclass(frozen=True)
class TableColumn:
    """A column's name, and its rank: the one with the highest rank is hidden first, rank 0 never. `wraps`:
    its texts may be wrapped at spaces. `style`: Rich's for a text, from the text."""

    name: str
    rank: int
    wraps: bool = True
    style: Callable[[str], str] = lambda text: ""


@dataclass(frozen=True)
class ColumnNeeds:
    """Characters of a terminal that a column takes: all its texts on one line each, or wrapped at spaces."""

    full: int
    least: int
    rank: int

    @classmethod
    def of(cls, texts: Sequence[str], column: TableColumn) -> ColumnNeeds:
        """`texts`: those of its cells."""
        full = max(map(cell_len, texts), default=0)
        parts = (part for text in texts for part in (text.split() if column.wraps else [text]))
        least = max(map(cell_len, (*parts, *column.name.split())), default=0)
        return cls(max(full, cell_len(column.name)), least, column.rank)


def fit(needs: Sequence[ColumnNeeds], width: int) -> dict[int, int] | None:
    """Returns the width of each column that is shown, by its index; no word is cut. None: not even the
    columns of rank 0 fit."""
    shown = list(range(len(needs)))
    while sum(needs[index].least for index in shown) > _room(shown, width):
        last = max(shown, key=lambda index: (needs[index].rank, index), default=None)
        if last is None or needs[last].rank == 0:
            return None
        shown.remove(last)
    return _narrowed({index: needs[index] for index in shown}, _room(shown, width))


def _room(shown: Sequence[int], width: int) -> int:
    """Returns what is left for texts."""
    return width - _BORDERS * len(shown) - 1


def _narrowed(needs: dict[int, ColumnNeeds], room: int) -> dict[int, int]:
    """The widest column that can be wrapped gives way first."""
    widths = {index: need.full for index, need in needs.items()}
    for _ in range(sum(widths.values()) - room):
        widest = max((p for p in widths if widths[p] > needs[p].least), key=lambda index: widths[index])
        widths[widest] -= 1
    return widths


def flowing(text: str, width: int) -> list[str]:
    """Returns the text's lines, wrapped at spaces: a word that is longer than a line has one of its own,
    uncut."""
    if cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
