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


def convert(source_type: Type, column_type: Type, x: str, depth: int = 0) -> Cast:
    """Returns the cast of `x`, of the type `source_type`. NULL fits where `column_type` is Nullable.

    Raises Unprovable.
    """
    source_type, column_type = stored(source_type), stored(column_type)
    if source_type.text == column_type.text:
        return Cast(x, "0", container=True)
    if source_type.plain.name == "Nothing":  # a bare NULL, or an element of a bare []
        return Cast(
            _null(column_type),
            "0" if column_type.nullable or not source_type.nullable else "1",
            container=True,
        )
    value = (
        f"CAST({x}, {literal(f'Nullable({source_type.plain.text})')})"
        if source_type.name == "LowCardinality"
        else x
    )
    plain_cast = _plain(source_type.plain, column_type.plain, value, depth)
    if not source_type.nullable or column_type.nullable:
        return plain_cast
    return Cast(plain_cast.value, f"(isNull({x}) OR {plain_cast.misfit})", plain_cast.container)


def stored(kind: Type) -> Type:
    """A SimpleAggregateFunction stores a value of its type."""
    return kind.argument(1) if kind.name == "SimpleAggregateFunction" else kind


def _null(column_type: Type) -> str:
    return f"defaultValueOfTypeName({literal(column_type.text)})"


def _plain(source_type: Type, column_type: Type, x: str, depth: int) -> Cast:
    if source_type.text == column_type.text:
        return Cast(x, "0")
    if source_type.name == column_type.name == "Array":
        return _array(source_type.argument(0), column_type.argument(0), x, depth)
    if source_type.name == column_type.name == "Map":
        return _map(source_type, column_type, x, depth)
    if source_type.name == column_type.name == "Tuple":
        return _tuple(source_type, column_type, x, depth)
    value = _scalar(source_type, column_type, x)
    return Cast(value, f"(isNull({value}) > isNull({x}))")


def _scalar(source_type: Type, column_type: Type, x: str) -> str:
    """Returns the value, NULL where it does not fit."""
    for rule in (_of_float, _to_float, _of_time, _of_fixed):
        value = rule(source_type, column_type, x)
        if value is not None:
            return value
    text = _text(source_type, x, column_type.name)
    if text is None or column_type.shape.name in _PARSED:
        raise Unprovable
    return _cast(column_type, text)


def _cast(column_type: Type, text: str) -> str:
    try:
        return cast(column_type, f"toNullable({text})", key=None).value
    except UnsupportedType as error:
        raise Unprovable from error


def _text(source_type: Type, x: str, column_type: str) -> str | None:
    """Returns the text that says exactly what the value is; None where the column's type does not read it as
    the same value."""
    if source_type.name == "String":
        return x
    if source_type.name == "Bool":
        if column_type in _INTEGERS:
            return f"toString(toUInt8({x}))"
        return f"if({x}, 'true', 'false')" if column_type == "String" else None
    return f"toString({x})" if column_type in _readers(source_type.name) else None


def _readers(source_type: str) -> tuple[str, ...]:
    """Returns the types that read the text of a value of `source_type` as the same value."""
    if source_type in _INTEGERS or source_type == "Decimal":
        return (*_INTEGERS, "Decimal", "Bool", "String")
    for family in (_ENUMS, _ADDRESSES, ("UUID",)):
        if source_type in family:
            return (*family, "String")
    return ()


def _of_float(source_type: Type, column_type: Type, x: str) -> str | None:
    """A float's text is the shortest that gives it back: its digits are a decimal's, and no integer's."""
    if not _FLOAT.fullmatch(source_type.name):
        return None
    if _WORD.fullmatch(column_type.name) or _FLOAT.fullmatch(column_type.name):
        return f"accurateCastOrNull({x}, '{column_type.name}')"
    if column_type.name == "Bool":
        return f"multiIf({x} = 1, true, {x} = 0, false, NULL)"
    if column_type.name in ("Decimal", "String"):
        return _cast(column_type, f"toString({x})")
    raise Unprovable


def _to_float(source_type: Type, column_type: Type, x: str) -> str | None:
    """Whole numbers as far as a float has them all; a decimal where the float reads as it is written."""
    if not _FLOAT.fullmatch(column_type.name) or source_type.name == "String":
        return None
    number = f"accurateCastOrNull(toString({x}), '{column_type.name}')"
    if source_type.name in _INTEGERS:
        edge = 2 ** _DOUBLE[column_type.name]
        return f"if({x} >= -{edge} AND {x} <= {edge}, {number}, NULL)"
    if source_type.name == "Decimal":
        return f"if(toString({number}) = toString({x}), {number}, NULL)"
    raise Unprovable


def _of_time(source_type: Type, column_type: Type, x: str) -> str | None:
    """An instant stays the same instant, and a day the same day; a day is an instant in UTC only."""
    if source_type.name not in (*_DAYS, *_MOMENTS):
        return None
    if source_type.name in _DAYS and column_type.name == "String":
        return f"toString({x})"
    days = [kind for kind in (source_type, column_type) if kind.name in _DAYS]
    moments = [kind for kind in (source_type, column_type) if kind.name in _MOMENTS]
    if len(days) + len(moments) < 2 or (days and any(_zone(kind) != "'UTC'" for kind in moments)):
        raise Unprovable
    text = f"toString({x})" if source_type.name in _DAYS else f"toString({x}, 'UTC')"
    converted = _cast(column_type, text)
    # What is finer than the column is cut off there, and years beyond 2299 may be written as others.
    back = f"CAST({converted}, {literal(f'Nullable({source_type.text})')})"
    return f"if({back} = {x}, {converted}, NULL)"


def _zone(moment: Type) -> str:
    return moment.arguments[-1] if moment.arguments and moment.arguments[-1].startswith("'") else ""


def _of_fixed(source_type: Type, column_type: Type, x: str) -> str | None:
    """More zeros behind a FixedString are the same one; whether they belong to a text is unknown."""
    if source_type.name != "FixedString":
        return None
    if column_type.name != "FixedString" or int(column_type.arguments[0]) < int(source_type.arguments[0]):
        raise Unprovable
    return f"toNullable(toFixedString({x}, {column_type.arguments[0]}))"


def _element(source_type: Type, column_type: Type, x: str, depth: int) -> Cast:
    """Returns a cast whose value has the column's type even where it does not fit: an array has one type."""
    element_cast = convert(source_type, column_type, x, depth + 1)
    source_type, column_type = stored(source_type), stored(column_type)
    if (
        element_cast.container
        or column_type.nullable
        or (element_cast.value == x and not source_type.nullable)
    ):
        return element_cast
    return Cast(
        f"ifNull({element_cast.value}, defaultValueOfTypeName({literal(column_type.plain.text)}))",
        element_cast.misfit,
    )


def _array(source_type: Type, column_type: Type, x: str, depth: int) -> Cast:
    item = f"x{depth}"
    item_cast = _element(source_type, column_type, item, depth)
    return Cast(
        f"arrayMap({item} -> {item_cast.value}, {x})",
        f"arrayExists({item} -> {item_cast.misfit}, {x})",
        container=True,
    )


def _map(source_type: Type, column_type: Type, x: str, depth: int) -> Cast:
    parts = (f"mapKeys({x})", f"mapValues({x})")
    casts = [
        _array(source_type.argument(n), column_type.argument(n), part, depth) for n, part in enumerate(parts)
    ]
    value = f"mapFromArrays({casts[0].value}, {casts[1].value})"
    return Cast(value, f"({casts[0].misfit} OR {casts[1].misfit})", container=True)


def _tuple(source_type: Type, column_type: Type, x: str, depth: int) -> Cast:
    """Element by element; names, where both have them, have to be the same in the same order."""
    mine, theirs = source_type.named_arguments(), column_type.named_arguments()
    named = [name for name, _ in mine]
    if len(mine) != len(theirs) or (any(named) and named != [name for name, _ in theirs]):
        raise Unprovable
    casts = [
        _element(kind, to, f"tupleElement({x}, {n})", depth)
        for n, ((_, kind), (_, to)) in enumerate(zip(mine, theirs, strict=True), start=1)
    ]
    misfit = " OR ".join(part.misfit for part in casts)
    return Cast(f"tuple({', '.join(part.value for part in casts)})", f"({misfit})", container=True)
