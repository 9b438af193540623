"""Variant and Dynamic: a JSON value chooses the type by what it is (flow/load/casts/casts.py)."""

from __future__ import annotations

import re

from sluice.clients.clickhouse.sql import both, either, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import all_exact, exact
from sluice.flow.load.casts.judged import Caster, Field, let

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
    value = f"if(isNull({field.x}), NULL, multiIf({', '.join(chosen)}, NULL))"
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
    brace = f"startsWith({text}, '{{')"
    return (
        f"multiIf(isNull({x}), NULL, {field.quoted or '1'}, CAST({x}, 'Dynamic'), "
        f"{both(brace, all_)}, {as_document}, "
        f"{either(brace, f'NOT ({same})')}, NULL, {inside})"
    )
