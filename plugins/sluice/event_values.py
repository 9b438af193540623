"""Reads an event with Python's own json, and the value at a dotted path. Numbers are as they are written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any


class UnreadablePayload(ValueError):
    """A payload that is no JSON object, or says two things; the text says which."""


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


def _refuse(constant: str) -> None:
    raise UnreadablePayload(f"{constant} is no JSON")


class Ambiguous(dict[str, Any]):
    """An object of `pairs` in which names stand `twice`: readers differ in which of them they take."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs
        self.twice = {name for name, count in Counter(name for name, _ in pairs).items() if count > 1}


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else Ambiguous(pairs)


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
    """Returns the value at `path` (field_path.py); None where it is null or missing. Raises
    UnreadablePayload where there are two of the same name."""

    def only(value: Any, name: str) -> list[Any]:
        if isinstance(value, Ambiguous) and name in value.twice:
            raise UnreadablePayload(f"{'.'.join(path)} is there twice")
        return [value[name]] if isinstance(value, dict) and name in value else []

    return next((value for value in _reached(event, path, only) if value is not None), None)


def first_field(event: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Returns the value at `path` as a load takes it: of a name that is there twice the first. None where it
    is null or missing."""
    return next((value for value in _reached(event, path, _first) if value is not None), None)


def all_fields(event: dict[str, Any], path: Sequence[str]) -> list[Any]:
    """Returns each value at `path`, in whatever spelling, also of a name that is there twice, and of each
    element of arrays."""
    return [element for value in _reached(event, path, _each) for element in _elements(value)]


_Members = Callable[[Any, str], Iterable[Any]]
"""From a value and a name to what a reader takes for the value's members of that name."""


def _reached(value: Any, path: Sequence[str], members: _Members) -> Iterator[Any]:
    """Yields what is at the path, one spelling of it after the other, the longest first key first."""
    if not path:
        yield value
    for size in range(len(path), 0, -1):
        for inner in members(value, ".".join(path[:size])):
            yield from _reached(inner, path[size:], members)


def _first(value: Any, name: str) -> list[Any]:
    members = first_members(value) if isinstance(value, Mapping) else {}
    return [members[name]] if name in members else []


def first_members(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an object's members, of those with the same name the first."""
    return dict(reversed(value.pairs)) if isinstance(value, Ambiguous) else value


def _each(value: Any, name: str) -> Iterator[Any]:
    for element in _elements(value):
        if isinstance(element, Ambiguous):
            yield from (inner for member, inner in element.pairs if member == name)
        elif isinstance(element, dict) and name in element:
            yield element[name]


def _elements(value: Any) -> Iterator[Any]:
    """Yields the elements of an array, also of arrays inside it; what is none, itself."""
    if isinstance(value, list):
        for inner in value:
            yield from _elements(inner)
    else:
        yield value


def text_of(value: Any) -> str | None:
    """Returns a value as one types it; None of what is no single value. `7` and `"7"` are the same text, `7`
    and `7.0` are not."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str) else None
