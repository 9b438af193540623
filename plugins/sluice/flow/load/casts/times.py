"""From a field's text to a Date, Date32, DateTime or DateTime64, strictly (flow/load/casts/casts.py).

A time fits where its column has room for all of it: digits of a second that the column does not have are
zeros, and so is a Date's time of day.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sluice.clients.clickhouse.sql import Sql, both, either, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import FieldText, exact

# Around each edge a year more: a day outside in its own zone may be inside in UTC.
_DAY = r"(1[89]|2[0-3])\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_MINUTE, _ZONE = r"([01]\d|2[0-3]):[0-5]\d", r"[Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d"
# [first, end) of what each type holds: https://clickhouse.com/docs/sql-reference/data-types
RANGES = {
    "Date": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2149, 6, 7, tzinfo=UTC)),
    "DateTime": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC)),
    "Date32": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
    "DateTime64": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
}

_DAY_SECONDS = 86_400
_EPOCH = "toDateTime64(0, 3, 'UTC')"
_NANOSECONDS_END = 9_223_372_036_855  # the first millisecond since 1970 whose nanoseconds exceed 64 bits


def time(kind: Type, x: str, key: FieldText) -> str:
    """A time without a zone is UTC, whatever the column's zone."""
    digits = max(3, _digits(kind))
    # ClickHouse knows T and Z only; RFC 3339, section 5.6, has small letters, too.
    parsed = f"parseDateTime64BestEffortOrNull(upper({x}), {digits}, 'UTC')"
    first, end = (int(edge.timestamp()) * 10**digits for edge in RANGES[kind.name])
    # Milliseconds would be cut towards 1970, into the range.
    ticks = f"reinterpretAsInt64({parsed})"
    unit = _ticks(kind, digits)
    whole = f" * ({ticks} % {unit} = 0)" if unit > 1 else ""
    fits = f"{_spelled(x, parsed, digits)} * ({ticks} >= {first}) * ({ticks} < {end}){whole} > 0"
    # A number of seconds or milliseconds is maybe another's double, also where that is a whole one.
    sure = either(f"substring({x}, 5, 1) = '-'", exact(x, key))
    return f"CAST(if({both(fits, sure)}, {parsed}, NULL), {literal(f'Nullable({kind.text})')})"


def _ticks(kind: Type, digits: int) -> int:
    """Returns how many of 10^-digits seconds the column's last digit is."""
    if kind.name in ("Date", "Date32"):
        return int(_DAY_SECONDS * 10**digits)
    return int(10 ** (digits - _digits(kind)))


def _digits(kind: Type) -> int:
    return int(kind.arguments[0]) if kind.name == "DateTime64" else 0


def _spelling(digits: int) -> Sql:
    """Returns the pattern of a day, ISO 8601 with or without a zone, ten digits of seconds since the epoch or
    thirteen of milliseconds; behind so many digits of a second there are zeros."""
    fraction = rf"(\.\d{{1,{digits}}}0*)?"
    clock_ = rf"[Tt ]{_MINUTE}(:[0-5]\d{fraction})?({_ZONE})?"
    return Sql(literal(rf"^({_DAY}({clock_})?|\d{{10}}{fraction}|\d{{13}})$"))


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


def _spelled(x: str, parsed: str, digits: int) -> str:
    """`x` is spelled as a time is. The usual spelling is what the parsed time is written as, which is known
    in half the time that the expression takes."""
    usual = f"formatDateTime(if(endsWith({x}, 'Z'), {parsed}, NULL), '%Y-%m-%dT%H:%i:%S.%fZ') = {x}"
    return f"if({usual}, 1, match({x}, {_spelling(digits)}))"


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
