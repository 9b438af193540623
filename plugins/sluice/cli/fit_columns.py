"""Decides which columns of a table fit a terminal, and how wide each is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

_BORDERS = 3  # of each column: a space on both sides and a line; the table has one more line


@dataclass(frozen=True)
class TableColumn:
    """A column's name, and its rank: the one with the highest rank is hidden first, rank 0 never. `wraps`:
    its texts may be wrapped at spaces."""

    name: str
    rank: int
    wraps: bool = True


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
