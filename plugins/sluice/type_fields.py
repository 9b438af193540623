"""The top-level fields of the events of a type, as a landing saw them: a part of the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
"""JSON kinds of a field's values. A number with a fraction or an exponent is a `number`, not an `integer`."""


@dataclass(frozen=True)
class FieldSeen:
    """In how many rows the field was, nulls included. Counts by kind add up to `rows`.

    `places`: the sum of its places among the row's fields, counted from 0.
    """

    rows: int
    kinds: Mapping[str, int]
    places: int = 0

    @property
    def filled(self) -> int:
        """Rows in which it is not null."""
        return self.rows - self.kinds.get("null", 0)


@dataclass(frozen=True)
class TypeFields:
    """Of `rows` rows that were inspected; `exact`: these are all rows of the type that the unit landed.

    `others`: rows with a field that is not among `fields`, because their number or its name's length is
    bounded. A field that is there twice in a row counts once, with its last value.
    """

    type: str
    rows: int
    exact: bool
    fields: Mapping[str, FieldSeen]
    others: int = 0
