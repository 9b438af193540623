"""Values of Avro's logical types, out of the plain ones, for fastavro to call.

They are registered under names of our own: its own readers round a decimal to its precision, take a time
below zero for another one, and refuse the whole message for a date beyond the year 9999. What cannot be shown
as its type stays the number or text that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from fastavro.read import LOGICAL_READERS

from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import Rejected

MOST_DECIMAL_BYTES = 1_024
"""Of a decimal: making digits of bytes takes time that grows with their square."""
_UNIX_DAY = date(1970, 1, 1).toordinal()
_INSTANT, _LOCAL = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)
_DAY = 86_400_000_000  # microseconds


def decimal(unscaled: bytes, schema: Mapping[str, Any]) -> str:
    """Returns all digits, whatever the precision says. Raises Rejected for more than MOST_DECIMAL_BYTES."""
    if len(unscaled) > MOST_DECIMAL_BYTES:
        raise Rejected(reject_reasons.BECOMES_TOO_LARGE)
    number, scale = int.from_bytes(unscaled, "big", signed=True), schema["scale"]
    digits = str(abs(number)).zfill(scale + 1)
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def day(number: int, _schema: object) -> date | int:
    try:
        return date.fromordinal(_UNIX_DAY + number)
    except (ValueError, OverflowError):
        return number


def uuid(text: str, _schema: object) -> UUID | str:
    try:
        return UUID(text)
    except ValueError:
        return text


def _time(unit: int) -> Callable[[int, object], time | int]:
    def read(number: int, _schema: object) -> time | int:
        if not 0 <= number * unit < _DAY:
            return number
        seconds, micros = divmod(number * unit, 1_000_000)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)

    return read


def _instant(start: datetime, unit: int) -> Callable[[int, object], datetime | int]:
    def read(number: int, _schema: object) -> datetime | int:
        try:
            return start + timedelta(microseconds=number * unit)
        except OverflowError:
            return number

    return read


LOGICAL_TYPES: Mapping[tuple[str, str], Callable[[Any, Any], Any]] = {
    ("bytes", "decimal"): decimal,
    ("fixed", "decimal"): decimal,
    ("string", "uuid"): uuid,
    ("int", "date"): day,
    ("int", "time-millis"): _time(1_000),
    ("long", "time-micros"): _time(1),
    ("long", "timestamp-millis"): _instant(_INSTANT, 1_000),
    ("long", "timestamp-micros"): _instant(_INSTANT, 1),
    ("long", "local-timestamp-millis"): _instant(_LOCAL, 1_000),
    ("long", "local-timestamp-micros"): _instant(_LOCAL, 1),
}


def logical_name(name: str) -> str:
    return f"sluice-{name}"


def _reader(value: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def read(plain: Any, schema: Any, _readers_schema: Any = None) -> Any:
        return value(plain, schema)

    return read


for (_kind, _name), _value in LOGICAL_TYPES.items():
    LOGICAL_READERS[f"{_kind}-{logical_name(_name)}"] = _reader(_value)
