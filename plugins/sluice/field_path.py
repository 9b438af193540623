"""What a dotted path means, the same for whatever reads, hides or searches a field.

`user.id` is a key that is literally `user.id`, else the field `id` of an object `user`. A longer path may be
spelled with any of its dots inside a key: `spellings` has all of them, the longest first key first.

- Who reads one value (a column, the type, the time, counts) takes the first spelling that has one: null says
  nothing, so that the next one is asked.
- Who hides or searches (a mask, an erasure, `sluice find --field`) takes every spelling, and every element of
  an array that stands on the way or at the end.

Bytes are read by what `spellings` gives; field_path.py walks Python's objects by itself, so that each can
be held against the other.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

FieldPath = tuple[str, ...]
"""The names of a path, from the outside to the field; or the keys of one spelling of it."""

FieldPaths = tuple[FieldPath, ...]
"""The paths of a column's value, in the order in which they are tried."""

Field = str | tuple[str, ...]
"""What fills a column: a dotted path, or several. Of these the first that is there is taken: that is present,
and not null."""

Absent = Annotated[int, msgspec.Meta(ge=1, le=0)]
"""The type of a key that must not be there: no value is of it, null neither."""
MOST_NAMES = 8
"""Of a path in the pipeline file: each more doubles its spellings."""


HEADER = "header:"
"""Before the name of a record's header: it stands where a path can, and no event has a field of this name."""


def names_of(text: str) -> FieldPath:
    """Returns the names of a dotted path; a header is one name, whatever dots it has."""
    return (text,) if text.startswith(HEADER) else tuple(text.split("."))


def header_of(path: FieldPath) -> str | None:
    """Returns the header that the path leads to; None where it leads to a field of the event."""
    return path[0].removeprefix(HEADER) if path and path[0].startswith(HEADER) else None


_NOT_IN_STRUCTS = re.compile(r'["\\\x00-\x1f]')


def checked_path(text: str) -> str:
    """Raises ValueError for a path of too many names, one that escapes a dot, and a header without a name."""
    if text == HEADER:
        raise ValueError(f"expected {HEADER}NAME")
    if header_of((text,)) is not None:
        return text
    if "\\." in text:
        plain = text.replace("\\.", ".")
        raise ValueError(f"a dot needs no backslash: {plain!r} is also the field of that very name")
    if text.count(".") >= MOST_NAMES:
        raise ValueError(f"a path has at most {MOST_NAMES} names, and {text!r} has {text.count('.') + 1}")
    return text


def paths_of(column: str, fields: Mapping[str, Field] = MappingProxyType({})) -> FieldPaths:
    """Returns where a column's value may be, the first place first; `fields` gives it for the columns that
    are not named like their field."""
    field = fields.get(column, column)
    return tuple(map(path_of, (field,) if isinstance(field, str) else field))


def in_structs(paths: Iterable[FieldPath]) -> bool:
    """Returns whether msgspec reads the paths' names as those of a Struct's members: it takes no quotes,
    backslashes and control characters there."""
    return not any(_NOT_IN_STRUCTS.search(name) for path in paths for name in path)


def path_of(text: str) -> FieldPath:
    """Returns the path of a field. The name of a column with very many dots is one key, and so is a path with
    an empty name, such as `../x`: ClickHouse reads no field without a name."""
    names = names_of(text)
    return names if len(names) <= MOST_NAMES and all(names) else (text,)


def outer_of(path: FieldPath, paths: Collection[FieldPath]) -> FieldPath | None:
    """Returns the shortest of a set's or mapping's `paths` that `path` runs through."""
    return next((path[:size] for size in range(1, len(path)) if path[:size] in paths), None)


@lru_cache(1_000)
def spellings(path: FieldPath) -> tuple[FieldPath, ...]:
    """Returns the keys that lead to the field in each spelling: of `a.b.c` ("a.b.c"), ("a.b", "c"),
    ("a", "b.c") and ("a", "b", "c")."""
    if not path:
        return ((),)
    sizes = range(len(path), 0, -1)
    return tuple((".".join(path[:size]), *rest) for size in sizes for rest in spellings(path[size:]))


def all_spellings(paths: Iterable[FieldPath]) -> tuple[FieldPath, ...]:
    """Returns the keys that lead to a column's value, in the order in which they are asked."""
    return tuple(keys for path in paths for keys in spellings(path))


def before(path: FieldPath, keys: FieldPath) -> frozenset[FieldPath]:
    """Returns which keys must not be there, so that the spelling `keys` is the first one: for ("a", "b") of
    `a.b` that is ("a.b",)."""
    others = spellings(path)[: spellings(path).index(keys)]
    return frozenset(_until_differing(other, keys) for other in others)


def _until_differing(other: FieldPath, keys: FieldPath) -> FieldPath:
    at = next(at for at, key in enumerate(other) if key != keys[at])
    return other[: at + 1]


def first_keys(path: FieldPath) -> frozenset[str]:
    """Returns the keys of the event that may hold the field."""
    return frozenset(keys[0] for keys in spellings(path))


def last_keys(path: FieldPath) -> frozenset[str]:
    """Returns the keys that may stand right before the field's value."""
    return frozenset(keys[-1] for keys in spellings(path))


def holds(path: FieldPath, keys: FieldPath) -> bool:
    """Returns whether what is at `keys` in an event is the field at `path`, or a part of it."""
    text = ".".join(path)
    return any(".".join(keys[:size]) == text for size in range(1, len(keys) + 1))


# Reads an event with Python's own json, and the value at a dotted path. Numbers are as they are written.


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


def first_there(event: Mapping[str, Any], paths: FieldPaths) -> Any:
    """Returns the first value at one of the paths, as `first_field` takes it."""
    return next((value for path in paths if (value := first_field(event, path)) is not None), None)


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
