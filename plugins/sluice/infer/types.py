"""The types that the inference proposes, their names in ClickHouse, and whether a value fits one."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

from sluice.clients.clickhouse.sql import identifier, listed, literal
from sluice.infer.values import Kind, becomes_json, kind_of, readable, scale

# What texts and numbers are spelled as: days, instants, UUIDs, addresses; as strict as a load's casts.

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[Tt ](?P<hour>\d\d):(?P<minute>\d\d)"
    r"(:(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?)?"
    r"([Zz]|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1)
_FIRST, _END = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2300))
_NANOSECONDS_END = 9_223_372_036  # seconds since 1970 that 64 bits hold as nanoseconds
_MOST_OFFSET = timedelta(hours=14)
_SECONDS = (10**9, 4_102_444_800)  # 2001-09-09 until 2100-01-01: ten digits, as a load wants them
_MICROSECONDS = 6
_TIME_WORDS = re.compile(
    "at|on|time|ts|timestamp|date|datetime|when|since|until|expires|expiry|created|updated|modified|deleted|"
    "started|ended|occurred|received|sent"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


_DECIMAL = re.compile(r"-?(?P<before>0|[1-9]\d*)(\.(?P<after>\d+))?", re.ASCII)


def decimal_digits(text: str) -> tuple[int, int] | None:
    """Returns the digits before and after the point of a plain number; None for any other text."""
    match = _DECIMAL.fullmatch(text)
    return None if match is None else (len(match["before"]), len(match["after"] or ""))


def day(text: str) -> date | None:
    if not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def is_date(text: str) -> bool:
    parsed = day(text)
    return parsed is not None and 0 <= (parsed - _EPOCH).days < 1 << 16


def is_date32(text: str) -> bool:
    parsed = day(text)
    return parsed is not None and 1900 <= parsed.year < 2300


def is_instant(text: str, digits: int = 3) -> bool:
    """Returns whether a DateTime64 of so many digits holds it."""
    match = _INSTANT.fullmatch(text)
    on = None if match is None else day(match["day"])
    if match is None or on is None:
        return False
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
    if hour > 23 or minute > 59 or second > 59 or minutes > 59:
        return False
    zone = timedelta(hours=hours, minutes=minutes)
    if zone > _MOST_OFFSET:
        return False
    seconds = (on - _EPOCH).days * 86_400 + hour * 3_600 + minute * 60 + second
    seconds -= int(zone.total_seconds()) * (-1 if match["sign"] == "-" else 1)
    return _FIRST <= seconds < (min(_END, _NANOSECONDS_END) if digits > _MICROSECONDS else _END)


def fraction_digits(text: str) -> int:
    """Returns how many digits of a second's fraction are written."""
    match = _INSTANT.fullmatch(text)
    return len(match["fraction"] or "") if match else 0


def needed_digits(text: str) -> int:
    """Returns how many of them say something: zeros at the end do not."""
    match = _INSTANT.fullmatch(text)
    return len((match["fraction"] or "").rstrip("0")) if match else 0


def epoch_digits(value: Any) -> int | None:
    """Digits of the fraction of a number that counts seconds (0, or 3 for milliseconds) since 1970; None
    where it does not resemble one."""
    low, high = _SECONDS
    if not isinstance(value, int):
        digits = -int(value.as_tuple().exponent) if isinstance(value, Decimal) else -1
        return digits if low <= value < high and 0 <= digits <= _MICROSECONDS else None
    if low <= value < high:
        return 0
    return 3 if low * 1000 <= value < high * 1000 else None


def names_time(name: str) -> bool:
    """Returns whether a field's name says that it is a time: `created_at`, `eventTime`, `ts`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and (bool(_TIME_WORDS.fullmatch(words[-1])) or words[0] in ("ts", "time", "timestamp"))


def names_identifier(name: str) -> bool:
    """Returns whether a field's name says that it identifies something: `id`, `user_id`, `orderId`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and words[-1] in ("id", "uuid", "guid", "key")


def _reads(make: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            return str(make(text)) == text.lower()
        except ValueError:
            return False

    return fits


is_uuid = _reads(uuid.UUID)
is_ipv4 = _reads(ipaddress.IPv4Address)
_is_ipv6 = _reads(ipaddress.IPv6Address)


def is_ipv6(text: str) -> bool:
    """Returns whether it is an IPv6 address; an IPv4 one counts as its mapping."""
    return "%" not in text and (_is_ipv6(text) or is_ipv4(text))


@dataclass(frozen=True)
class Leaf:
    """A type without elements; `digits` are precision and scale, or those of a fraction of a second."""

    name: str
    digits: tuple[int, ...] = ()
    nullable: bool = False
    dictionary: bool = False

    @property
    def text(self) -> str:
        arguments = [*map(str, self.digits), *([literal("UTC")] if self.name == "DateTime64" else [])]
        text = f"{self.name}({listed(arguments)})" if arguments else self.name
        text = f"Nullable({text})" if self.nullable else text
        return f"LowCardinality({text})" if self.dictionary else text


@dataclass(frozen=True)
class ArrayOf:
    element: Inferred

    @property
    def text(self) -> str:
        return f"Array({self.element.text})"


@dataclass(frozen=True)
class MapOf:
    """A Map of texts to values of one type."""

    value: Inferred

    @property
    def text(self) -> str:
        return f"Map(String, {self.value.text})"


@dataclass(frozen=True)
class TupleOf:
    elements: tuple[tuple[str, Inferred], ...]

    @property
    def text(self) -> str:
        return f"Tuple({listed(f'{identifier(name)} {kind.text}' for name, kind in self.elements)})"


Inferred = Leaf | ArrayOf | MapOf | TupleOf

STRING = Leaf("String")
JSON = Leaf("JSON")


def holds_null(kind: Inferred) -> bool:
    return isinstance(kind, Leaf) and kind.nullable


def is_container(kind: Inferred) -> bool:
    """Returns whether ClickHouse has no Nullable of it. A JSON counts as one: its empty value says enough."""
    return not isinstance(kind, Leaf) or kind.name == "JSON"


def may_lack(kind: Inferred) -> Inferred | None:
    """Returns the type for a field that some events lack: NULL, or an object whose every element is NULL. An
    array, a Map and a JSON are empty then; a Tuple that holds one cannot be, and there is None."""
    if not isinstance(kind, TupleOf):
        return nullable(kind)
    elements = [(name, None if _is_array(inner) else may_lack(inner)) for name, inner in kind.elements]
    possible = tuple((name, inner) for name, inner in elements if inner is not None)
    return TupleOf(possible) if len(possible) == len(elements) else None


def nullable_inside(kind: Inferred) -> Inferred:
    """Returns the type with NULL where it can be; of an object each element, as deep as there are objects."""
    if not isinstance(kind, TupleOf):
        return nullable(kind)
    return TupleOf(tuple((name, nullable_inside(inner)) for name, inner in kind.elements))


def _is_array(kind: Inferred) -> bool:
    return is_container(kind) and not isinstance(kind, TupleOf)


def nullable(kind: Inferred) -> Inferred:
    """Returns the type with NULL beside its values; a container stays as it is."""
    return replace(kind, nullable=True) if isinstance(kind, Leaf) and not is_container(kind) else kind


# The thresholds of the inference, all in one place.
def any_type(_: str) -> bool:
    return True


REJECTED_ROWS = 0.001


@dataclass(frozen=True)
class Rules:
    """What counts as few, many and stable.

    Args:
        certain: Sampled events from which on a field that all of them have is taken never to be missing, if
            its name says that it is an identifier or a time.
        unfit_values: Share of a field's values that a type may refuse; beyond it the type is widened.
        sure: Objects, or values, that have to agree before a Tuple relies on an element to be there.
        dictionary: Values that a LowCardinality needs; the different ones are at most a tenth of them.
        most_texts: Different texts that a LowCardinality has at most.
        map_keys: Different keys from which on objects with few keys each are a Map.
        tuple_keys: Different keys that a Tuple has at most.
        levels: Containers in containers; deeper ones are JSON or String.
        fills: Whether a load fills columns of a type. Types that it does not are not proposed.
    """

    certain: int = 10_000
    unfit_values: float = REJECTED_ROWS
    sure: int = 100
    dictionary: int = 20
    most_texts: int = 1_000
    map_keys: int = 20
    tuple_keys: int = 100
    levels: int = 5
    fills: Callable[[str], bool] = any_type

    def may_refuse(self, count: int) -> int:
        """Returns how many of `count` values a type may refuse."""
        return int(count * self.unfit_values)


_RANGES = {
    "UInt64": range(1 << 64),
    "Int64": range(-(1 << 63), 1 << 63),
    "Int128": range(-(1 << 127), 1 << 127),
}
_TEXTS: Mapping[str, Callable[[str], bool]] = {
    "UUID": is_uuid,
    "IPv4": is_ipv4,
    "IPv6": is_ipv6,
    "Date": is_date,
    "Date32": is_date32,
}
ValuePlace = tuple[str, Any]
"""`.items[3].price` and the value there."""


def unfit(kind: Inferred, value: Any) -> ValuePlace | None:
    """Returns the first place that does not fit, or None where all does."""
    return next(unfit_values(kind, value), None)


def unfit_values(kind: Inferred, value: Any, place: str = "") -> Iterator[ValuePlace]:
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
        yield from unfit_values(kind, value, place)


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
    digits = decimal_digits(value)
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
        written = epoch_digits(value)
        return written is not None and written <= digits
    fits = value_kind is Kind.TEXT and is_instant(value, digits)
    return fits and needed_digits(value) <= digits
