"""Durations as pipeline files write them: `90s`, `15m`, `1h`, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_MOST = timedelta(days=36_500)  # the calendar holds it on both sides of any slice


def parse_duration(value: Any) -> timedelta:
    """Raises ValueError when `value` is neither a timedelta nor a text such as `15m`."""
    if isinstance(value, timedelta):
        return value
    found = re.fullmatch(r"([0-9]+)([smhd])", str(value))
    if found is None:
        raise ValueError(f"expected a duration such as 90s, 15m, 1h or 7d, not {value!r}")
    try:
        length = timedelta(**{_UNITS[found[2]]: int(found[1])})
    except (OverflowError, ValueError):  # Python reads no integer of more than 4300 digits
        length = timedelta.max
    if length > _MOST:
        raise ValueError(f"expected a duration of at most {_MOST.days} days, not {str(value)[:40]}")
    return length


def _parse_optional(value: Any) -> timedelta | None:
    return None if value in (None, "none") else parse_duration(value)


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
OptionalDuration = Annotated[timedelta | None, BeforeValidator(_parse_optional)]
