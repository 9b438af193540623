"""From a field's text to a Date, Date32, DateTime or DateTime64, strictly (flow/load/casts/casts.py).

A time fits where its column has room for all of it: digits of a second that the column does not have are
zeros, and so is a Date's time of day.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sluice.clients.clickhouse.sql import Sql, both, either, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import FieldText, exact
from sluice.flow.load.casts.judged import let
from sluice.time_grammar import (
    AS_WRITTEN,
    EPOCHS,
    SECONDS_IN_OFFSET,
    SIZES,
    Spelled,
    text_pattern,
)

# Around each edge a year more: a day outside in its own zone may be inside in UTC.
_YEAR = "(?:1[89]|2[0-3])[0-9]{2}"
# [first, end) of what each type holds: https://clickhouse.com/docs/sql-reference/data-types
RANGES = {
    "Date": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2149, 6, 7, tzinfo=UTC)),
    "DateTime": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC)),
    "Date32": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
    "DateTime64": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
}

_DAY_SECONDS = 86_400
_EPOCH = "toDateTime64(0, 3, 'UTC')"
_UTC, _NANO = "'UTC'", 10**9
_SECONDS_IN_OFFSET = literal(SECONDS_IN_OFFSET)
# No minutes, or basic format without seconds; ClickHouse does not read all of these.
_SHORT = r"^(?:[0-9-]{8,10}[Tt ][0-9]{2}|[0-9]{8}[Tt ][0-9]{4})(?: ?[^0-9:.,].*)?$"
_ODD = literal(f"{_SHORT}|{SECONDS_IN_OFFSET}")
_COMPLETED = tuple(
    (literal(pattern), literal(written))
    for pattern, written in (
        (r"^([0-9-]+[Tt ][0-9]{2})( ?[^0-9:].*)?$", r"\1:00\2"),
        (
            r"^([0-9]{4})([0-9]{2})([0-9]{2})[Tt ]([0-9]{2}):?([0-9]{2})( ?[^0-9.,].*)?$",
            r"\1-\2-\3T\4:\5\6",
        ),
        # ClickHouse reads at most 19 digits; behind the ninth there are zeros.
        (r"([.,][0-9]{9})[0-9]+", r"\1"),
    )
)
_NUMBER = literal(r"^-?[0-9]{1,19}(?:[.][0-9]{1,9}0*)?$")
_NANOSECONDS_END = 9_223_372_036_855  # the first millisecond since 1970 whose nanoseconds exceed 64 bits


def time(kind: Type, x: str, key: FieldText, spelled: Spelled = AS_WRITTEN) -> str:
    """Returns the time that `x` is in the one grammar (sluice.time_grammar), whatever the column's zone."""
    digits = max(3, _digits(kind))
    zone = spelled.zone if kind.name in ("DateTime", "DateTime64") else None  # a day is what is written
    counted = _counted(x, digits, spelled.format if spelled.format in EPOCHS else None)
    if spelled.format in EPOCHS:
        value = _of_ticks(kind, digits, counted)
        return _as(kind, f"if({both(f'match({x}, {_NUMBER})', exact(x, key))}, {value}, NULL)")
    parsed = f"parseDateTime64BestEffortOrNull({_readable(x)}, {digits}, 'UTC')"
    first, end = (int(edge.timestamp()) * 10**digits for edge in RANGES[kind.name])
    # Milliseconds would be cut towards 1970, into the range.
    ticks = f"reinterpretAsInt64({parsed})"
    unit = _ticks(kind, digits)
    whole = f" * ({ticks} % {unit} = 0)" if unit > 1 else ""
    fits = f"{_spelled(x, parsed, digits, zone)} * ({ticks} >= {first}) * ({ticks} < {end}){whole} > 0"
    # A number of seconds or milliseconds is maybe another's double, also where that is a whole one.
    sure = either(f"substring({x}, 5, 1) = '-'", exact(x, key))
    odd = _of_ticks(kind, digits, _odd_ticks(x, digits, zone))
    rare = [f"match({x}, {_pattern(digits)})", odd]
    if spelled.format is None:
        rare += [both(f"match({x}, {_NUMBER})", exact(x, key)), _of_ticks(kind, digits, counted)]
    return _as(kind, f"multiIf({both(fits, sure)}, {parsed}, {', '.join(rare)}, NULL)")


def _as(kind: Type, value: str) -> str:
    return f"CAST({value}, {literal(f'Nullable({kind.text})')})"


def _readable(x: str) -> str:
    """ClickHouse knows T, Z and a point only. ISO 8601 has a comma, RFC 3339, section 5.6, small letters."""
    return f"replaceOne(upper({x}), ',', '.')"


def _of_ticks(kind: Type, digits: int, ticks: str) -> str:
    """Returns the DateTime64 of so many 10^-digits seconds since 1970; NULL where the column has no room."""
    first, end = (int(edge.timestamp()) * 10**digits for edge in RANGES[kind.name])
    unit, last = _ticks(kind, digits), min(end, 1 << 63) - 1
    whole = f" * (t % {unit} = 0)" if unit > 1 else ""
    fits = f"(t >= {first}) * (t <= {last}){whole} > 0"
    made = f"reinterpret(toInt64(assumeNotNull(t)), {literal(f'DateTime64({digits}, {_UTC})')})"
    return let([("t", ticks)], f"if({fits}, {made}, NULL)")


def _odd_ticks(x: str, digits: int, zone: str | None) -> str:
    """Returns the ticks of a text that ClickHouse does not read as it stands, or that is one of the zone.

    A local time that is there twice is the first of both to ClickHouse, too. One that the clock skips lies
    before the gap, so that its offset is the one before.
    """
    cut = f"if(match({x}, {_SECONDS_IN_OFFSET}), ':?[0-9]{{2}}$', '^')"
    text = f"replaceRegexpOne(assumeNotNull({x}), {cut}, '')"
    for pattern, written in _COMPLETED:
        text = f"replaceRegexpOne({text}, {pattern}, {written})"
    text = _readable(text)
    sign = f"if(match({x}, '-[0-9:]+$'), 1, -1)"
    away = f"if(match({x}, {_SECONDS_IN_OFFSET}), toInt64OrZero(right(assumeNotNull({x}), 2)) * {sign}, 0)"
    if zone:
        there = f"parseDateTime64BestEffortOrNull({text}, {digits}, {literal(zone)})"
        away += f" - if(match({x}, {_pattern(digits, local=True)}), timeZoneOffset({there}), 0)"
    parsed = f"parseDateTime64BestEffortOrNull({text}, {digits}, 'UTC')"
    return f"reinterpretAsInt64({parsed}) + ({away}) * {10**digits}"


def _counted(x: str, digits: int, form: str | None) -> str:
    """Returns the ticks of a number; without a format its size says the unit. NULL for a part of a tick."""
    number = "toInt128(accurateCastOrNull(n, 'Decimal(38, 9)') * 1000000000)"
    divisors = {name: 10 ** (9 + EPOCHS[name] - digits) for name in EPOCHS}
    if form is not None:
        divisor = str(divisors[form])
    else:
        sizes = ", ".join(
            f"{both(f'abs(n) >= {first * _NANO}', f'abs(n) < {end * _NANO}')}, {divisors[name]}"
            for name, (first, end) in SIZES.items()
        )
        divisor = f"multiIf(n = 0, 1, {sizes}, NULL)"
    whole = "if(n % d = 0, intDiv(n, d), NULL)"
    return let([("n", number.replace("(n,", f"({x},"))], let([("d", f"toInt128({divisor})")], whole))


def _ticks(kind: Type, digits: int) -> int:
    """Returns how many of 10^-digits seconds the column's last digit is."""
    if kind.name in ("Date", "Date32"):
        return int(_DAY_SECONDS * 10**digits)
    return int(10 ** (digits - _digits(kind)))


def _digits(kind: Type) -> int:
    return int(kind.arguments[0]) if kind.name == "DateTime64" else 0


def _pattern(digits: int, local: bool = False) -> Sql:
    """Returns the pattern of a text; behind so many digits of a second there are zeros."""
    named = text_pattern(_YEAR, rf"[0-9]{{1,{digits}}}0*", local)
    return Sql(literal(re.sub(r"\?P<\w+>", "?:", named)))


def of_stamp(kind: Type, x: str) -> str:
    """Returns a record's stamp, a DateTime64 with milliseconds, cut to the column's digits; NULL where it is
    out of range."""
    first, end = (int(edge.timestamp()) * 1000 for edge in RANGES[kind.name])
    if kind.arguments[:1] == ("9",):
        end = min(end, _NANOSECONDS_END)
    stamp = f"toUnixTimestamp64Milli({x})"
    fits = f"({stamp} >= {first}) * ({stamp} < {end}) > 0"
    # A cast multiplies what is behind a NULL, too.
    return f"if({fits}, CAST(if({fits}, {_cut(kind, x)}, {_EPOCH}), {literal(kind.text)}), NULL)"


def _spelled(x: str, parsed: str, digits: int, zone: str | None) -> str:
    """`x` is spelled as a time that ClickHouse reads right. The usual spelling is what the parsed time is
    written as, which is known in half the time that the expression takes."""
    usual = f"formatDateTime(if(endsWith({x}, 'Z'), {parsed}, NULL), '%Y-%m-%dT%H:%i:%S.%fZ') = {x}"
    others = f"match({x}, {_pattern(digits)}) * (match({x}, {_ODD}) = 0)"
    if zone:
        others += f" * (match({x}, {_pattern(digits, local=True)}) = 0)"
    return f"if({usual}, 1, {others})"


def _cut(kind: Type, parsed: str) -> str:
    """A cast to fewer than milliseconds cuts towards 1970, which is up before it."""
    digits = int(kind.arguments[0]) if kind.name == "DateTime64" else 3
    unit = f"toIntervalMillisecond({10 ** (3 - digits)})" if digits < 3 else ""
    return f"toStartOfInterval({parsed}, {unit})" if unit else parsed


CLOCKS = ("Time", "Time64")


def clock(kind: Type, x: str) -> str:
    """A time without a day: https://clickhouse.com/docs/sql-reference/data-types/time"""
    digits = int(kind.arguments[0]) if kind.name == "Time64" else 0
    fraction = rf"\d{{1,{digits}}}0*" if digits else "0+"
    # A sign, hours, minutes, seconds and what is finer; ClickHouse reads nine digits of that.
    pattern = literal(rf"^-?\d{{2,3}}:[0-5]\d:[0-5]\d(\.{fraction})?$")
    written = f"assumeNotNull({x})" if digits else f"splitByChar('.', assumeNotNull({x}))[1]"
    if digits:
        written = f"substring({written}, 1, position({written}, ':') + {6 + digits})"
    return f"if(match({x}, {pattern}), accurateCastOrNull({written}, {literal(kind.text)}), NULL)"
