"""From a field's text to a value that is no container, strictly (flow/load/casts/casts.py)."""

from __future__ import annotations

import re

from sluice.clients.clickhouse.sql import both, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.decimals import decimal
from sluice.flow.load.casts.exact_numbers import FieldText, exact
from sluice.flow.load.casts.judged import UnsupportedType
from sluice.flow.load.casts.times import CLOCKS, RANGES, clock, time

_INTEGERS = re.compile(r"U?Int(8|16|32|64)")
_WIDE_INTEGERS = re.compile(r"U?Int(128|256)")
_INTERVALS = re.compile(r"Interval[A-Z][a-z]+")
_PASSED_THROUGH = ("UUID", "IPv4", "IPv6", "FixedString")
ENUMS = ("Enum8", "Enum16")
_NUMBER_NAMED = re.compile(r"'-?[0-9]")  # a name that a JSON number may be taken for
_WHOLE = literal("^(0|-?[1-9][0-9]{0,4})$")


def scalar(kind: Type, x: str, key: FieldText, quoted: str) -> str:
    """Returns the value of `x`, NULL where it does not fit; see `cast`. Raises UnsupportedType."""
    if kind.name == "String":
        return x
    if _INTEGERS.fullmatch(kind.name):
        return f"if({exact(x, key)}, accurateCastOrNull({x}, '{kind.name}'), NULL)"
    if kind.name in _PASSED_THROUGH:
        return f"accurateCastOrNull({x}, {literal(kind.text)})"
    if _WIDE_INTEGERS.fullmatch(kind.name):
        # These wrap around without a word: the value has to read as it was written.
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        return f"if({both(f'toString({number}) = {x}', exact(x, key))}, {number}, NULL)"
    if kind.name in ("Float32", "Float64"):
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        return f"if(isFinite({number}), {number}, NULL)"
    if kind.name == "BFloat16":
        return _half_float(x)
    if kind.name == "Decimal":  # as ClickHouse names Decimal32(4), too
        return decimal(kind, x, key)
    if kind.name in RANGES:
        return time(kind, x, key)
    if kind.name in CLOCKS:
        return clock(kind, x)
    if kind.name == "Bool":
        words = {"true": "true", "false": "false", "1": "true", "0": "false"}
        value = ", ".join(f"{x} = '{word}', {truth}" for word, truth in words.items())
        return f"if({exact(x, key)}, multiIf({value}, NULL), NULL)"
    if kind.name in ENUMS:
        return _enum(kind, x, key, quoted)
    if _INTERVALS.fullmatch(kind.name):
        number = f"if({exact(x, key)}, accurateCastOrNull({x}, 'Int64'), NULL)"
        return f"CAST({number}, 'Nullable({kind.name})')"
    raise UnsupportedType(kind.text)


def _half_float(x: str) -> str:
    """Returns the nearest, of two the even one: ClickHouse cuts the bits of a Float32 off. The last condition
    leaves out what rounds to infinity."""
    bits = f"reinterpretAsUInt32(assumeNotNull(accurateCastOrNull({x}, 'Float32')))"
    upper = f"bitShiftRight({bits} + 32767 + bitAnd(bitShiftRight({bits}, 16), 1), 16)"
    number = f"reinterpret(toUInt16({upper}), 'BFloat16')"
    finite = both(f"isFinite(accurateCastOrNull({x}, 'Float32'))", f"isFinite(CAST({number}, 'Float32'))")
    return f"if({finite}, {number}, NULL)"


def _enum(kind: Type, x: str, key: FieldText, quoted: str) -> str:
    """Returns a name, or a JSON number that is one of the type's numbers; where both are, the name."""
    pairs = [part.rpartition("=") for part in kind.arguments]
    names = ", ".join(name.strip() for name, _, _ in pairs)
    member = f"transform({x}, [{names}], [{names}], NULL)"
    if _NUMBER_NAMED.search(names):
        member = f"if({exact(x, key)}, {member}, NULL)"
    if quoted:
        texts = ", ".join(literal(number.strip()) for _, _, number in pairs)
        numbered = f"transform({x}, [{texts}], [{names}], NULL)"
        is_number = both(f"match(assumeNotNull({x}), {_WHOLE})", f"NOT ({quoted})", exact(x, key))
        member = f"if(isNotNull({member}), {member}, if({is_number}, {numbered}, NULL))"
    return f"CAST({member}, {literal(f'Nullable({kind.text})')})"
