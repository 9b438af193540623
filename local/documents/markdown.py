"""Markdown's tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """One line a row, without a line's end behind the last."""
    return "\n".join(_lines(columns, rows))


def _lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _line(columns)
    yield _line(["---"] * len(columns))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    """Raises ValueError for a cell that would end early: readers of Markdown escape a bar differently."""
    if any("|" in cell for cell in cells):
        raise ValueError(f"expected cells without a bar: {cells}")
    return f"| {' | '.join(cells)} |"


def code(text: str) -> str:
    return f"`{text}`"
