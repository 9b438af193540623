"""The fields of a unit's types, out of what its tasks have seen. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from sluice.flow.land.task.field_tally import keeps
from sluice.flow.land.task.reports import SeenFields
from sluice.type_fields import TypeFields, bounded, merged


def unit_fields(parts: Sequence[SeenFields], configured: Collection[str]) -> tuple[TypeFields, ...]:
    """Merges the `parts` of one unit. Where a task kept fewer fields, only those are complete, and kept."""
    thinned = max((part.thinned for part in parts), default=0)
    types = [
        _thinned(type_fields, thinned)
        for part in parts
        for type_fields in part.types
        if type_fields.type in configured or keeps(thinned, type_fields.type)
    ]
    return bounded(merged(types))


def _thinned(type_fields: TypeFields, thinned: int) -> TypeFields:
    kept = {name: seen for name, seen in type_fields.fields.items() if keeps(thinned, type_fields.type, name)}
    left = sum(seen.rows for name, seen in type_fields.fields.items() if name not in kept)
    return replace(type_fields, fields=kept, others=type_fields.others + left) if left else type_fields
