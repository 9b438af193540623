"""Reads type and event time of a payload with Python's own json, datetime and decimal.

It shares no code with the landing on purpose: what both say has been computed twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_HOUR_MS = 3_600_000
_MS = {"epoch_s": Decimal(1000), "epoch_ms": Decimal(1)}
# The landing counts in doubles: beside an hour's edge both hours are right.
_MICROSECOND = {"epoch_s": Decimal("0.000001"), "epoch_ms": Decimal("0.001")}
_MOST_DIGITS = 40
_FOLDER_HOUR = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)", re.ASCII)


class UnreadablePayload(ValueError):
    """A payload that is no JSON object, or says two things; the text says which."""


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


def _refuse(constant: str) -> None:
    raise UnreadablePayload(f"{constant} is no JSON")


class Ambiguous(dict[str, Any]):
    """An object in which names stand `twice`: readers differ in which of them they take."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = {name for name, count in Counter(name for name, _ in pairs).items() if count > 1}


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Ambiguous(pairs)


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_refuse, object_pairs_hook=_members
)


def read_event(payload: bytes) -> dict[str, Any]:
    """Returns the event, its numbers as they are written. Raises UnreadablePayload.

    To be called where the stack is deep enough: sluice.runtime.deeper."""
    try:
        event = _DECODER.decode(payload.decode())
    except RecursionError:
        raise UnreadablePayload("it is nested deeper than what is landed") from None
    except ValueError as error:  # not UTF-8, or not JSON
        raise UnreadablePayload(str(error)) from None
    if not isinstance(event, dict):
        raise UnreadablePayload("it is no object")
    return event


def field(event: dict[str, Any], path: Sequence[str]) -> Any:
    """Returns the value at `path`; None where it is null or missing. Raises Unreadable where there are
    two."""
    value: Any = event
    for name in path:
        if not isinstance(value, dict):
            return None
        if isinstance(value, Ambiguous) and name in value.twice:
            raise UnreadablePayload(f"{'.'.join(path)} is there twice")
        value = value.get(name)
    return value


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
        found = datetime.fromisoformat(text.upper())
    except ValueError:
        return ()
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return ((found - _EPOCH) // timedelta(milliseconds=1),)


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
