"""The kinds of JSON values, and what of them ClickHouse's parser can read at all."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, NoReturn

from sluice.config.event import TimeSource

DIGITS = 15
"""A double keeps so many: a number with more may be another one once it is parsed."""
_LIMIT = Decimal("1.7976931348623157e308")
_MOST_CHARACTERS = 400  # of a number: no column takes one of more, and Python reads none of 4,300
_MOST_LEVELS = 100  # of a JSON column's objects
_SURROGATE = re.compile("[\ud800-\udfff]")


class Kind(StrEnum):
    BOOL = "true or false"
    NUMBER = "numbers"
    TEXT = "texts"
    ARRAY = "arrays"
    OBJECT = "objects"
    UNREADABLE = "numbers beyond 64 bits"


def loads(text: str) -> Any:
    """Returns a JSON text with numbers that keep their digits: int, or Decimal. Of a name that is there twice
    in an object it takes the first, as a load does. Raises ValueError."""
    return json.loads(
        text,
        parse_int=_number,
        parse_float=_number,
        parse_constant=_refused,
        object_pairs_hook=_first_members,
    )


def _refused(name: str) -> NoReturn:
    """Python takes NaN and infinities, which no JSON has."""
    raise ValueError(f"{name} is no JSON")


def _first_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else {**members, **dict(reversed(pairs))}


def _number(text: str) -> int | Decimal:
    try:
        return int(text) if len(text) <= _MOST_CHARACTERS else Decimal("inf")
    except ValueError:
        pass
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("inf")


def kind_of(value: Any) -> Kind:
    """Returns the kind of any value but None."""
    if isinstance(value, bool):
        return Kind.BOOL
    if isinstance(value, int | float | Decimal):
        return Kind.NUMBER if readable(value) else Kind.UNREADABLE
    if isinstance(value, str):
        return Kind.TEXT
    return Kind.OBJECT if isinstance(value, Mapping) else Kind.ARRAY


def divided(values: Sequence[Any]) -> dict[Kind, list[Any]]:
    """Returns the values by kind, the most frequent one first."""
    by_kind: dict[Kind, list[Any]] = defaultdict(list)
    for value in values:
        by_kind[kind_of(value)].append(value)
    return dict(sorted(by_kind.items(), key=lambda item: -len(item[1])))


def readable(value: Any) -> bool:
    """Returns whether ClickHouse's parser takes an event that holds the value."""
    if not isinstance(value, Mapping | list):
        return _readable(value)
    return all(_readable(part) for part, _ in parts(value))


def _readable(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return -(1 << 63) <= value < 1 << 64
    return not isinstance(value, float | Decimal) or Decimal(value).copy_abs() <= _LIMIT


def parts(value: Any) -> Iterator[tuple[Any, int]]:
    """Yields the value and all inside it, each with its level; names of keys are parts, too. An event may be
    deeper than Python calls functions."""
    left: list[tuple[Any, int]] = [(value, 0)]
    while left:
        part, level = left.pop()
        yield part, level
        if isinstance(part, Mapping):
            left += [(inner, level + 1) for pair in part.items() for inner in pair]
        elif isinstance(part, list):
            left += [(inner, level + 1) for inner in part]


def scale(value: Any) -> int | None:
    """Digits after the point that a number needs, without zeros at its end; None for one that a double may
    change."""
    if isinstance(value, int):
        return 0 if abs(value) < 10**DIGITS else None
    number = value if isinstance(value, Decimal) else Decimal(repr(value))
    _, digits, exponent = number.normalize().as_tuple()
    if not isinstance(exponent, int) or len(digits) > DIGITS or len(digits) + max(0, exponent) > DIGITS:
        return None
    written = len(number.as_tuple().digits)
    return max(0, -exponent) if written <= DIGITS else None


def becomes_json(value: Mapping[str, Any]) -> bool:
    """Returns whether a JSON column holds the object: a name with a dot is a path to it, half a surrogate
    nothing."""
    return all(
        level <= _MOST_LEVELS
        and not (isinstance(part, str) and _SURROGATE.search(part))
        and not (isinstance(part, Mapping) and any(not name or "." in name for name in part))
        for part, level in parts(value)
    )


# Times that are all decades away are numbers in another unit than `event.time.format` says.

_FAR_MS = 20 * 366 * 86_400_000
_MS = {"epoch_s": 1000.0, "epoch_ms": 1.0}
_UNITS = (
    ("seconds", 1000.0, "epoch_s"),
    ("milliseconds", 1.0, "epoch_ms"),
    ("microseconds", 1e-3, ""),
    ("nanoseconds", 1e-6, ""),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class NumberSpan:
    """The lowest and the highest number of a time field; None before there was one."""

    low: float | None = None
    high: float | None = None

    def take(self, numbers: Iterable[object]) -> None:
        for number in numbers:
            if isinstance(number, (int, float)):
                self.low = number if self.low is None else min(self.low, number)
                self.high = number if self.high is None else max(self.high, number)


def far_times(time: TimeSource, span: NumberSpan, now_ms: int) -> str:
    """Says that all times are decades away, what the numbers probably are, and which format reads those.

    Empty where some time is not, and where the field has no numbers.
    """
    per = _MS.get(time.format)
    if per is None or span.low is None or span.high is None:
        return ""
    if (
        _near(span.high * per, now_ms)
        or _near(span.low * per, now_ms)
        or span.low * per < now_ms < span.high * per
    ):
        return ""
    days = " to ".join(dict.fromkeys((_day(span.low * per), _day(span.high * per))))
    said = f"all times of the field {time.field} ({time.format}) are decades away: {days}"
    for unit, ms, name in _UNITS:
        if _near(span.low * ms, now_ms) and _near(span.high * ms, now_ms):
            remedy = (
                f"set `format: {name}` under `event.time`" if name else "no format reads those: convert them"
            )
            return f"{said}; they are probably {unit}: {remedy}"
    return f"{said}; compare `event.time` in the pipeline file with an event"


def far_instants(time: TimeSource, low_ms: int, high_ms: int, now_ms: int) -> str:
    """Says it of instants that were made of the field's numbers."""
    per = _MS.get(time.format, 1.0)
    return far_times(time, NumberSpan(low_ms / per, high_ms / per), now_ms)


def _near(ms: float, now_ms: int) -> bool:
    return abs(ms - now_ms) <= _FAR_MS


def _day(ms: float) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d}"
    except OverflowError:
        return "after the year 9999" if ms > 0 else "before the year 1"
