"""From a field's text to a column's type, strictly: a value fits exactly, or it is a rejected row.

Every function takes `x`, an expression of type Nullable(String): the field as JSONExtract gives it (a string
without its quotes, anything else as JSON text), NULL where the field is missing or null. A string may read as
an array or object, so these ask what it is. ClickHouse's own casts let through much of what this refuses:
February 30th, 1.23456 as Decimal(18, 4), `nan`, `12` as a time.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from sluice.clients.clickhouse.sql import both, either, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.containers import (
    ParsedContainer,
    array,
    mapping,
    parsed,
    tuple_,
    twice_in_document,
)
from sluice.flow.load.casts.documents import Document, document
from sluice.flow.load.casts.exact_numbers import FieldText, all_exact, any_large, exact
from sluice.flow.load.casts.judged import (
    Cast,
    Caster,
    Field,
    UnsupportedType,
    here,
    let,
    of_pair,
    repeats,
    unfit_of,
)
from sluice.flow.load.casts.scalars import scalar
from sluice.time_grammar import AS_WRITTEN, Spelled

__all__ = ("Cast", "ParsedContainer", "UnsupportedType", "cast", "document_cast", "parsed_cast", "unfit_of")

_CONTAINERS = {"Array": array, "Map": mapping, "Tuple": tuple_}


def cast(
    kind: Type,
    x: str,
    depth: int = 0,
    key: FieldText = "",
    quoted: str = "",
    default: str = "",
    filled: bool = False,
    spelled: Spelled = AS_WRITTEN,
) -> Cast:
    """Returns the cast of `x`, the value of the field `key`, to `kind`. `depth` counts the containers around
    it.

    `quoted` is the condition that the value is a string; empty where none is. `default` is an expression of
    the type `kind`, whose elements a Tuple takes for fields that are missing; `filled`: a named one takes
    the defaults of their types. `spelled` is how its times are. Raises UnsupportedType.
    """
    return _cast(kind.stored, Field(x, depth, key, quoted, default, filled=filled), spelled)


def document_cast(kind: Type, x: str, key: FieldText, quoted: str, suffix: str, spelled: Spelled) -> Document:
    """Returns the same of a JSON, by names that end with the suffix. Raises UnsupportedType."""
    return document(partial(_cast, spelled=spelled), kind, Field(x, 0, key, quoted), suffix)


def parsed_cast(
    kind: Type, parsed_value: str, name: str, long: bool, spelled: Spelled = AS_WRITTEN
) -> ParsedContainer:
    """Returns the cast of what the parse of the event gives of a container (parsed.py)."""
    return parsed(partial(_cast, spelled=spelled), kind.stored, parsed_value, name, long)


def _cast(kind: Type, field: Field, spelled: Spelled = AS_WRITTEN) -> Cast:
    if kind.name == "Nullable" and kind.shape.name == "Tuple":
        raise UnsupportedType(kind.text)
    container, caster = _CONTAINERS.get(kind.shape.name), partial(_cast, spelled=spelled)
    if container is not None:
        return container(caster, kind, field)
    plain, x = kind.plain, field.x
    where = here(kind.text, x)
    if plain.name == "JSON":
        made = document(caster, plain, field, f"_{field.depth}")
        value, where = made.let(made.value), made.where(x, where, field.depth)
    elif plain.name == "Variant":
        value = variant(caster, plain, field)
    elif plain.name == "Dynamic":
        value, where = dynamic(field), twice_in_document(field.x, where)
    else:
        value = scalar(plain, x, field.key, field.quoted, spelled)
    if plain.name in ("Variant", "Dynamic") or (plain.name == "JSON" and field.depth):
        return _once(value, field, where)
    return Cast(value, "0" if value == x else unfit_of(x, value), where=where)


def _once(value: str, field: Field, where: str) -> Cast:
    """The text of such a value is long: it has a name where it is judged, too."""
    name = f"v{field.depth}"
    pair = let([(name, value)], f"tuple({name}, {unfit_of(field.x, name)})")
    return replace(of_pair(pair, where), container=False)


# Variant and Dynamic: a JSON value chooses the type by what it is (flow/load/casts/casts.py).
_NUMBERS = re.compile(r"U?Int\d+|Float\d+|BFloat16|Decimal|Interval\w+")
_OBJECTS = ("Map", "JSON")
# These take nearly all values of their kind: an alternative behind one of them would never be chosen.
_WIDE = ("String", "Float32", "Float64", "BFloat16", "JSON")
_BOOLS = literal(r"[\[,:](?:true|false)")


def variant(caster: Caster, kind: Type, field: Field) -> str:
    """Returns the value, NULL where none fits: first alternatives of the same JSON kind, then any."""
    parts = sorted(
        (kind.argument(n) for n in range(len(kind.arguments))), key=lambda t: t.plain.name in _WIDE
    )
    once, fitting = [], []
    for number, part in enumerate(parts):
        name = f"a{field.depth}_{number}"
        part_cast = caster(part, Field(field.x, field.depth + 1, field.key, field.quoted))
        if part_cast.judged:
            once.append((name, part_cast.judged))
            value, fits = f"tupleElement({name}, 1)", f"(tupleElement({name}, 2) = 0)"
            typed = part.text
        else:
            value, fits = part_cast.value, f"isNotNull({part_cast.value})"
            typed = _nullable(part)
        cast = f"CAST(CAST({value}, {literal(typed)}), {literal(kind.text)})"
        fitting.append((_of_kind(part, field), fits, cast))
    chosen = [part for of_kind, fits, cast in fitting for part in (both(of_kind, fits), cast)]
    chosen += [part for _, fits, cast in fitting for part in (fits, cast)]
    none = either(f"isNull({field.x})", any_large(field.text, field.key))
    value = f"if({none}, NULL, multiIf({', '.join(chosen)}, NULL))"
    return let(once, value) if once else value


def _nullable(part: Type) -> str:
    if part.name == "LowCardinality":
        return f"LowCardinality(Nullable({part.plain.text}))"
    return f"Nullable({part.text})"


def _of_kind(part: Type, field: Field) -> str:
    """Returns the condition that the JSON value is of the kind that the type is meant for."""
    name = part.shape.name
    text, plain = field.text, f"NOT ({field.quoted or '1'})"
    if name in _OBJECTS or (name == "Tuple" and part.shape.named_arguments()[0][0]):
        return both(plain, f"startsWith({text}, '{{')")
    if name in ("Array", "Tuple"):
        return both(plain, f"startsWith({text}, '[')")
    if name == "Bool":
        return both(plain, f"{text} IN ('true', 'false')")
    if _NUMBERS.fullmatch(part.plain.name):
        return both(plain, f"match({text}, '^-?[0-9]')")
    return f"({field.quoted or '1'})"


def dynamic(field: Field) -> str:
    """Returns what an untyped path of a JSON column holds, if that is what the value says."""
    x, text = field.x, field.text
    inside = f"getSubcolumn(accurateCastOrNull(concat('{{\"v\":', {text}, '}}'), 'JSON'), 'v')"
    as_document = f"CAST(accurateCastOrNull({text}, 'JSON'), 'Dynamic')"
    # In an array of numbers ClickHouse makes 1 of true.
    bools = f"length(extractAll({text}, {_BOOLS})) = length(extractAll(toJSONString({inside}), {_BOOLS}))"
    all_ = all_exact(text, field.key)
    same = both(f"if(startsWith({text}, '['), {all_}, {exact(x, field.key)})", bools)
    brace, again = f"startsWith({text}, '{{')", repeats(f"JSONExtractKeys({text})")
    none = either(f"isNull({x})", any_large(text, field.key))
    return (
        f"multiIf({none}, NULL, {field.quoted or '1'}, CAST({x}, 'Dynamic'), "
        f"{both(brace, all_, f'NOT {again}')}, {as_document}, "
        f"{either(brace, f'NOT ({same})')}, NULL, {inside})"
    )
