"""The cast of a value inside a container: what a null there becomes, and whether it fits."""

from __future__ import annotations

from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.judged import MISSING, Cast, Caster, Field, here
from sluice.flow.load.casts.scalars import ENUMS

CONTAINERS = ("Array", "Map", "Tuple", "JSON")
_BY_TOKEN = (*ENUMS, "Variant", "Dynamic")


def element(caster: Caster, kind: Type, field: Field) -> Cast:
    """A null fits where the type has one, or where `field` has or gets a default."""
    if kind.shape.name == "Tuple":
        return caster(kind, field)
    element_cast = caster(kind, field)
    if field.default:
        return _with_default(kind, field, element_cast)
    if kind.nullable or element_cast.container:
        return element_cast
    filled = f"ifNull({element_cast.value}, defaultValueOfTypeName({literal(kind.plain.text)}))"
    if field.filled:
        return Cast(filled, element_cast.misfit, where=element_cast.where)
    where = f"if(isNull({field.x}), {here(MISSING, field.x)}, {element_cast.where})"
    return Cast(filled, f"isNull({element_cast.value})", where=where)


def _with_default(kind: Type, field: Field, element_cast: Cast) -> Cast:
    if kind.nullable:
        null = f"if({field.there}, NULL, {field.default})"
        value = f"if(isNull({field.x}), {null}, {element_cast.value})"
    elif element_cast.container:
        value = f"if(isNull({field.x}), {field.default}, {element_cast.value})"
    else:
        value = f"ifNull({element_cast.value}, {field.default})"
    return Cast(value, element_cast.misfit, where=element_cast.where)


def by_token(kind: Type) -> bool:
    """Returns whether a string and a number of the same text are two values of the type."""
    return kind.plain.name in _BY_TOKEN


def may_lack(kind: Type) -> bool:
    """Returns whether a missing field fits: of an object, where all its fields may be missing."""
    if kind.nullable:
        return True
    parts = kind.shape.named_arguments() if kind.shape.name == "Tuple" else []
    return bool(parts) and all(name and may_lack(part) for name, part in parts)
