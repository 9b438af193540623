"""What texts and numbers are spelled as: days, instants, UUIDs, addresses; as strict as a load's casts."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[Tt ](?P<hour>\d\d):(?P<minute>\d\d)"
    r"(:(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?)?"
    r"([Zz]|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1)
_FIRST, _END = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2300))
_NANOSECONDS_END = 9_223_372_036  # seconds since 1970 that 64 bits hold as nanoseconds
_MOST_OFFSET = timedelta(hours=14)
_SECONDS = (10**9, 4_102_444_800)  # 2001-09-09 until 2100-01-01: ten digits, as a load wants them
_MICROSECONDS = 6
_TIME_WORDS = re.compile(
    "at|on|time|ts|timestamp|date|datetime|when|since|until|expires|expiry|created|updated|modified|deleted|"
    "started|ended|occurred|received|sent"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


_DECIMAL = re.compile(r"-?(?P<before>0|[1-9]\d*)(\.(?P<after>\d+))?", re.ASCII)


def decimal_digits(text: str) -> tuple[int, int] | None:
    """Returns the digits before and after the point of a plain number; None for any other text."""
    match = _DECIMAL.fullmatch(text)
    return None if match is None else (len(match["before"]), len(match["after"] or ""))


def day(text: str) -> date | None:
    if not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def is_date(text: str) -> bool:
    parsed = day(text)
    return parsed is not None and 0 <= (parsed - _EPOCH).days < 1 << 16


def is_date32(text: str) -> bool:
    parsed = day(text)
    return parsed is not None and 1900 <= parsed.year < 2300


def is_instant(text: str, digits: int = 3) -> bool:
    """Returns whether a DateTime64 of so many digits holds it."""
    match = _INSTANT.fullmatch(text)
    on = None if match is None else day(match["day"])
    if match is None or on is None:
        return False
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
    if hour > 23 or minute > 59 or second > 59 or minutes > 59:
        return False
    zone = timedelta(hours=hours, minutes=minutes)
    if zone > _MOST_OFFSET:
        return False
    seconds = (on - _EPOCH).days * 86_400 + hour * 3_600 + minute * 60 + second
    seconds -= int(zone.total_seconds()) * (-1 if match["sign"] == "-" else 1)
    return _FIRST <= seconds < (min(_END, _NANOSECONDS_END) if digits > _MICROSECONDS else _END)


def fraction_digits(text: str) -> int:
    """Returns how many digits of a second's fraction are written."""
    match = _INSTANT.fullmatch(text)
    return len(match["fraction"] or "") if match else 0


def needed_digits(text: str) -> int:
    """Returns how many of them say something: zeros at the end do not."""
    match = _INSTANT.fullmatch(text)
    return len((match["fraction"] or "").rstrip("0")) if match else 0


def epoch_digits(value: Any) -> int | None:
    """Digits of the fraction of a number that counts seconds (0, or 3 for milliseconds) since 1970; None
    where it does not resemble one."""
    low, high = _SECONDS
    if not isinstance(value, int):
        digits = -int(value.as_tuple().exponent) if isinstance(value, Decimal) else -1
        return digits if low <= value < high and 0 <= digits <= _MICROSECONDS else None
    if low <= value < high:
        return 0
    return 3 if low * 1000 <= value < high * 1000 else None


def names_time(name: str) -> bool:
    """Returns whether a field's name says that it is a time: `created_at`, `eventTime`, `ts`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and (bool(_TIME_WORDS.fullmatch(words[-1])) or words[0] in ("ts", "time", "timestamp"))


def names_identifier(name: str) -> bool:
    """Returns whether a field's name says that it identifies something: `id`, `user_id`, `orderId`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and words[-1] in ("id", "uuid", "guid", "key")


def _reads(make: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            return str(make(text)) == text.lower()
        except ValueError:
            return False

    return fits


is_uuid = _reads(uuid.UUID)
is_ipv4 = _reads(ipaddress.IPv4Address)
_is_ipv6 = _reads(ipaddress.IPv6Address)


def is_ipv6(text: str) -> bool:
    """Returns whether it is an IPv6 address; an IPv4 one counts as its mapping."""
    return "%" not in text and (_is_ipv6(text) or is_ipv4(text))
