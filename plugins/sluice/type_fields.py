"""The top-level fields of the events of a type, as a landing saw them: a part of the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
"""JSON kinds of a field's values. A number with a fraction or an exponent is a `number`, not an `integer`."""

MOST_TYPES, MOST_FIELDS, MOST_IN_ALL = 1_000, 1_000, 10_000
"""Types of a manifest, fields of a type, and fields of all types together."""
NAME_CHARACTERS = 200
"""A field with a longer name is one of the others."""


@dataclass(frozen=True, slots=True)
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

    `others`: how often fields were there that are not among `fields`, because their number and their names'
    length are bounded. A field that is there twice in a row counts once, with its last value.
    """

    type: str
    rows: int
    exact: bool
    fields: Mapping[str, FieldSeen]
    others: int = 0

    @cached_property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Returns each field with each kind that it has beside null."""
        return frozenset(
            (name, kind) for name, seen in self.fields.items() for kind in seen.kinds if kind != "null"
        )


def merged(parts: Iterable[TypeFields]) -> tuple[TypeFields, ...]:
    """Adds up what was seen in parts of the rows, by type; any division into parts gives the same."""
    by_type: dict[str, list[TypeFields]] = {}
    for part in parts:
        by_type.setdefault(part.type, []).append(part)
    return tuple(_merged(type_parts) for _, type_parts in sorted(by_type.items()))


def _merged(parts: Sequence[TypeFields]) -> TypeFields:
    if len(parts) == 1:
        return parts[0]
    seen_by_field: dict[str, list[FieldSeen]] = {}
    for part in parts:
        for name, seen in part.fields.items():
            seen_by_field.setdefault(name, []).append(seen)
    return TypeFields(
        type=parts[0].type,
        rows=sum(part.rows for part in parts),
        exact=all(part.exact for part in parts),
        fields={name: _added(seen_by_field[name]) for name in sorted(seen_by_field)},
        others=sum(part.others for part in parts),
    )


def _added(seen: Sequence[FieldSeen]) -> FieldSeen:
    kinds = {kind: sum(part.kinds.get(kind, 0) for part in seen) for kind in KINDS}
    return FieldSeen(
        rows=sum(part.rows for part in seen),
        kinds={kind: rows for kind, rows in kinds.items() if rows},
        places=sum(part.places for part in seen),
    )


def bounded(
    types: Iterable[TypeFields],
    most_types: int = MOST_TYPES,
    most_fields: int = MOST_FIELDS,
    most_in_all: int = MOST_IN_ALL,
) -> tuple[TypeFields, ...]:
    """Returns the types with most rows, and of each the fields in most rows, sorted by name; `most_in_all`
    bounds the fields of all types together, and a type is left out rather than cut by that."""
    ranked = sorted(types, key=lambda type_fields: (-type_fields.rows, type_fields.type))[:most_types]
    kept: list[TypeFields] = []
    for type_fields in (_shortened(type_fields, most_fields) for type_fields in ranked):
        if len(type_fields.fields) <= most_in_all:
            most_in_all -= len(type_fields.fields)
            kept.append(type_fields)
    return tuple(sorted(kept, key=lambda type_fields: type_fields.type))


def _shortened(type_fields: TypeFields, most: int) -> TypeFields:
    ranked = sorted(type_fields.fields.items(), key=lambda item: (-item[1].rows, item[0]))
    others = type_fields.others + sum(seen.rows for _, seen in ranked[most:])
    return replace(type_fields, fields=dict(sorted(ranked[:most])), others=others)
