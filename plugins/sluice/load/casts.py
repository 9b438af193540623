"""From a field's text to a column's type, strictly: a value fits exactly, or it is a misfit.

Every function takes `x`, an expression of type Nullable(String): the field as JSONExtract gives it (a string
without its quotes, anything else as JSON text), NULL where the field is missing or null. ClickHouse's own
casts let through much of what this refuses: February 30th, 1.23456 as Decimal(18, 4), `nan`, `12` as a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from sluice.load.exact import exact
from sluice.load.sql import Sql, literal
from sluice.load.types import Type

_INTEGERS = re.compile(r"U?Int(8|16|32|64)")
_WIDE_INTEGERS = re.compile(r"U?Int(128|256)")
_DECIMALS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_PASSED_THROUGH = ("UUID", "IPv4", "IPv6", "FixedString", "JSON")
_DAY = r"(19|2[0-2])\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_CLOCK = r"[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)?"
# A day, ISO 8601 with or without a zone, ten digits of seconds since the epoch or thirteen of milliseconds.
_TIME = Sql(literal(rf"^({_DAY}({_CLOCK})?|\d{{10}}(\.\d+)?|\d{{13}})$"))
# [first, end) of what each type holds: https://clickhouse.com/docs/sql-reference/data-types
_RANGES = {
    "Date": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2149, 6, 7, tzinfo=UTC)),
    "DateTime": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC)),
    "Date32": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
    "DateTime64": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
}


class UnsupportedType(ValueError):
    """A type that no JSON value fits, or that Sluice does not fill."""


@dataclass(frozen=True)
class Cast:
    """`misfit`: `x` does not fit. There, and where `x` is NULL, `value` is NULL (a container: empty)."""

    value: str
    misfit: str
    container: bool = False


def cast(kind: Type, x: str, depth: int = 0, key: str = "") -> Cast:
    """The cast of `x`, the value of the field `key`, to `kind`. `depth` counts the containers around it.

    Raises UnsupportedType.
    """
    plain = kind.plain
    if plain.name == "Array":
        return _array(plain.argument(0), x, depth)
    if plain.name == "Map":
        return _map(plain.argument(0), plain.argument(1), x, depth)
    value = _scalar(plain, x, key)
    return Cast(value, "0" if plain.name == "String" else misfit_of(x, value))


def misfit_of(x: str, value: str) -> str:
    """`value` is NULL and `x` is not, as one comparison: AND and OR cost more, as they evaluate lazily."""
    return f"(isNull({value}) > isNull({x}))"


def _scalar(kind: Type, x: str, key: str) -> str:
    if kind.name == "String":
        return x
    if _INTEGERS.fullmatch(kind.name):
        return f"if({exact(x, key)}, accurateCastOrNull({x}, '{kind.name}'), NULL)"
    if kind.name in _PASSED_THROUGH:
        return f"accurateCastOrNull({x}, {literal(kind.text)})"
    if _WIDE_INTEGERS.fullmatch(kind.name):
        # These wrap around without a word: the value has to read as it was written.
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        return f"if(toString({number}) = {x} AND {exact(x, key)}, {number}, NULL)"
    if kind.name in ("Float32", "Float64"):
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        return f"if(isFinite({number}), {number}, NULL)"
    if kind.name == "Decimal" or kind.name in _DECIMALS:
        return _decimal(kind, x, key)
    if kind.name in _RANGES:
        return _time(kind, x, key)
    if kind.name == "Bool":
        value = f"multiIf({x} IN ('true', '1'), true, {x} IN ('false', '0'), false, NULL)"
        return f"if({exact(x, key)}, {value}, NULL)"
    if kind.name in ("Enum8", "Enum16"):
        names = ", ".join(part.rpartition("=")[0].strip() for part in kind.arguments)
        known = f"transform({x}, [{names}], [{names}], NULL)"
        return f"CAST({known}, {literal(f'Nullable({kind.text})')})"
    raise UnsupportedType(kind.text)


def _decimal(kind: Type, x: str, key: str) -> str:
    """Refuses more digits after the point than the scale, and digits that the JSON parser has rounded."""
    scale = int(kind.arguments[-1]) if kind.name != "Decimal" or len(kind.arguments) == 2 else 0
    value = f"accurateCastOrNull({x}, {literal(kind.text)})"
    number = f"isNotNull(accurateCastOrNull({x}, 'Float64'))"
    fits = f"{_digits_after_the_point(x)} <= {scale} AND {exact(x, key)}"
    # Nearly every value passes the cheap conditions; the others are evaluated for the rest only.
    fraction = rf"([.][0-9]{{1,{scale}}})?" if scale else ""
    plain = f"match({x}, {literal(f'^-?[0-9]+{fraction}$')})"
    cheap = f"{plain} * (long_numbers = 0)"
    return f"if({cheap} > 0, {value}, if({number} AND {fits}, {value}, NULL))"


def _digits_after_the_point(x: str) -> str:
    """How many a number's text needs: 1.50 needs one, 25e-3 three, 1200 none, 12e2 as many as -2; 0 none."""
    mantissa = f"splitByChar('e', lower(assumeNotNull({x})))[1]"
    exponent = f"toInt32OrZero(splitByChar('e', lower(assumeNotNull({x})))[2])"
    digits = f"extractAllGroups({mantissa}, '^[+-]?([0-9]*)[.]?([0-9]*)$')[1]"
    kept = f"replaceRegexpOne(concat({digits}[1], {digits}[2]), '0+$', '')"
    needed = f"length({kept}) - length({digits}[1]) - {exponent}"
    return f"if(empty({kept}), 0, {needed})"


def _time(kind: Type, x: str, key: str) -> str:
    """A time without a zone is UTC, whatever the column's zone; what is finer than the column is cut off."""
    digits = max(3, int(kind.arguments[0])) if kind.name == "DateTime64" else 3
    parsed = f"parseDateTime64BestEffortOrNull({x}, {digits}, 'UTC')"
    cut = _cut(kind, parsed)
    first, end = (int(edge.timestamp()) * 1000 for edge in _RANGES[kind.name])
    stamp = f"toUnixTimestamp64Milli({parsed})"
    fits = f"match({x}, {_TIME}) * ({stamp} >= {first}) * ({stamp} < {end}) > 0"
    # Seconds with a fraction are a double; anything else of that length is text.
    sure = f"(substring({x}, 11, 1) != '.' OR {exact(x, key)})"
    return f"CAST(if({fits} AND {sure}, {cut}, NULL), {literal(f'Nullable({kind.text})')})"


def _cut(kind: Type, parsed: str) -> str:
    """A cast to fewer than milliseconds cuts towards 1970, which is up before it."""
    digits = int(kind.arguments[0]) if kind.name == "DateTime64" else 3
    unit = f"toIntervalMillisecond({10 ** (3 - digits)})" if digits < 3 else ""
    return f"toStartOfInterval({parsed}, {unit})" if unit else parsed


def _array(element: Type, x: str, depth: int) -> Cast:
    items, item = f"JSONExtract(ifNull({x}, ''), 'Array(Nullable(String))')", f"x{depth}"
    value, misfit = _inner(element, item, depth)
    shape = f"NOT startsWith({x}, '[') OR (empty({items}) AND {x} != '[]')"
    return Cast(
        f"arrayMap({item} -> {value}, {items})",
        f"({x} IS NOT NULL AND ({shape} OR arrayExists({item} -> {misfit}, {items})))",
        container=True,
    )


def _map(key: Type, value: Type, x: str, depth: int) -> Cast:
    pairs = f"JSONExtract(ifNull({x}, ''), 'Map(String, Nullable(String))')"
    keys, items = f"arrayMap(k -> toNullable(k), mapKeys({pairs}))", f"mapValues({pairs})"
    name, item = f"k{depth}", f"x{depth}"
    key_value, key_misfit = _inner(key, name, depth)
    item_value, item_misfit = _inner(value, item, depth)
    shape = f"NOT startsWith({x}, '{{') OR (empty({pairs}) AND {x} != '{{}}')"
    bad = f"arrayExists({name} -> {key_misfit}, {keys}) OR arrayExists({item} -> {item_misfit}, {items})"
    built = f"arrayMap({name} -> {key_value}, {keys}), arrayMap({item} -> {item_value}, {items})"
    return Cast(f"mapFromArrays({built})", f"({x} IS NOT NULL AND ({shape} OR {bad}))", container=True)


def _inner(kind: Type, item: str, depth: int) -> tuple[str, str]:
    """Value and misfit of an element; a null fits only where the element is Nullable."""
    inner = cast(kind, item, depth + 1)
    if kind.nullable:
        return inner.value, inner.misfit
    if inner.container:
        return inner.value, f"({item} IS NULL OR {inner.misfit})"
    filled = f"ifNull({inner.value}, defaultValueOfTypeName({literal(kind.plain.text)}))"
    return filled, f"({item} IS NULL OR {inner.value} IS NULL)"
