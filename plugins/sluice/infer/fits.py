"""Whether a value fits a proposed type, and where in it the first thing lies that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

from sluice.infer import spellings
from sluice.infer.types import ArrayOf, Inferred, Leaf, MapOf, TupleOf, holds_null
from sluice.infer.values import Kind, becomes_json, kind_of, readable, scale

_RANGES = {
    "UInt64": range(1 << 64),
    "Int64": range(-(1 << 63), 1 << 63),
    "Int128": range(-(1 << 127), 1 << 127),
}
_TEXTS: Mapping[str, Callable[[str], bool]] = {
    "UUID": spellings.is_uuid,
    "IPv4": spellings.is_ipv4,
    "IPv6": spellings.is_ipv6,
    "Date": spellings.is_date,
    "Date32": spellings.is_date32,
}
ValuePlace = tuple[str, Any]
"""`.items[3].price` and the value there."""


def misfit(kind: Inferred, value: Any) -> ValuePlace | None:
    """Returns the first place that does not fit, or None where all does."""
    return next(misfits(kind, value), None)


def misfits(kind: Inferred, value: Any, place: str = "") -> Iterator[ValuePlace]:
    """Yields each place of `value`, which is not None, that does not fit."""
    if isinstance(kind, Leaf):
        if not _leaf(kind, value):
            yield place, value
    elif isinstance(kind, ArrayOf):
        if not isinstance(value, list):
            yield place, value
            return
        for number, item in enumerate(value):
            yield from _inner(kind.element, item, f"{place}[{number}]")
    elif not isinstance(value, Mapping):
        yield place, value
    elif isinstance(kind, MapOf):
        for item in value.values():
            yield from _inner(kind.value, item, f"{place}[]")
    else:
        yield from _elements(kind, value, place)


def _elements(kind: TupleOf, value: Mapping[str, Any], place: str) -> Iterator[ValuePlace]:
    for name, inner in kind.elements:
        yield from _inner(inner, value.get(name), f"{place}.{name}")


def _inner(kind: Inferred, value: Any, place: str) -> Iterator[ValuePlace]:
    if value is None:
        if not holds_null(kind):
            yield place, None
    else:
        yield from misfits(kind, value, place)


def refuses_more(kind: Leaf, texts: Iterable[str], most: int) -> bool:
    """Returns whether more than `most` of the texts do not fit; it reads no further than it has to."""
    refused = (text for text in texts if not _leaf(kind, text))
    return next(islice(refused, most, None), None) is not None


def _leaf(kind: Leaf, value: Any) -> bool:
    value_kind = kind_of(value)
    if kind.name == "String":
        return value_kind is not Kind.UNREADABLE and readable(value)
    if kind.name == "JSON":
        return value_kind is Kind.OBJECT and becomes_json(value) and readable(value)
    if kind.name == "Bool":
        return value_kind is Kind.BOOL
    if kind.name == "DateTime64":
        return _instant(kind.digits[0], value_kind, value)
    if kind.name in _TEXTS:
        return value_kind is Kind.TEXT and _TEXTS[kind.name](value)
    if kind.name == "Decimal" and value_kind is Kind.TEXT:
        return _amount(kind, value)
    return value_kind is Kind.NUMBER and _number(kind, value)


def _amount(kind: Leaf, value: str) -> bool:
    precision, places = kind.digits
    digits = spellings.decimal_digits(value)
    return digits is not None and digits[1] <= places and digits[0] <= precision - places


def _number(kind: Leaf, value: Any) -> bool:
    if kind.name in _RANGES:
        return isinstance(value, int) and value in _RANGES[kind.name]
    if kind.name == "Float64":
        return True
    precision, places = kind.digits
    digits = scale(value)
    number = Decimal(value) if isinstance(value, int) else Decimal(str(value))
    return digits is not None and digits <= places and abs(number) < Decimal(10) ** (precision - places)


def _instant(digits: int, value_kind: Kind, value: Any) -> bool:
    if value_kind is Kind.NUMBER:
        written = spellings.epoch_digits(value)
        return written is not None and written <= digits
    fits = value_kind is Kind.TEXT and spellings.is_instant(value, digits)
    return fits and spellings.needed_digits(value) <= digits
