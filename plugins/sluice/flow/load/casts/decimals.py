"""From a field's text to a decimal, strictly (flow/load/casts/casts.py)."""

from __future__ import annotations

from sluice.clients.clickhouse.sql import both, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import SHORT, FieldText, exact, unrounded

_EXACT_POWERS = 18  # 10 to these fits UInt64, and is a double without rounding
_WIDTHS = {9: 32, 18: 64, 38: 128, 76: 256}  # the digits that so many bits hold


def decimal(kind: Type, x: str, key: FieldText) -> str:
    """Refuses more digits after the point than the scale, and digits that the JSON parser has rounded."""
    precision, scale = map(int, kind.arguments)
    value = _within(kind, precision, scale, x)
    number = f"isNotNull(accurateCastOrNull({x}, 'Float64'))"
    fits = both(number, f"{_digits_after_the_point(x)} <= {scale}", exact(x, key))
    # Nearly every value passes the cheap conditions; the others are evaluated for the rest only.
    fraction = rf"([.][0-9]{{1,{scale}}})?" if scale else ""
    plain = f"match({x}, {literal(f'^-?[0-9]+{fraction}$')}) * {unrounded(key)}"
    text = f"if({plain} > 0, {value}, if({fits}, {value}, NULL))"
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
