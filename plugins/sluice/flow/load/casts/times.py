"""From a field's text to a Date, Date32, DateTime or DateTime64, strictly (flow/load/casts/casts.py)."""

from __future__ import annotations

from datetime import UTC, datetime

from sluice.clients.clickhouse.sql import Sql, both, either, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import FieldText, exact

# Around each edge a year more: a day outside in its own zone may be inside in UTC.
_DAY = r"(1[89]|2[0-3])\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_CLOCK = r"[Tt ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?([Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d)?"
# A day, ISO 8601 with or without a zone, ten digits of seconds since the epoch or thirteen of milliseconds.
_TIME = Sql(literal(rf"^({_DAY}({_CLOCK})?|\d{{10}}(\.\d+)?|\d{{13}})$"))
# [first, end) of what each type holds: https://clickhouse.com/docs/sql-reference/data-types
RANGES = {
    "Date": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2149, 6, 7, tzinfo=UTC)),
    "DateTime": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC)),
    "Date32": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
    "DateTime64": (datetime(1900, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
}

_EPOCH = "toDateTime64(0, 3, 'UTC')"
_NANOSECONDS_END = 9_223_372_036_855  # the first millisecond since 1970 whose nanoseconds exceed 64 bits


def time(kind: Type, x: str, key: FieldText) -> str:
    """A time without a zone is UTC, whatever the column's zone; what is finer than the column is cut off."""
    digits = max(3, int(kind.arguments[0])) if kind.name == "DateTime64" else 3
    # ClickHouse knows T and Z only; RFC 3339, section 5.6, has small letters, too.
    parsed = f"parseDateTime64BestEffortOrNull(upper({x}), {digits}, 'UTC')"
    cut = _cut(kind, parsed)
    first, end = (int(edge.timestamp()) * 10**digits for edge in RANGES[kind.name])
    # Milliseconds would be cut towards 1970, into the range.
    ticks = f"reinterpretAsInt64({parsed})"
    fits = f"{_spelled(x, parsed)} * ({ticks} >= {first}) * ({ticks} < {end}) > 0"
    # A number of seconds or milliseconds is maybe another's double, also where that is a whole one.
    sure = either(f"substring({x}, 5, 1) = '-'", exact(x, key))
    return f"CAST(if({both(fits, sure)}, {cut}, NULL), {literal(f'Nullable({kind.text})')})"


def of_stamp(kind: Type, x: str) -> str:
    """Returns the same of a DateTime64 with milliseconds; NULL where it is out of range."""
    first, end = (int(edge.timestamp()) * 1000 for edge in RANGES[kind.name])
    if kind.arguments[:1] == ("9",):
        end = min(end, _NANOSECONDS_END)
    stamp = f"toUnixTimestamp64Milli({x})"
    fits = f"({stamp} >= {first}) * ({stamp} < {end}) > 0"
    # A cast multiplies what is behind a NULL, too.
    return f"if({fits}, CAST(if({fits}, {_cut(kind, x)}, {_EPOCH}), {literal(kind.text)}), NULL)"


def _spelled(x: str, parsed: str) -> str:
    """`x` is spelled as a time is. The usual spelling is what the parsed time is written as, which is known
    in half the time that the expression takes."""
    usual = f"formatDateTime(if(endsWith({x}, 'Z'), {parsed}, NULL), '%Y-%m-%dT%H:%i:%S.%fZ') = {x}"
    return f"if({usual}, 1, match({x}, {_TIME}))"


def _cut(kind: Type, parsed: str) -> str:
    """A cast to fewer than milliseconds cuts towards 1970, which is up before it."""
    digits = int(kind.arguments[0]) if kind.name == "DateTime64" else 3
    unit = f"toIntervalMillisecond({10 ** (3 - digits)})" if digits < 3 else ""
    return f"toStartOfInterval({parsed}, {unit})" if unit else parsed


# A sign, hours, minutes, seconds and what is finer: https://clickhouse.com/docs/sql-reference/data-types/time
_WRITTEN = Sql(literal(r"^-?\d{2,3}:[0-5]\d:[0-5]\d(\.\d{1,9})?$"))
CLOCKS = ("Time", "Time64")


def clock(kind: Type, x: str) -> str:
    """A time without a day; what is finer than the column is cut off."""
    written = x if kind.name == "Time64" else f"splitByChar('.', assumeNotNull({x}))[1]"
    return f"if(match({x}, {_WRITTEN}), accurateCastOrNull({written}, {literal(kind.text)}), NULL)"
