"""Reads type and event time of a payload with Python's own json, datetime and decimal.

It shares no code with the landing on purpose: what both say has been computed twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from sluice.event_values import Number

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_HOUR_MS = 3_600_000
_MS = {"epoch_s": Decimal(1000), "epoch_ms": Decimal(1)}
# The landing counts in doubles: beside an hour's edge both hours are right.
_MICROSECOND = {"epoch_s": Decimal("0.000001"), "epoch_ms": Decimal("0.001")}
_MOST_DIGITS = 40
_FOLDER_HOUR = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)", re.ASCII)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def moments(value: Any, form: str) -> tuple[int, ...]:
    """Returns the first and the last of the milliseconds since the epoch that a field of the format may mean;
    none where it is no time."""
    if form == "iso8601":
        return _written(value) if is_text(value) else ()
    return _counted(value, form) if isinstance(value, Number) else ()


def hours_of(moments: Sequence[int]) -> tuple[int, ...]:
    """Returns the hours since the epoch of `moments`: none, one or two."""
    return tuple(dict.fromkeys(ms // _HOUR_MS for ms in moments))


def _written(text: str) -> tuple[int, ...]:
    try:
        instant = datetime.fromisoformat(text.upper())
    except ValueError:
        return ()
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return ((instant - _EPOCH) // timedelta(milliseconds=1),)


def _counted(text: Number, form: str) -> tuple[int, ...]:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return ()
    if value.adjusted() > _MOST_DIGITS:
        return ()
    around = (value - _MICROSECOND[form], value + _MICROSECOND[form])
    return tuple(int((edge * _MS[form]).to_integral_value("ROUND_FLOOR")) for edge in around)


def hour_named(text: str) -> int:
    """Returns `2026-11-20T10` as hours since the epoch. Raises ValueError for anything else."""
    found = _FOLDER_HOUR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no hour")
    year, month, day, hour = map(int, found.groups())
    return (datetime(year, month, day, hour, tzinfo=UTC) - _EPOCH) // _HOUR


def hour_name(hour: int) -> str:
    """Returns the opposite of `hour_named`, also for hours that no folder can have."""
    try:
        return (_EPOCH + hour * _HOUR).isoformat()[:13]
    except OverflowError:
        return f"{hour} hours since 1970"
