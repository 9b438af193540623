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
from sluice.time_grammar import EPOCHS, instant_of_text

DIGITS = 15
"""A double keeps so many: a number with more may be another one once it is parsed."""
_LIMIT = Decimal("1.7976931348623157e308")
_MOST_CHARACTERS = 400  # of a number
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
        parse_int=_whole,
        parse_float=_fraction,
        parse_constant=_refused,
        object_pairs_hook=_first_members,
    )


def _refused(name: str) -> NoReturn:
    """Python takes NaN and infinities, which no JSON has."""
    raise ValueError(f"{name} is no JSON")


class Ambiguous(dict[str, Any]):
    """An object in which a name is there twice: no JSON, Dynamic or Map column takes it."""


def _first_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else Ambiguous({**members, **dict(reversed(pairs))})


class LongWhole(Decimal):
    """A whole number of more digits than any column of numbers holds; Python reads none of 4,300."""


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MOST_CHARACTERS else LongWhole(text)


def _fraction(text: str) -> Decimal:
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
    """Returns whether the server's parser takes an object that holds the value, as a JSON column needs it."""
    return all(_is_narrow(part) for part in _parts(value))


def is_text(value: Any) -> bool:
    """Returns whether a String column holds the value: to a load a whole number beyond 64 bits is a text. One
    beyond a double no load reads."""
    return all(isinstance(part, LongWhole | int) or within_double(part) for part in _parts(value))


def _is_narrow(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return -(1 << 63) <= value < 1 << 64
    return within_double(value)


def within_double(value: Any) -> bool:
    """Returns whether a value is no number beyond a double's range."""
    if isinstance(value, int):
        return abs(value) <= _LIMIT
    return not isinstance(value, float | Decimal) or Decimal(value).copy_abs() <= _LIMIT


def _parts(value: Any) -> Iterator[Any]:
    return (part for part, _ in parts(value)) if isinstance(value, Mapping | list) else iter((value,))


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
    nothing, and a name that is there twice is refused."""
    return all(
        level <= _MOST_LEVELS
        and not (isinstance(part, str) and _SURROGATE.search(part))
        and not isinstance(part, Ambiguous)
        and not (isinstance(part, Mapping) and any(not name or "." in name for name in part))
        for part, level in parts(value)
    )


def is_local(value: object) -> bool:
    """Returns whether a value is a time without an offset, and not a day."""
    moment = instant_of_text(value) if isinstance(value, str) and len(value) > len("2026-11-20") else None
    return moment is not None and moment.local


# Times that are all decades away are numbers in another unit than `event.time.format` says.

_FAR_MS = 20 * 366 * 86_400_000
_MS = {form: 10.0 ** (3 - digits) for form, digits in EPOCHS.items()}
_UNITS = (
    ("seconds", "epoch_s"),
    ("milliseconds", "epoch_ms"),
    ("microseconds", "epoch_us"),
    ("nanoseconds", "epoch_ns"),
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


def far_times(time: TimeSource, span: NumberSpan, now_ms: int, key: str = "event.time") -> str:
    """Says that all times are decades away, what the numbers probably are, and which format reads those.
    `key` is where the file says it.

    Empty where some time is not, and where the field has no numbers.
    """
    per = _MS.get(time.format or "")
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
    for unit, name in _UNITS:
        if _near(span.low * _MS[name], now_ms) and _near(span.high * _MS[name], now_ms):
            return f"{said}; they are probably {unit}: set `format: {name}` under `{key}`"
    return f"{said}; compare `{key}` in the pipeline file with an event"


def far_instants(time: TimeSource, low_ms: int, high_ms: int, now_ms: int) -> str:
    """Says it of instants that were made of the field's numbers."""
    per = _MS.get(time.format or "", 1.0)
    return far_times(time, NumberSpan(low_ms / per, high_ms / per), now_ms)


def _near(ms: float, now_ms: int) -> bool:
    return abs(ms - now_ms) <= _FAR_MS


def _day(ms: float) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d}"
    except OverflowError:
        return "after the year 9999" if ms > 0 else "before the year 1"
