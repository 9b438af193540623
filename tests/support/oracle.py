"""What a JSON value has to become in a column of a type: computed in Python alone, from the types' documented
ranges (https://clickhouse.com/docs/sql-reference/data-types), never with a server.

Numbers keep their text (`Number`), so that nothing goes through a double before it is judged.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from tests.support.oracle_times import TIMES, instant, unit

_EXACT = Context(prec=400)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_LOOSE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


@dataclass(frozen=True)
class Expected:
    """The value that has to be there; `certain` False: it may be refused, but never be another one."""

    value: Any
    certain: bool = True


REJECTED = None
Verdict = Expected | None


def loads(text: str) -> Any:
    """A JSON text with its numbers as they are written."""
    return json.loads(text, parse_int=Number, parse_float=Number)


def integer(bits: int, signed: bool, value: Any) -> Verdict:
    if isinstance(value, bool) or value in ("true", "false"):
        return Expected(int(value in (True, "true")))
    number = _number(value)
    if number is None or number != number.to_integral_value(context=_EXACT):
        return REJECTED
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    found = int(number)
    if not low <= found <= high:
        return REJECTED
    plain = re.fullmatch(r"-?[1-9]\d*|0", value) is not None
    wide = isinstance(value, Number) and not -(1 << 63) <= found < 1 << 64
    return Expected(found, certain=plain and not wide)


def decimal(precision: int, scale: int, value: Any) -> Verdict:
    number = _number(value)
    if number is None:
        return REJECTED
    scaled = number.scaleb(scale, _EXACT)
    if scaled != scaled.to_integral_value(context=_EXACT) or _EXACT.abs(scaled) >= 10**precision:
        return REJECTED
    plain = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", value) is not None
    return Expected(number, certain=plain)


def floating(bits: int, value: Any) -> Verdict:
    """The nearest: of the text itself, or of the nearest double of it."""
    if _number(value) is None or not math.isfinite(float(value)):
        return REJECTED
    if isinstance(value, Number) and value == "-0":
        return Expected(Zero())
    found = float(value)
    if bits == 32:
        found = single(found)
    certain = _NUMBER.fullmatch(value) is not None
    return Expected({found}, certain) if math.isfinite(found) else REJECTED


def single(value: float) -> float:
    """The nearest of 32 bits; infinite beyond them."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _number(value: Any) -> Decimal | None:
    if not isinstance(value, str) or not _LOOSE.fullmatch(value):
        return None
    return _EXACT.create_decimal(value)


def boolean(value: Any) -> Verdict:
    if isinstance(value, bool):
        return Expected(value)
    number = _number(value)
    if number in (0, 1):
        return Expected(bool(number), certain=value in ("0", "1"))
    return Expected(value == "true") if value in ("true", "false") else REJECTED


def text(value: Any) -> Verdict:
    """A string as it is; anything else as JSON that says the same."""
    if isinstance(value, Number) or not isinstance(value, str):
        return Expected(SameJson(value), certain=not unreadable(value))
    return Expected(value)


@dataclass(frozen=True)
class SameJson:
    """Equals every JSON text of the value: numbers may be spelled in other ways, with all their digits."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and _says(loads(other), self.value)

    __hash__ = None


def _says(found: Any, value: Any) -> bool:
    if isinstance(value, Number) and isinstance(found, Number):
        return Decimal(value) == Decimal(found)
    if isinstance(value, list) and isinstance(found, list):
        return len(value) == len(found) and all(map(_says, found, value))
    if isinstance(value, dict) and isinstance(found, dict):
        return list(value) == list(found) and all(_says(found[key], value[key]) for key in value)
    return type(found) is type(value) and found == value


def ambiguous(value: Any) -> bool:
    """Whether two of its numbers are the same double, and not the same number."""
    numbers: dict[float, set[Decimal]] = {}
    for one in _numbers(value):
        numbers.setdefault(float(one), set()).add(Decimal(one))
    return any(len(same) > 1 for same in numbers.values())


def _numbers(value: Any) -> Iterator[str]:
    if isinstance(value, Number):
        yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _numbers(part)


def fixed(size: int, value: Any) -> Verdict:
    if not isinstance(value, str) or isinstance(value, Number):
        return Expected(Anything(), certain=False)
    data = value.encode()
    return Expected(data.ljust(size, b"\0")) if len(data) <= size else REJECTED


class Anything:
    """Equals all: for values of which only the counts are promised."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


def enum(names: tuple[str, ...], value: Any, numbers: tuple[int, ...] = ()) -> Verdict:
    """A name, or a JSON number that is one of the numbers; it may be spelled otherwise than either."""
    if isinstance(value, Number) and value not in names:
        same = [name for name in names if _number(name) is not None and _number(name) == _number(value)]
        if same:
            return Expected(same[0], certain=False)
        for name, number in zip(names, numbers, strict=False):
            if _number(value) == number:
                return Expected(name, certain=value == str(number))
        return REJECTED
    return Expected(value) if isinstance(value, str) and value in names else REJECTED


def parsed(read: Callable[[str], Any], value: Any) -> Verdict:
    """What a standard library class reads; other spellings than its own may be refused."""
    if not isinstance(value, str):
        return REJECTED
    try:
        found = read(value)
    except ValueError:
        return REJECTED
    return Expected(found, certain=str(found) == value)


def ipv6(value: Any) -> Verdict:
    """An IPv4 address counts as its mapping."""
    four = parsed(ipaddress.IPv4Address, value)
    if four is not None:
        return Expected(ipaddress.IPv6Address(f"::ffff:{four.value}"), four.certain)
    scoped = isinstance(value, str) and "%" in value  # a scope is of one machine only
    return REJECTED if scoped else parsed(ipaddress.IPv6Address, value)


def array(element: Callable[[Any], Verdict], nullable: bool, value: Any) -> Verdict:
    if not isinstance(value, list):
        return REJECTED
    found = [(Expected(None) if nullable else REJECTED) if v is None else element(v) for v in value]
    if any(verdict is None for verdict in found):
        return REJECTED
    certain = all(v.certain for v in found if v) and not unreadable(value, 1 << 63)
    return Expected([Zero() if v.value == {0.0} else v.value for v in found if v], certain)


class Zero:
    """Equals both: -0 is an integer to ClickHouse, which has one zero. So is -0.0 in a container, whose text
    is read a second time."""

    def __eq__(self, other: object) -> bool:
        return other == 0.0

    __hash__ = None


def unreadable(value: Any, limit: float = math.inf) -> bool:
    """Whether it holds a number that ClickHouse's JSON parser refuses, with all that is around: one beyond a
    double's range, or a whole one beyond 64 bits. In a container, which is read a second time, a double from
    `limit` on is a whole one."""
    if isinstance(value, Number):
        whole = value.lstrip("-").isdigit()
        return abs(float(value)) >= limit or (whole and not -(1 << 63) <= int(value) < 1 << 64)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(unreadable(part, limit) for part in parts)


def mapping(element: Callable[[Any], Verdict], value: Any) -> Verdict:
    if not isinstance(value, dict):
        return REJECTED
    found = {key: REJECTED if item is None else element(item) for key, item in value.items()}
    if any(verdict is None for verdict in found.values()):
        return REJECTED
    certain = all(v.certain for v in found.values() if v) and not unreadable(value, 1 << 63)
    return Expected({k: v.value for k, v in found.items() if v}, certain)


def time(name: str, digits: int, value: Any) -> Verdict:
    """`name` is a key of TIMES; the value is the text of toString() in UTC."""
    found = instant(value) if isinstance(value, str) else None
    if found is None or not found.whole or found.nanoseconds % unit(name, digits):
        return REJECTED
    written = TIMES[name](found.nanoseconds, digits)
    # 9017815302.905389 is a double that reads 9017815302.90539.
    kept = not isinstance(value, Number) or Decimal(repr(float(value))) == Decimal(value)
    return REJECTED if written is None else Expected(written, found.certain and kept)


UUID = uuid.UUID
IPV4 = ipaddress.IPv4Address
