"""From a value that a rollup's SELECT gives to its column's type, exactly: it is the same value, or a misfit.

The value's text goes through the casts of the load wherever the text says exactly what the value is.
ClickHouse's own casts wrap dates around, cut digits off and take 0.9 for true. A pair of types that is in no
table here is refused before anything is read.
"""

from __future__ import annotations

import re

from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.casts import Cast, UnsupportedType, cast

_INTEGERS = tuple(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128, 256))
_WORD = re.compile(r"U?Int(8|16|32|64)")
_FLOAT = re.compile(r"Float(32|64)")
_DAYS = ("Date", "Date32")
_MOMENTS = ("DateTime", "DateTime64")
_ENUMS = ("Enum8", "Enum16")
_ADDRESSES = ("IPv4", "IPv6")
# ClickHouse's parser of JSON makes doubles of numbers in a text.
_PARSED = ("Array", "Map", "Tuple", "Variant", "Dynamic", "JSON")
_DOUBLE = {"Float32": 24, "Float64": 53}  # whole numbers of so many bits are floats of the type, all of them


class Unprovable(ValueError):
    """A pair of types that is not known to keep every value."""


def convert(given: Type, wanted: Type, x: str, depth: int = 0) -> Cast:
    """Returns the cast of `x`, an expression of the type `given`. NULL fits where `wanted` is Nullable.

    Raises Unprovable.
    """
    given, wanted = stored(given), stored(wanted)
    if given.text == wanted.text:
        return Cast(x, "0", container=True)
    if given.plain.name == "Nothing":  # a bare NULL, or an element of a bare []
        return Cast(_null(wanted), "0" if wanted.nullable or not given.nullable else "1", container=True)
    value = f"CAST({x}, {literal(f'Nullable({given.plain.text})')})" if given.name == "LowCardinality" else x
    made = _plain(given.plain, wanted.plain, value, depth)
    if not given.nullable or wanted.nullable:
        return made
    return Cast(made.value, f"(isNull({x}) OR {made.misfit})", made.container)


def stored(kind: Type) -> Type:
    """A SimpleAggregateFunction stores a value of its type."""
    return kind.argument(1) if kind.name == "SimpleAggregateFunction" else kind


def _null(wanted: Type) -> str:
    return f"defaultValueOfTypeName({literal(wanted.text)})"


def _plain(given: Type, wanted: Type, x: str, depth: int) -> Cast:
    if given.text == wanted.text:
        return Cast(x, "0")
    if given.name == wanted.name == "Array":
        return _array(given.argument(0), wanted.argument(0), x, depth)
    if given.name == wanted.name == "Map":
        return _map(given, wanted, x, depth)
    if given.name == wanted.name == "Tuple":
        return _tuple(given, wanted, x, depth)
    value = _scalar(given, wanted, x)
    return Cast(value, f"(isNull({value}) > isNull({x}))")


def _scalar(given: Type, wanted: Type, x: str) -> str:
    """Returns the value, NULL where it does not fit."""
    for rule in (_of_float, _to_float, _of_time, _of_fixed):
        value = rule(given, wanted, x)
        if value is not None:
            return value
    text = _text(given, x, wanted.name)
    if text is None or wanted.shape.name in _PARSED:
        raise Unprovable
    return _cast(wanted, text)


def _cast(wanted: Type, text: str) -> str:
    try:
        return cast(wanted, f"toNullable({text})", key=None).value
    except UnsupportedType as error:
        raise Unprovable from error


def _text(given: Type, x: str, wanted: str) -> str | None:
    """Returns the text that says exactly what the value is, where the wanted type reads it as the same
    thing."""
    if given.name == "String":
        return x
    if given.name == "Bool":
        if wanted in _INTEGERS:
            return f"toString(toUInt8({x}))"
        return f"if({x}, 'true', 'false')" if wanted == "String" else None
    return f"toString({x})" if wanted in _readers(given.name) else None


def _readers(given: str) -> tuple[str, ...]:
    """Returns the types that read the text of a value of the type `given` as the same value."""
    if given in _INTEGERS or given == "Decimal":
        return (*_INTEGERS, "Decimal", "Bool", "String")
    for family in (_ENUMS, _ADDRESSES, ("UUID",)):
        if given in family:
            return (*family, "String")
    return ()


def _of_float(given: Type, wanted: Type, x: str) -> str | None:
    """A float's text is the shortest that gives it back: its digits are a decimal's, and no integer's."""
    if not _FLOAT.fullmatch(given.name):
        return None
    if _WORD.fullmatch(wanted.name) or _FLOAT.fullmatch(wanted.name):
        return f"accurateCastOrNull({x}, '{wanted.name}')"
    if wanted.name == "Bool":
        return f"multiIf({x} = 1, true, {x} = 0, false, NULL)"
    if wanted.name in ("Decimal", "String"):
        return _cast(wanted, f"toString({x})")
    raise Unprovable


def _to_float(given: Type, wanted: Type, x: str) -> str | None:
    """Whole numbers as far as a float has them all; a decimal where the float reads as it is written."""
    if not _FLOAT.fullmatch(wanted.name) or given.name == "String":
        return None
    made = f"accurateCastOrNull(toString({x}), '{wanted.name}')"
    if given.name in _INTEGERS:
        edge = 2 ** _DOUBLE[wanted.name]
        return f"if({x} >= -{edge} AND {x} <= {edge}, {made}, NULL)"
    if given.name == "Decimal":
        return f"if(toString({made}) = toString({x}), {made}, NULL)"
    raise Unprovable


def _of_time(given: Type, wanted: Type, x: str) -> str | None:
    """An instant stays the same instant, and a day the same day; a day is an instant in UTC only."""
    if given.name not in (*_DAYS, *_MOMENTS):
        return None
    if given.name in _DAYS and wanted.name == "String":
        return f"toString({x})"
    days = [kind for kind in (given, wanted) if kind.name in _DAYS]
    moments = [kind for kind in (given, wanted) if kind.name in _MOMENTS]
    if len(days) + len(moments) < 2 or (days and any(_zone(kind) != "'UTC'" for kind in moments)):
        raise Unprovable
    text = f"toString({x})" if given.name in _DAYS else f"toString({x}, 'UTC')"
    made = _cast(wanted, text)
    # What is finer than the column is cut off there, and years beyond 2299 may be written as others.
    back = f"CAST({made}, {literal(f'Nullable({given.text})')})"
    return f"if({back} = {x}, {made}, NULL)"


def _zone(moment: Type) -> str:
    return moment.arguments[-1] if moment.arguments and moment.arguments[-1].startswith("'") else ""


def _of_fixed(given: Type, wanted: Type, x: str) -> str | None:
    """More zeros behind a FixedString are the same one; whether they belong to a text is unknown."""
    if given.name != "FixedString":
        return None
    if wanted.name != "FixedString" or int(wanted.arguments[0]) < int(given.arguments[0]):
        raise Unprovable
    return f"toNullable(toFixedString({x}, {wanted.arguments[0]}))"


def _element(given: Type, wanted: Type, x: str, depth: int) -> Cast:
    """The value has the wanted type even where it does not fit: an array has one type."""
    made = convert(given, wanted, x, depth + 1)
    given, wanted = stored(given), stored(wanted)
    if made.container or wanted.nullable or (made.value == x and not given.nullable):
        return made
    return Cast(f"ifNull({made.value}, defaultValueOfTypeName({literal(wanted.plain.text)}))", made.misfit)


def _array(given: Type, wanted: Type, x: str, depth: int) -> Cast:
    item = f"x{depth}"
    made = _element(given, wanted, item, depth)
    return Cast(
        f"arrayMap({item} -> {made.value}, {x})", f"arrayExists({item} -> {made.misfit}, {x})", container=True
    )


def _map(given: Type, wanted: Type, x: str, depth: int) -> Cast:
    parts = (f"mapKeys({x})", f"mapValues({x})")
    made = [_array(given.argument(n), wanted.argument(n), part, depth) for n, part in enumerate(parts)]
    value = f"mapFromArrays({made[0].value}, {made[1].value})"
    return Cast(value, f"({made[0].misfit} OR {made[1].misfit})", container=True)


def _tuple(given: Type, wanted: Type, x: str, depth: int) -> Cast:
    """Element by element; names, where both have them, have to be the same in the same order."""
    mine, theirs = given.named_arguments(), wanted.named_arguments()
    named = [name for name, _ in mine]
    if len(mine) != len(theirs) or (any(named) and named != [name for name, _ in theirs]):
        raise Unprovable
    made = [
        _element(kind, to, f"tupleElement({x}, {n})", depth)
        for n, ((_, kind), (_, to)) in enumerate(zip(mine, theirs, strict=True), start=1)
    ]
    misfit = " OR ".join(part.misfit for part in made)
    return Cast(f"tuple({', '.join(part.value for part in made)})", f"({misfit})", container=True)
