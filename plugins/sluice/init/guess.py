"""Which field of the events is their type, and which their time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sluice.field_path import names_of
from sluice.infer.spellings import epoch_digits, is_instant, names_time
from sluice.infer.values import Kind, kind_of

TimeSpelling = Literal["iso8601", "epoch_s", "epoch_ms"]
_TYPES = ("type", "event_type", "eventtype", "event_name", "eventname", "event", "kind", "action", "name")
_TIMES = ("timestamp", "time", "event_time", "eventtime", "ts", "at", "occurred_at", "created_at")
_LEAST = 0.999  # of the events have it: others would be rejected
_MOST_TYPES = 1_000
_LEVELS = 2
_MILLISECONDS_FROM = 10**11


@dataclass(frozen=True)
class TimeField:
    """A dotted path, and how the time is written there."""

    field: str
    format: TimeSpelling


@dataclass(frozen=True)
class EventGuess:
    """The fields that can be the type, and the time, the likeliest first; `arrays`: messages are arrays of
    events."""

    types: tuple[str, ...]
    times: tuple[TimeField, ...]
    arrays: bool = False


def events_of(values: Sequence[Any]) -> tuple[list[Mapping[str, Any]], bool]:
    """Returns the events in JSON values, and whether these are arrays of events."""
    arrays = [value for value in values if isinstance(value, list)]
    objects = [value for value in values if isinstance(value, Mapping)]
    items = [item for array in arrays for item in array if isinstance(item, Mapping)]
    return (items, True) if items and len(arrays) > len(objects) else (objects, False)


def guess(events: Sequence[Mapping[str, Any]], arrays: bool) -> EventGuess:
    """Guesses type and time among the fields that nearly all events have. A type has one of the usual names,
    and few values; a time is spelled as one, and one of a usual name goes first."""
    values_by_path = fields_of(events)
    least = _LEAST * len(events)
    types = [path for path, values in values_by_path.items() if _may_be_type(path, values, least)]
    times = [
        TimeField(path, written)
        for path, values in values_by_path.items()
        if (written := _time_format(path, values, least)) is not None
    ]
    return EventGuess(
        tuple(sorted(types, key=_rank(_TYPES))),
        tuple(
            sorted(times, key=lambda time: (*_rank(_TIMES)(time.field), not names_time(_last(time.field))))
        ),
        arrays,
    )


def fields_of(events: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the values of fields down to a level, by dotted path; of names that a path cannot say none."""
    values_by_path: dict[str, list[Any]] = {}
    for event in events:
        for path, value in _walk(event, ()):
            values_by_path.setdefault(path, []).append(value)
    return values_by_path


def _walk(event: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in event.items():
        if not all(names_of(name)) or not name.isprintable():
            continue
        if isinstance(value, Mapping) and len(above) + 1 < _LEVELS:
            yield from _walk(value, (*above, name))
        elif value is not None:
            yield ".".join((*above, name)), value


def _may_be_type(path: str, values: Sequence[Any], least: float) -> bool:
    if _last(path).lower() not in _TYPES or not all(isinstance(value, str) and value for value in values):
        return False
    different = len(set(values))
    return len(values) >= max(least, 1) and different <= max(
        _MOST_TYPES // 10, min(_MOST_TYPES, len(values) // 10)
    )


def _time_format(path: str, values: Sequence[Any], least: float) -> TimeSpelling | None:
    """Returns None for what is no time."""
    counted = Counter(_spelled(value, names_time(_last(path))) for value in values)
    written, count = counted.most_common(1)[0]
    return written if written is not None and count >= max(least, 1) else None


def _spelled(value: Any, named: bool) -> TimeSpelling | None:
    kind = kind_of(value)
    if kind is Kind.TEXT:
        return "iso8601" if is_instant(value) else None
    if kind is not Kind.NUMBER or not named or epoch_digits(value) is None:
        return None
    return "epoch_ms" if value >= _MILLISECONDS_FROM else "epoch_s"


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _rank(names: Sequence[str]) -> Callable[[str], tuple[int, int]]:
    """Returns a sort key: outer fields first, then those of the likeliest name."""

    def rank(path: str) -> tuple[int, int]:
        name = _last(path).lower()
        return (path.count("."), names.index(name) if name in names else len(names))

    return rank
