"""Prints answers: a table for people, JSON for programs; progress goes to stderr.

No text is markup here, and none of it reaches the terminal as it is: safe_text.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sluice.doctor.check import Check, Level
from sluice.safe_text import line, visible

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns whose values are numbers are aligned to the right."""
    console().print(table_of(title, columns, rows))


def table_of(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    rows = list(rows)
    table = Table(title=text_of(title, "table.title"), title_justify="left")
    for index, column in enumerate(columns):
        numeric = any(isinstance(row[index], int) for row in rows)
        table.add_column(cell(column), justify="right" if numeric else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def cell(value: object) -> Text:
    """A value in a table: numbers with their thousands, texts escaped and bounded."""
    return Text(f"{value:,}" if isinstance(value, int) else visible(str(value)))


def text_of(text: str, style: str = "") -> Text:
    """A line between tables."""
    return Text(line(text), style=style)


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


def print_line(text: object) -> None:
    print(line(str(text)))


def print_facts(facts: Mapping[str, object]) -> None:
    for name, value in facts.items():
        print_line(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")


def print_checks(checks: Iterable[Check]) -> list[Check]:
    """One line for each check as soon as it is made, then how many there were of each level."""
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    found: list[Check] = []
    for check in checks:
        found.append(check)
        told = f"{check.found}; {check.remedy}" if check.remedy else check.found
        level = Text(f"{check.level:<4} ", style=_STYLES[check.level])
        rest = line(f"{check.area:<10} {check.place}: {told}")
        console.print(level.append(rest, style="none"), soft_wrap=True)
    counts = {level: sum(check.level is level for check in found) for level in Level}
    console.print(", ".join(f"{count} {level}" for level, count in counts.items()))
    return found


def progress(text: str) -> None:
    """In one write: shards report side by side, and print() would write the line's end by itself."""
    print(f"{line(text)}\n", end="", file=sys.stderr, flush=True)
