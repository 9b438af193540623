"""What a dotted path means, the same for whatever reads, hides or searches a field.

`user.id` is a key that is literally `user.id`, else the field `id` of an object `user`. A longer path may be
spelled with any of its dots inside a key: `spellings` has all of them, the longest first key first.

- Who reads one value (a column, the type, the time, counts) takes the first spelling that has one: null says
  nothing, so that the next one is asked.
- Who hides or searches (a mask, an erasure, `sluice find --field`) takes every spelling, and every element of
  an array that stands on the way or at the end.

Bytes are read by what `spellings` gives; event_values.py walks Python's objects by itself, so that each can
be held against the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated

import msgspec

FieldPath = tuple[str, ...]
"""The names of a path, from the outside to the field; or the keys of one spelling of it."""

Absent = Annotated[int, msgspec.Meta(ge=1, le=0)]
"""The type of a key that must not be there: no value is of it, null neither."""
MOST_NAMES = 8
"""Of a path in the pipeline file: each more doubles its spellings."""


def names_of(text: str) -> FieldPath:
    """Returns the names of a dotted path."""
    return tuple(text.split("."))


def checked_path(text: str) -> str:
    """Raises ValueError for a path of too many names."""
    if text.count(".") >= MOST_NAMES:
        raise ValueError(f"a path has at most {MOST_NAMES} names, and {text!r} has {text.count('.') + 1}")
    return text


def path_of(column: str, paths: Mapping[str, str] = MappingProxyType({})) -> FieldPath:
    """Returns the path of a column's field; `paths` gives it for those that are not named like theirs. The
    name of a column with very many dots is one key, and so is a path with an empty name, such as `../x`:
    ClickHouse reads no field without a name."""
    text = paths.get(column, column)
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
