"""Times as whole nanoseconds, in integers only: what a text says, and what a column of a type holds of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction

_TEXT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"([Tt ](?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d+))?)?"
    r"(?P<zone>[Zz]|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1)
_DAY = 86_400
_NANO = 10**9


@dataclass(frozen=True)
class Instant:
    """Since the epoch. `certain` False: a spelling that may be refused. `whole` False: no whole number of
    nanoseconds."""

    nanoseconds: int
    certain: bool
    whole: bool = True


def instant(text: str) -> Instant | None:
    """None for what is no time. A time without a zone is UTC."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return _epoch(text)
    try:
        days = (date.fromisoformat(found["day"]) - _EPOCH).days
    except ValueError:
        return None
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    offset = _offset(found["zone"])
    if offset is None:
        return None
    seconds = days * _DAY + hour * 3600 + minute * 60 + second - offset
    fraction = found["fraction"] or ""
    certain = len(fraction) <= 9 and abs(offset) <= 14 * 3600
    return Instant(seconds * _NANO + int(fraction[:9].ljust(9, "0")), certain, not fraction[9:].strip("0"))


# Digits before the point of a number that says its unit: how many of a second's digits that is.
_UNITS = {9: 0, 10: 0, 12: 3, 13: 3, 15: 6, 16: 6, 18: 9, 19: 9}


def _epoch(text: str) -> Instant | None:
    """A number whose size says the unit, or 0; as a JSON number in any spelling. Else another spelling of
    ISO 8601, as Python reads it."""
    plain = re.fullmatch(r"-?\d{1,19}(\.\d{1,9})?", text, re.ASCII) is not None
    if not plain and not re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d{1,3})?", text, re.ASCII):
        return _other(text)
    value = Fraction(text)
    unit = _UNITS.get(len(str(int(abs(value))))) if value else 0
    if unit is None:
        return None
    nanoseconds = value * 10 ** (9 - unit)
    return Instant(nanoseconds.__floor__(), plain, nanoseconds.denominator == 1)


def _other(text: str) -> Instant | None:
    if not re.fullmatch(r"\d{4}-?\d\d-?\d\d([Tt ].*)?", text, re.ASCII):
        return None
    written = re.sub(r" (?=[+-])", "", re.sub(r" ?(UTC|Z)$", "+00:00", text.upper()))
    fraction = re.search(r"[.,](\d+)", written)
    try:
        found = datetime.fromisoformat(re.sub(r"[.,]\d+", "", written))
    except ValueError:
        return None
    seconds = (
        found.replace(tzinfo=None) - (found.utcoffset() or timedelta()) - datetime(1970, 1, 1)
    ) // timedelta(seconds=1)
    digits = fraction[1] if fraction else ""
    return Instant(seconds * _NANO + int(digits[:9].ljust(9, "0")), False, not digits[9:].strip("0"))


def _offset(zone: str | None) -> int | None:
    if zone in (None, "Z", "z"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _day(nanoseconds: int, first: date, end: date) -> str | None:
    days = nanoseconds // (_DAY * _NANO)
    inside = (first - _EPOCH).days <= days < (end - _EPOCH).days
    return str(_EPOCH + timedelta(days=days)) if inside else None


def _date(nanoseconds: int, digits: int) -> str | None:
    return _day(nanoseconds, _EPOCH, date(2149, 6, 7))


def _date32(nanoseconds: int, digits: int) -> str | None:
    return _day(nanoseconds, date(1900, 1, 1), date(2300, 1, 1))


def _date_time(nanoseconds: int, digits: int) -> str | None:
    seconds = nanoseconds // _NANO
    return _written(seconds) if 0 <= seconds < 1 << 32 else None


def _date_time64(nanoseconds: int, digits: int) -> str | None:
    """Nine digits count nanoseconds in 64 bits."""
    seconds = nanoseconds // _NANO
    first, end = ((date(year, 1, 1) - _EPOCH).days * _DAY for year in (1900, 2300))
    if not first <= seconds < end or (digits == 9 and nanoseconds >= 1 << 63):
        return None
    fraction = f"{nanoseconds % _NANO:09d}"[:digits]
    return _written(seconds) + (f".{fraction}" if fraction else "")


def _written(seconds: int) -> str:
    return str(datetime(1970, 1, 1) + timedelta(seconds=seconds))


def unit(name: str, digits: int) -> int:
    """Nanoseconds of what a column of the type counts: a time between two of them does not fit."""
    if name in ("Date", "Date32"):
        return _DAY * _NANO
    return 10 ** (9 - (digits if name == "DateTime64" else 0))


TIMES: dict[str, Callable[[int, int], str | None]] = {
    "Date": _date,
    "Date32": _date32,
    "DateTime": _date_time,
    "DateTime64": _date_time64,
}
