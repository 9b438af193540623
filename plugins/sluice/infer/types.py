"""The types that the inference proposes, their names in ClickHouse, and whether a value fits one."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

from sluice.clients.clickhouse.sql import identifier, listed, literal
from sluice.infer.values import Kind, becomes_json, is_text, kind_of, readable, scale, within_double
from sluice.time_grammar import EPOCHS, instant_of_text, unit_of

# What texts and numbers are spelled as: days, instants, UUIDs, addresses; as strict as a load's casts.

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = date(1970, 1, 1)
_FIRST, _END = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2300))
_NANOSECONDS_END = 9_223_372_036  # seconds since 1970 that 64 bits hold as nanoseconds
_SECONDS = (10**9, 4_102_444_800)  # 2001-09-09 until 2100-01-01: ten digits, as a load wants them
_MOST_OFFSET = 14 * 3600  # no place is further from UTC
_MICROSECONDS = 6
_DAY_LENGTH = len("2026-11-20")
_FRACTION = re.compile(r"[.,](\d+)", re.ASCII)
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
    """Returns whether a DateTime64 of so many digits holds it, and it has a time of day: eight digits alone
    are more often a number."""
    moment = instant_of_text(text) if len(text) > _DAY_LENGTH else None
    if moment is None or abs(moment.offset or 0) > _MOST_OFFSET:
        return False
    seconds = moment.nanoseconds // 10**9
    return _FIRST <= seconds < (min(_END, _NANOSECONDS_END) if digits > _MICROSECONDS else _END)


def fraction_digits(text: str) -> int:
    """Returns how many digits of a second's fraction are written."""
    found = _FRACTION.search(text) if is_instant(text) else None
    return len(found[1]) if found else 0


def needed_digits(text: str) -> int:
    """Returns how many of them say something: zeros at the end do not."""
    moment = instant_of_text(text)
    return moment.digits if moment else 0


def epoch_digits(value: Any) -> int | None:
    """Digits of a second that a number which counts from 1970 needs: 0, 3, 6 or 9 by its unit, or those of
    its fraction; None where it does not resemble one."""
    low, high = _SECONDS
    if not isinstance(value, int):
        digits = -int(value.as_tuple().exponent) if isinstance(value, Decimal) else -1
        return digits if low <= value < high and 0 <= digits <= _MICROSECONDS else None
    return next((unit for unit in EPOCHS.values() if low * 10**unit <= value < high * 10**unit), None)


def counts(value: Any, unit: str) -> bool:
    """Returns whether a DateTime64 of the unit's digits holds a number that counts in it."""
    scale = 10 ** EPOCHS[unit]
    return isinstance(value, int) and _FIRST * scale <= value < min(_END, _NANOSECONDS_END) * scale


def unit_beside(values: Sequence[Any]) -> str:
    """Returns the unit that most numbers of a time's field say by their size, where the others are nearer to
    1970, so that theirs says none; empty where they may be no times."""
    stamps = [unit_of(value) for value in values if epoch_digits(value) is not None]
    unit = stamps[0] if stamps else None
    if unit is None or 2 * len(stamps) <= sum(value != 0 for value in values):
        return ""
    alike = all(value == 0 or unit_of(value) in (unit, None) for value in values)
    return unit if alike and all(counts(value, unit) for value in values) else ""


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
    """A type without elements; `digits` are precision and scale, or those of a fraction of a second. `unit`:
    the format of numbers that are times, if some of them have no size that says it."""

    name: str
    digits: tuple[int, ...] = ()
    nullable: bool = False
    dictionary: bool = False
    unit: str = ""

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
        return is_text(value)
    if kind.name == "JSON":
        return value_kind is Kind.OBJECT and becomes_json(value) and readable(value)
    if kind.name == "Bool":
        return value_kind is Kind.BOOL
    if kind.unit:
        return value_kind is Kind.NUMBER and counts(value, kind.unit)
    if kind.name == "DateTime64":
        return _instant(kind.digits[0], value_kind, value)
    if kind.name in _TEXTS:
        return value_kind is Kind.TEXT and _TEXTS[kind.name](value)
    if kind.name == "Decimal" and value_kind is Kind.TEXT:
        return _amount(kind, value)
    return value_kind in (Kind.NUMBER, Kind.UNREADABLE) and _number(kind, value)


def _amount(kind: Leaf, value: str) -> bool:
    precision, places = kind.digits
    digits = decimal_digits(value)
    return digits is not None and digits[1] <= places and digits[0] <= precision - places


def _number(kind: Leaf, value: Any) -> bool:
    if kind.name in _RANGES:
        return isinstance(value, int) and value in _RANGES[kind.name]
    if kind.name == "Float64":
        return within_double(value)
    precision, places = kind.digits
    digits = 0 if isinstance(value, int) else scale(value)
    number = Decimal(value) if isinstance(value, int) else Decimal(str(value))
    return digits is not None and digits <= places and abs(number) < Decimal(10) ** (precision - places)


def _instant(digits: int, value_kind: Kind, value: Any) -> bool:
    if value_kind is Kind.NUMBER:
        written = epoch_digits(value)
        return written is not None and written <= digits
    fits = value_kind is Kind.TEXT and is_instant(value, digits)
    return fits and needed_digits(value) <= digits
