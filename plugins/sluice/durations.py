"""Durations as pipeline files write them: `90s`, `15m`, `1h`, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_duration(value: Any) -> timedelta:
    """Raises ValueError when `value` is neither a timedelta nor a text such as `15m`."""
    if isinstance(value, timedelta):
        return value
    found = re.fullmatch(r"([0-9]+)([smhd])", str(value))
    if found is None:
        raise ValueError(f"expected a duration such as 90s, 15m, 1h or 7d, not {value!r}")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except (OverflowError, ValueError) as error:  # Python reads no integer of more than 4300 digits
        raise ValueError(f"expected a duration of less than three million years, not {value!r}") from error


def _parse_optional(value: Any) -> timedelta | None:
    return None if value in (None, "none") else parse_duration(value)


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
OptionalDuration = Annotated[timedelta | None, BeforeValidator(_parse_optional)]
