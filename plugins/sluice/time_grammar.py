"""How a time may be written: one grammar for event times, columns, and what `init` and `doctor` say.

`text_pattern` and `NUMBER` are expressions that Python, Arrow and ClickHouse read alike. Each of these then
makes the instant by its own means, and one table of spellings is tried with all of them
(tests/support/spellings.py).

A text is ISO 8601: a day, and maybe a time of day behind a T or a space, in the extended format (`10:00:00`)
or the basic one (`100000`). Minutes and seconds may be missing. A fraction follows a point or a comma. The
offset is `Z`, `UTC`, or hours with or without minutes and seconds, maybe behind a space. Without an offset
the time is one of the `zone`, else of UTC. As in RFC 5545, section 3.3.5, a local time that is there twice
is the first of both, and one that the clock skips is read with the offset before the gap.

A number counts from 1970 in the unit that a format names. Without a format its size says the unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

TimeFormat = Literal["iso8601", "epoch_s", "epoch_ms", "epoch_us", "epoch_ns"]
TEXT: Final = "iso8601"
EPOCHS: Mapping[str, int] = {"epoch_s": 0, "epoch_ms": 3, "epoch_us": 6, "epoch_ns": 9}
"""Formats of numbers: how many digits of a second their unit is."""
SIZES: Mapping[str, tuple[int, int]] = {
    "epoch_s": (10**8, 10**10),
    "epoch_ms": (10**11, 10**13),
    "epoch_us": (10**14, 10**16),
    "epoch_ns": (10**17, 10**19),
}
"""Of a number without a format: the sizes [first, end) that say the unit. All are of the years from 1973 to
2286, and as long before 1970. Nearer to 1970 it may be anything: a year, a day (20261120), a sentinel. 0 is
1970."""

NUMBER = r"^-?[0-9]{1,19}(?:\.[0-9]+)?$"
_MONTH, _DAY_OF_MONTH = "0[1-9]|1[0-2]", "0[1-9]|[12][0-9]|3[01]"
_HOUR, _SIXTY = "[01][0-9]|2[0-3]", "[0-5][0-9]"
_MOST_CHARACTERS = 200
_EPOCH = date(1970, 1, 1)
_DAY = 86_400
_NANO = 10**9


def text_pattern(year: str = "[0-9]{4}", fraction: str = "[0-9]+", local: bool = False) -> str:
    """Returns the expression of a text; `local`: of one without an offset. `year` and `fraction` narrow these
    parts."""
    extended = _written(year, fraction, "-", ":", "1", local)
    return f"^(?:{extended}|{_written(year, fraction, '', '', '2', local)})$"


def _written(year: str, fraction: str, dash: str, colon: str, number: str, local: bool) -> str:
    """Returns the expression of the extended or the basic format; the offset may be in either."""

    def part(name: str, pattern: str) -> str:
        return f"(?P<{name}{number}>{pattern})"

    day = dash.join((part("y", year), part("m", _MONTH), part("d", _DAY_OF_MONTH)))
    seconds = f"{colon}{part('s', _SIXTY)}(?:[.,]{part('f', fraction)})?"
    clock = f"[Tt ]{part('h', _HOUR)}(?:{colon}{part('i', _SIXTY)}(?:{seconds})?)?"
    extended = f":{part('oi', _SIXTY)}(?::{part('os', _SIXTY)})?"
    basic = f"{part('oi_', _SIXTY)}{part('os_', _SIXTY)}?"
    away = f"{part('sign', '[+-]')}{part('oh', _HOUR)}(?:{extended}|{basic})?"
    offset = "" if local else f"(?: ?(?:{part('utc', '[Zz]|UTC')}|{away}))?"
    # Eight digits alone are more often a number than a day.
    return f"{day}(?:{clock}{offset}){'?' if dash else ''}"


@dataclass(frozen=True)
class Spelled:
    """What the pipeline file says of times: their format, and the zone of those without an offset."""

    format: TimeFormat | None = None
    zone: str | None = None


AS_WRITTEN = Spelled()
SECONDS_IN_OFFSET = r"[+-][0-9]{2}(?::[0-9]{2}:[0-9]{2}|[0-9]{4})$"
"""Of a text of the grammar: its offset has seconds."""
_TEXT = re.compile(text_pattern())
_NUMBER = re.compile(NUMBER)


@dataclass(frozen=True)
class Moment:
    """`nanoseconds` since 1970, rounded down. `digits` of a second say something. `offset` from UTC in
    seconds, None where none is written."""

    nanoseconds: int
    digits: int = 0
    offset: int | None = 0

    @property
    def local(self) -> bool:
        return self.offset is None


@lru_cache(100)
def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError for a name that is none of an IANA time zone."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{name!r} is no IANA time zone such as Europe/Berlin") from None


def offset_seconds(zone: str, local_seconds: int) -> int:
    """Returns the offset from UTC at a local time, given as seconds since 1970."""
    moment = datetime(1970, 1, 1) + timedelta(seconds=local_seconds)
    offset = zone_of(zone).utcoffset(moment)
    return 0 if offset is None else int(offset.total_seconds())


def instant_of_text(text: str, zone: str | None = None) -> Moment | None:
    """Returns None for what is no time of the grammar."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    parts = {name.rstrip("12_"): value for name, value in found.groupdict().items() if value}
    try:
        day = date(int(parts["y"]), int(parts["m"]), int(parts["d"]))
    except ValueError:
        return None
    seconds = (day - _EPOCH).days * _DAY + _seconds(parts, "h", "i", "s")
    local = not ("utc" in parts or "sign" in parts)
    if local and zone:
        seconds -= offset_seconds(zone, seconds)
    away = _seconds(parts, "oh", "oi", "os") * (-1 if parts.get("sign") == "-" else 1)
    seconds -= away
    fraction = parts.get("f", "").rstrip("0")
    return Moment(seconds * _NANO + int(fraction[:9].ljust(9, "0")), len(fraction), None if local else away)


def _seconds(parts: Mapping[str, str], *names: str) -> int:
    return sum(int(parts.get(name, "0")) * unit for name, unit in zip(names, (3600, 60, 1), strict=True))


def read_number(value: str | int | Decimal, form: str | None = None) -> Moment | None:
    """Returns None for what counts no time; without a format, where the size does not say the unit."""
    text = str(value) if isinstance(value, str | int) else f"{value:f}" if _is_plain(value) else ""
    if not _NUMBER.fullmatch(text):
        return None
    unit = EPOCHS.get(form or unit_of(Decimal(text)) or "")
    if unit is None:
        return None
    whole, _, after = text.partition(".")
    fraction, room = after.rstrip("0"), 9 - unit
    nanoseconds = abs(int(whole)) * 10**room + int(fraction[:room].ljust(room, "0") or 0)
    if text.startswith("-"):
        nanoseconds = -nanoseconds - (len(fraction) > room)
    return Moment(nanoseconds, unit + len(fraction) if fraction else _needed(int(whole), unit))


def _needed(count: int, unit: int) -> int:
    """Returns how many digits of a second a whole number of 10^-unit seconds needs."""
    while unit and count % 10 == 0:
        count, unit = count // 10, unit - 1
    return unit


def unit_of(number: Decimal | int) -> str | None:
    """Returns the format that the size of a number says; None where it says none."""
    whole = abs(int(number))
    if number == 0:
        return "epoch_s"
    return next((form for form, (first, end) in SIZES.items() if first <= whole < end), None)


_UNSAID = {"epoch_s": "[0-9]{1,7}", "epoch_ms": "[1-9][0-9]{10}", "epoch_ns": "[1-9][0-9]{16}"}
"""By format the numbers that it reads, and whose size says no unit: they are smaller than those of the unit.
One of 8 or 14 digits is more often a day."""


def unsaid_patterns(signed: bool = True) -> dict[str, str]:
    """Returns the expressions of these numbers; only `signed` ones may be below 0."""
    sign = "-?" if signed else ""
    return {form: rf"^{sign}0*{digits}(?:\.[0-9]+)?$" for form, digits in _UNSAID.items()}


def unsaid_format(value: Any) -> str | None:
    """Returns the format that would read a number whose size says no unit, None for anything else."""
    text = "" if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal) else str(value)
    if _NUMBER.fullmatch(text) and not text.strip("-0."):
        return None
    return next((form for form, pattern in unsaid_patterns().items() if re.fullmatch(pattern, text)), None)


def _is_plain(value: Decimal) -> bool:
    return value.is_finite() and abs(value.adjusted()) < _MOST_CHARACTERS


def read_time(value: Any, form: str | None = None, zone: str | None = None) -> Moment | None:
    """Returns what a JSON value means as a time of the format; None where it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, str) and form in (None, TEXT):
        found = instant_of_text(value, zone)
        if found is not None or form == TEXT:
            return found
    return read_number(value, form) if isinstance(value, str | int | Decimal) and form != TEXT else None


def instant(moment: Moment) -> datetime:
    """Raises OverflowError for a year that no datetime has."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment.nanoseconds // 1000)
