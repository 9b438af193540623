"""Random instants as Python's own datetime writes them, in every spelling of the grammar."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime(1975, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_MINUTES, _SECONDS, _MICROSECONDS = timedelta(minutes=1), timedelta(seconds=1), timedelta(microseconds=1)
Writer = Callable[[datetime, ZoneInfo], str]


def _away(hours: int, minutes: int = 0, seconds: int = 0) -> timezone:
    return timezone(timedelta(hours=hours, minutes=minutes, seconds=seconds))


def _local(at: datetime, zone: ZoneInfo) -> str:
    return at.astimezone(zone).replace(tzinfo=None).isoformat()


def _epoch(unit: timedelta) -> Writer:
    return lambda at, zone: str((at - _EPOCH) // unit)


SPELLINGS: dict[str, tuple[timedelta, Writer]] = {
    "isoformat": (_MICROSECONDS, lambda at, zone: at.isoformat()),
    "Z": (_MICROSECONDS, lambda at, zone: f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"),
    "Z after a space": (_SECONDS, lambda at, zone: f"{at:%Y-%m-%d %H:%M:%S Z}"),
    "UTC": (_SECONDS, lambda at, zone: f"{at:%Y-%m-%d %H:%M:%S UTC}"),
    "comma": (_MICROSECONDS, lambda at, zone: f"{at:%Y-%m-%dT%H:%M:%S,%f%z}"),
    "offset with a colon": (_MICROSECONDS, lambda at, zone: at.astimezone(_away(5, 45)).isoformat(" ")),
    "offset without": (_SECONDS, lambda at, zone: f"{at.astimezone(_away(-3, -30)):%Y-%m-%dT%H:%M:%S%z}"),
    "offset of hours": (_SECONDS, lambda at, zone: f"{at.astimezone(_away(-9)):%Y-%m-%d %H:%M:%S-09}"),
    "offset after a space": (_SECONDS, lambda at, zone: f"{at.astimezone(_away(2)):%Y-%m-%d %H:%M:%S %z}"),
    "offset with seconds": (_SECONDS, lambda at, zone: at.astimezone(_away(1, 2, 3)).isoformat()),
    "basic": (_SECONDS, lambda at, zone: f"{at:%Y%m%dT%H%M%SZ}"),
    "basic offset": (
        _MICROSECONDS,
        lambda at, zone: f"{at.astimezone(_away(-1, -2, -3)):%Y%m%dT%H%M%S.%f%z}",
    ),
    "basic minutes": (_MINUTES, lambda at, zone: f"{at:%Y%m%dT%H%M+00}"),
    "minutes": (_MINUTES, lambda at, zone: at.astimezone(_away(2)).isoformat(timespec="minutes")),
    "hours": (60 * _MINUTES, lambda at, zone: f"{at.astimezone(_away(-4)):%Y-%m-%dT%H-04}"),
    "local": (_MICROSECONDS, _local),
    "seconds": (_SECONDS, _epoch(_SECONDS)),
    "milliseconds": (timedelta(milliseconds=1), _epoch(timedelta(milliseconds=1))),
    "microseconds": (_MICROSECONDS, _epoch(_MICROSECONDS)),
}
"""What a spelling has room for, and how it is written."""


def written(name: str, chance: random.Random, zone: ZoneInfo) -> tuple[str, int]:
    """Returns a text, and the nanoseconds since 1970 that it says."""
    unit, write = SPELLINGS[name]
    while True:
        at = _FIRST + chance.randrange((_LAST - _FIRST) // unit) * unit
        # Of a local time that is there twice the second has no spelling.
        if name != "local" or not at.astimezone(zone).fold:
            return write(at, zone), (at - _EPOCH) // _MICROSECONDS * 1000
