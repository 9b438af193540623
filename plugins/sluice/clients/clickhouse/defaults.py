"""DEFAULT expressions that a load writes itself (tables.py)."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.clients.clickhouse.sql import identifier, listed, literal


def blank(kind: str) -> str:
    """Returns the type's default value, as no constant: of constants the server computes at once what other
    DEFAULTs make of them, and where that fails refuses the table."""
    return f"materialize(defaultValueOfTypeName({literal(kind)}))"


def where(condition: str, value: str, reads: Sequence[str], otherwise: str) -> str:
    """`value`, which reads these columns, where the condition (0 or 1) holds.

    In a DEFAULT the server evaluates both branches of if() for all rows, but a lambda for items that are
    there only. So the columns are arrays of one item or none, under their own names.
    """
    if reads:
        names = [identifier(name) for name in reads]
        items = listed(f"arrayResize([{name}], {condition})" for name in names)
        value = f"arrayElement(arrayMap(({listed(names)}) -> {value}, {items}), 1)"
    return f"if({condition}, {value}, {otherwise})"
