"""Prints answers: a table for people, JSON for programs; progress goes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns whose values are numbers are aligned to the right."""
    rows = list(rows)
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        numeric = any(isinstance(row[index], int) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    for name, value in facts.items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
