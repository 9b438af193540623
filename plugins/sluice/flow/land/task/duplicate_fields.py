"""Events in which a name that the pipeline reads stands twice in one object.

What such an event says is undefined (RFC 8259, section 4): msgspec takes the last of them, ClickHouse
the first, so the row of one type would hold the field of another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from sluice.field_path import FieldPath, names_of, spellings
from sluice.mask.json_names import escapes_of, quoted


class _Members(list[Any]):
    """An object's (name, value) pairs, all of them."""


_PAIRS = json.JSONDecoder(object_pairs_hook=_Members, parse_int=str, parse_float=str)


class DuplicateFields:
    """`paths` are dotted; in each of their spellings no name may be there twice."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: list[FieldPath] = sorted({keys for path in paths for keys in spellings(names_of(path))})
        self._names = self._names_beside(frozenset())
        self._escaped = escapes_of(self._names)
        self._beside = lru_cache(self._names_beside)

    def among(
        self,
        events: Sequence[bytes | None],
        needed: Collection[str] = (),
        absent: frozenset[FieldPath] = frozenset(),
    ) -> list[int]:
        """Returns the positions of such events. Each of them has the names `needed`, and none the keys
        `absent`.

        Mostly one test of all of them at once is enough: such a name is there as often as there are events,
        and a name with a dot nowhere.
        """
        if not self._paths:
            return []
        joined = b"\n".join(filter(None, events))
        names, suspects = self._beside(absent), set[int]()
        if b"\\" in joined and self._escaped.search(joined):
            needed, names = (), self._names
            suspects |= {
                position for position, event in enumerate(events) if event and self._escaped.search(event)
            }
        dotted = [quoted(name.rpartition(".")[2])[1:] for name in names if "." in name]
        if dotted and not re.search(rb"\.(?:%b)" % b"|".join(map(re.escape, sorted(set(dotted)))), joined):
            names = {name: text for name, text in names.items() if "." not in name}
        for name, text in names.items():
            if not (name in needed and joined.count(text) == len(events)):
                suspects |= {
                    position for position, event in enumerate(events) if event and event.count(text) > 1
                }
        return [position for position in sorted(suspects) if self._is(events[position] or b"")]

    def _names_beside(self, absent: frozenset[FieldPath]) -> dict[str, bytes]:
        """Returns the names on paths that run through none of the keys, each as most writers spell it."""
        paths = [path for path in self._paths if not any(path[: len(keys)] == keys for keys in absent)]
        return {name: quoted(name) for name in sorted({name for path in paths for name in path})}

    def _is(self, event: bytes) -> bool:
        if not self._escaped.search(event) and self._same_again(event):
            return False
        members = _PAIRS.decode(event.decode())
        return any(_twice(members, path) for path in self._paths)

    def _same_again(self, event: bytes) -> bool:
        """Returns whether the names are as often in what a reader makes of the event: of two in one object it
        keeps one."""
        try:
            again = msgspec.json.encode(msgspec.json.decode(event))
        except (msgspec.MsgspecError, OverflowError, UnicodeError):
            return False
        return all(event.count(text) == again.count(text) for text in self._names.values())


def _twice(node: Any, path: FieldPath) -> bool:
    for name in path:
        if not isinstance(node, _Members):
            return False
        values = [value for member, value in node if member == name]
        if len(values) != 1:
            return bool(values)
        [node] = values
    return False
