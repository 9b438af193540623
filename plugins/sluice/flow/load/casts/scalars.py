"""From a field's text to a value that is no container, strictly (flow/load/casts/casts.py)."""

from __future__ import annotations

import re

from sluice.clients.clickhouse.sql import both, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import SHORT, FieldText, exact, spelled_out, unrounded
from sluice.flow.load.casts.judged import UnsupportedType, let
from sluice.flow.load.casts.times import CLOCKS, RANGES, clock, time
from sluice.time_grammar import AS_WRITTEN, Spelled

_INTEGERS = re.compile(r"U?Int(8|16|32|64)")
_WIDE_INTEGERS = re.compile(r"U?Int(128|256)")
_INTERVALS = re.compile(r"Interval[A-Z][a-z]+")
_PASSED_THROUGH = ("UUID", "IPv4", "IPv6")
ENUMS = ("Enum8", "Enum16")
_NUMBER_NAMED = re.compile(r"'-?[0-9]")  # a name that a JSON number may be taken for
_WHOLE = literal("^(0|-?[1-9][0-9]{0,4})$")


def scalar(kind: Type, x: str, key: FieldText, quoted: str, spelled: Spelled = AS_WRITTEN) -> str:
    """Returns the value of `x`, NULL where it does not fit; see `cast`. Raises UnsupportedType."""
    if kind.name == "String":
        return spelled_out(x, key, quoted)
    if _INTEGERS.fullmatch(kind.name):
        return f"if({exact(x, key)}, {_integer(kind, x)}, NULL)"
    if kind.name == "FixedString":
        return f"accurateCastOrNull({spelled_out(x, key, quoted)}, {literal(kind.text)})"
    if kind.name in _PASSED_THROUGH:
        return f"accurateCastOrNull({x}, {literal(kind.text)})"
    if _WIDE_INTEGERS.fullmatch(kind.name):
        # These wrap around without a word: the value has to read as it was written.
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        same = both(f"toString({number}) = {x}", exact(x, key))
        return f"if({x} IN ('true', 'false'), {_truth(kind, x)}, if({same}, {number}, NULL))"
    if kind.name in ("Float32", "Float64"):
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        return f"if(isFinite({number}), {number}, NULL)"
    if kind.name == "BFloat16":
        return _half_float(x)
    if kind.name == "Decimal":  # as ClickHouse names Decimal32(4), too
        return decimal(kind, x, key, quoted)
    if kind.name in RANGES:
        return time(kind, x, key, spelled)
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


def _integer(kind: Type, x: str) -> str:
    return f"ifNull(accurateCastOrNull({x}, '{kind.name}'), {_truth(kind, x)})"


def _truth(kind: Type, x: str) -> str:
    """Returns 1 of true and 0 of false, NULL of all else."""
    return f"if({x} = 'true', CAST(1, '{kind.name}'), if({x} = 'false', CAST(0, '{kind.name}'), NULL))"


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


# From a field's text to a decimal, strictly (flow/load/casts/casts.py).
_EXACT_POWERS = 18  # 10 to these fits UInt64, and is a double without rounding
_WIDTHS = {9: 32, 18: 64, 38: 128, 76: 256}  # the digits that so many bits hold


def decimal(kind: Type, x: str, key: FieldText, quoted: str = "") -> str:
    """Refuses more digits after the point than the scale. Digits that the JSON parser has rounded are those
    that the event has."""
    precision, scale = map(int, kind.arguments)
    fits = both("isNotNull(accurateCastOrNull(w, 'Float64'))", f"{_digits_after_the_point('w')} <= {scale}")
    written = f"if({exact(x, key)}, {x}, {spelled_out(x, key, quoted)})"
    odd = let([("w", written)], f"if({fits}, {_within(kind, precision, scale, 'w')}, NULL)")
    # Nearly every value passes the cheap conditions; the others are evaluated for the rest only.
    fraction = rf"([.][0-9]{{1,{scale}}})?" if scale else ""
    plain = f"match({x}, {literal(f'^-?[0-9]+{fraction}$')}) * {unrounded(key)}"
    text = f"if({plain} > 0, {_within(kind, precision, scale, x)}, {odd})"
    return _by_double(kind, precision, scale, x, key, text) if scale <= _EXACT_POWERS else text


def _within(kind: Type, precision: int, scale: int, x: str) -> str:
    """ClickHouse checks what the bits hold, not the precision: 12345.6 would be a Decimal(5, 2)."""
    value = f"accurateCastOrNull({x}, {literal(kind.text)})"
    widest = _widest(precision)
    if precision == widest:
        return value
    # All the bits hold, with as many digits before the point.
    room = f"Decimal({widest}, {scale + widest - precision})"
    return f"if(isNotNull(accurateCastOrNull({x}, '{room}')), {value}, NULL)"


def _widest(precision: int) -> int:
    return next(widest for widest in _WIDTHS if precision <= widest)


def _by_double(kind: Type, precision: int, scale: int, x: str, key: FieldText, otherwise: str) -> str:
    """Returns the same by arithmetic where few digits let a double say it all, in half the time.

    Two decimals of at most SHORT digits are never the same double (DBL_DIG of IEEE 754). One is written, the
    other is `units` of the column's last digit: where that is the same double, it is what was written. One
    character more is the point; sixteen digits without one are an integer, and the limit of `units` leaves
    those that begin with zeros. A zero may be less than any double: "1e-400".
    """
    double = f"toFloat64OrNull({x})"
    units = f"round({double} * {10**scale})"
    short = f"(length({x}) + {SHORT} * ({double} = 0) <= {SHORT + 1}) * {unrounded(key)}"
    same = f"(abs({units}) < {10 ** min(SHORT, precision)}) * ({units} / {10**scale} = {double})"
    width = _WIDTHS[_widest(precision)]
    return f"if({short} * {same} > 0, reinterpret(toInt{width}({units}), {literal(kind.text)}), {otherwise})"


def _digits_after_the_point(x: str) -> str:
    """Returns how many a number's text needs: 1.50 needs one, 25e-3 three, 1200 none, 12e2 as many as -2; 0
    none."""
    mantissa = f"splitByChar('e', lower(assumeNotNull({x})))[1]"
    exponent = f"toInt32OrZero(splitByChar('e', lower(assumeNotNull({x})))[2])"
    digits = f"extractAllGroups({mantissa}, '^[+-]?([0-9]*)[.]?([0-9]*)$')[1]"
    kept = f"replaceRegexpOne(concat({digits}[1], {digits}[2]), '0+$', '')"
    needed = f"length({kept}) - length({digits}[1]) - {exponent}"
    return f"if(empty({kept}), 0, {needed})"
