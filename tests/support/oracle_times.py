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


def _epoch(text: str) -> Instant | None:
    """Ten digits of seconds with a fraction, thirteen of milliseconds; as a JSON number in any spelling."""
    if re.fullmatch(r"\d{13}", text, re.ASCII):
        return Instant(int(text) * 1_000_000, True)
    plain = re.fullmatch(r"\d{10}(\.\d{1,6})?", text, re.ASCII) is not None
    if not plain and not re.fullmatch(r"\d+(\.\d+)?([eE][+-]?\d{1,3})?", text, re.ASCII):
        return None
    value = Fraction(text)
    if 10**9 <= value < 10**10:
        return Instant(int(value * _NANO), plain, (value * _NANO).denominator == 1)
    if 10**12 <= value < 10**13 and value.denominator == 1:
        return Instant(int(value) * 1_000_000, False)
    return None


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
