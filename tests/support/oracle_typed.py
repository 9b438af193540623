"""What a typed value has to become in a column of another type, by Python's own numbers and times.

A value is the same afterwards, or it does not fit. Values of floats are what they read as (their repr); where
whole numbers are wanted, it is the number itself.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from tests.support import oracle
from tests.support.oracle import IPV4, REJECTED, UUID, Expected, Verdict, ipv6
from tests.support.oracle_times import TIMES

_EXACT = Context(prec=400)
_NANO = 10**9
_DAY = 86_400 * _NANO


@dataclass(frozen=True)
class Shape:
    """A type's family and its parameters: bits, (precision, scale), digits, length or names."""

    family: str
    arguments: tuple = ()
    utc: bool = True


class Refused(Exception):
    """Nobody can say that every value of the one type is the same in the other."""


def shape(text: str) -> Shape:
    name, _, inside = text.partition("(")
    numbers = tuple(map(int, re.findall(r"\d+", inside)))
    whole = re.fullmatch(r"(U?)Int(\d+)", text)
    if whole:
        return Shape("int", (int(whole[2]), not whole[1]))
    if name.startswith("Float"):
        return Shape("float", (int(name[5:]),))
    if name.startswith("Enum"):
        return Shape("enum", tuple(re.findall(r"'(\w+)'", inside)))
    family = {"Decimal": "decimal", "Date": "day", "Date32": "day", "FixedString": "fixed"}.get(name, name)
    if name.startswith("DateTime"):
        digits = numbers[:1] if name == "DateTime64" else (0,)
        return Shape("moment", (name, *digits), "'UTC'" in inside)
    return Shape(family, (name,) if family == "day" else numbers)


# What each family's values are written as, in a column of another one.
TAKEN = {
    "int": {"int", "float", "decimal", "Bool", "String"},
    "float": {"int", "float", "decimal", "Bool", "String"},
    "decimal": {"int", "float", "decimal", "Bool", "String"},
    "Bool": {"Bool", "int", "String"},
    "day": {"day", "moment", "String"},
    "moment": {"moment", "day"},
    "enum": {"enum", "String"},
    "UUID": {"UUID", "String"},
    "IPv4": {"IPv4", "IPv6", "String"},
    "IPv6": {"IPv4", "IPv6", "String"},
    "fixed": {"fixed"},
}


def became(given: str, wanted: str, value: Any) -> Verdict:
    """Raises Refused."""
    if given == wanted:
        return Expected(value)
    mine, theirs = shape(given), shape(wanted)
    if mine.family == "String":
        return _of_text(theirs, value)
    _refuse(mine, theirs)
    if mine.family in ("day", "moment"):
        return _time(mine, theirs, value)
    if theirs.family == "fixed":
        return Expected(value.ljust(theirs.arguments[0], b"\0"))
    if mine.family in ("enum", "UUID", "IPv4", "IPv6"):
        return _named(theirs, value)
    if isinstance(value, float) and not math.isfinite(value):
        kept = {"float": value, "String": repr(value)}
        return Expected(kept[theirs.family]) if theirs.family in kept else REJECTED
    return _number(mine, theirs, value)


def _refuse(mine: Shape, theirs: Shape) -> None:
    if theirs.family not in TAKEN[mine.family]:
        raise Refused
    if {mine.family, theirs.family} == {"day", "moment"} and not (mine.utc and theirs.utc):
        raise Refused
    if mine.family == "float" and theirs.family == "int" and theirs.arguments[0] > 64:
        raise Refused
    if mine.family == "fixed" and theirs.arguments[0] < mine.arguments[0]:
        raise Refused


def _of_text(theirs: Shape, value: str) -> Verdict:
    """As a JSON string would."""
    if theirs.family in ("day", "moment"):
        return oracle.time(theirs.arguments[0], (*theirs.arguments, 0)[1], value)
    rules = {
        "int": lambda: oracle.integer(*theirs.arguments, value),
        "float": lambda: oracle.floating(*theirs.arguments, value),
        "decimal": lambda: oracle.decimal(*theirs.arguments, value),
        "Bool": lambda: oracle.boolean(value),
        "fixed": lambda: _padded(theirs.arguments[0], value),
    }
    return rules[theirs.family]() if theirs.family in rules else _named(theirs, value)


def _padded(size: int, value: str) -> Verdict:
    return Expected(value.encode().ljust(size, b"\0")) if len(value.encode()) <= size else REJECTED


def _named(theirs: Shape, value: Any) -> Verdict:
    text = str(value)
    if theirs.family == "enum":
        return oracle.enum(theirs.arguments, text)
    if theirs.family == "UUID":
        return oracle.parsed(UUID, text)
    if theirs.family == "IPv4":
        mapped = getattr(value, "ipv4_mapped", None)
        if mapped:  # the same address, in a spelling that may be refused
            return Expected(mapped, certain=False)
        return oracle.parsed(IPV4, text)
    return ipv6(text) if theirs.family == "IPv6" else Expected(value)


def _number(mine: Shape, theirs: Shape, value: Any) -> Verdict:
    written = _EXACT.create_decimal(repr(value) if isinstance(value, float) else str(value + 0))
    exact = Fraction(value)
    if theirs.family == "int":
        low, high = _edges(*theirs.arguments)
        return Expected(int(exact)) if exact.denominator == 1 and low <= exact <= high else REJECTED
    if theirs.family == "Bool":
        return Expected(bool(exact)) if exact in (0, 1) else REJECTED
    if theirs.family == "decimal":
        precision, scale = theirs.arguments
        units = written.scaleb(scale, _EXACT)
        whole = units == units.to_integral_value(context=_EXACT)
        fits = whole and _EXACT.abs(units) < 10**precision
        return Expected(written, certain=abs(written) < 10**15) if fits else REJECTED
    if theirs.family == "String":
        return Expected(bool(value) if mine.family == "Bool" else written)
    return _float(theirs.arguments[0], value, written)


def _float(bits: int, value: Any, written: Decimal) -> Verdict:
    """A whole number has to be one of them, a decimal has to read as one."""
    try:
        found = float(value) if bits == 64 else oracle.single(float(value))
    except OverflowError:
        return REJECTED
    if math.isinf(found):
        return REJECTED
    if isinstance(value, Decimal):
        digits = len(written.normalize(_EXACT).as_tuple().digits)
        near = abs(Fraction(found) - Fraction(value)) <= abs(Fraction(value)) / 2 ** (bits // 3)
        return Expected({found}, certain=digits <= (15 if bits == 64 else 6)) if near else REJECTED
    if Fraction(found) != Fraction(value):
        return REJECTED
    whole = 2 ** (53 if bits == 64 else 24)
    return Expected({found}, certain=isinstance(value, float) or abs(value) <= whole)


def _edges(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _time(mine: Shape, theirs: Shape, value: int) -> Verdict:
    """`value` is in nanoseconds since 1970."""
    if theirs.family == "String":
        return Expected(TIMES["Date32"](value, 0))
    name, digits = (*theirs.arguments, 0)[:2]
    kept = value % (_DAY if theirs.family == "day" else 10 ** (9 - digits)) == 0
    written = TIMES[name](value, digits)
    return Expected(written) if kept and written is not None else REJECTED
