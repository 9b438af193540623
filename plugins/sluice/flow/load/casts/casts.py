"""From a field's text to a column's type, strictly: a value fits exactly, or it is a misfit.

Every function takes `x`, an expression of type Nullable(String): the field as JSONExtract gives it (a string
without its quotes, anything else as JSON text), NULL where the field is missing or null. A string may read as
an array or object, so these ask what it is. ClickHouse's own casts let through much of what this refuses:
February 30th, 1.23456 as Decimal(18, 4), `nan`, `12` as a time.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.clients.clickhouse.sql import listed, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.alternatives import dynamic, variant
from sluice.flow.load.casts.containers import array, mapping
from sluice.flow.load.casts.documents import document, is_string, path_misfit, paths_of, text_at
from sluice.flow.load.casts.exact_numbers import FieldText
from sluice.flow.load.casts.judged import Cast, Field, UnsupportedType, here, inside, let, misfit_of, of_pair
from sluice.flow.load.casts.parsed import ParsedContainer, parsed
from sluice.flow.load.casts.scalars import scalar
from sluice.flow.load.casts.tuples import tuple_

__all__ = ("Cast", "ParsedContainer", "UnsupportedType", "cast", "cast_at", "misfit_of", "parsed_cast")

_CONTAINERS = {"Array": array, "Map": mapping, "Tuple": tuple_}


def cast(
    kind: Type,
    x: str,
    depth: int = 0,
    key: FieldText = "",
    quoted: str = "",
    default: str = "",
    filled: bool = False,
) -> Cast:
    """Returns the cast of `x`, the value of the field `key`, to `kind`. `depth` counts the containers around
    it.

    `quoted` is the condition that the value is a string; empty where none is. `default` is an expression of
    the type `kind`, whose elements a Tuple takes for fields that are missing; `filled`: a named one takes
    the defaults of their types. Raises UnsupportedType.
    """
    return _cast(kind.stored, Field(x, depth, key, quoted, default, filled=filled))


def parsed_cast(kind: Type, parsed_value: str, name: str, long: bool) -> ParsedContainer:
    """Returns the cast of what the parse of the event gives of a container (parsed.py)."""
    return parsed(_cast, kind.stored, parsed_value, name, long)


def _cast(kind: Type, field: Field) -> Cast:
    if kind.name == "Nullable" and kind.shape.name == "Tuple":
        raise UnsupportedType(kind.text)
    container = _CONTAINERS.get(kind.shape.name)
    if container is not None:
        return container(_cast, kind, field)
    plain, x = kind.plain, field.x
    where = here(kind.text, x)
    if plain.name == "JSON":
        value, where = _document(plain, field, where)
    elif plain.name == "Variant":
        value = variant(_cast, plain, field)
    elif plain.name == "Dynamic":
        value = dynamic(field)
    else:
        value = scalar(plain, x, field.key, field.quoted)
    if plain.name in ("Variant", "Dynamic") or (plain.name == "JSON" and field.depth):
        return _once(value, field, where)
    return Cast(value, "0" if plain.name == "String" else misfit_of(x, value), where=where)


def _once(value: str, field: Field, where: str) -> Cast:
    """The text of such a value is long: it has a name where it is judged, too."""
    name = f"v{field.depth}"
    pair = let([(name, value)], f"tuple({name}, {misfit_of(field.x, name)})")
    return replace(of_pair(pair, where), container=False)


def _document(plain: Type, field: Field, where: str) -> tuple[str, str]:
    """Returns a JSON without names for its parts, and where a misfit is."""
    places: list[str] = []
    for name, kind in paths_of(plain):
        text = text_at(field.x, name)
        path_cast = cast_at(field, (name, kind), text)
        misfit = path_misfit(plain, field.x, name, text, path_cast)
        places += [misfit, inside(literal(f".{name}"), path_cast.where, field.depth)]
    value = document(plain, field.x, places[::2], field.quoted)
    return value, f"multiIf({listed(places)}, {where})" if places else where


def cast_at(field: Field, path: tuple[str, Type], text: str) -> Cast:
    """Returns the cast of what is at a typed path of a JSON."""
    key = None if field.key is None else path[0].split(".")[-1]
    at = replace(
        field, x=text, key=key, quoted=is_string(field.x, path[0]), required=False, default="", filled=False
    )
    return _cast(path[1], at)
