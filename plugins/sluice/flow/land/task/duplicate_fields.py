"""Events in which a name that the pipeline reads stands twice in one object.

What such an event says is undefined (RFC 8259, section 4): msgspec takes the last of them, ClickHouse
the first, so the row of one type would hold the field of another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sluice.mask.json_names import escapes_of, quoted
from sluice.type_fields import FieldPath


class _Members(list[Any]):
    """An object's (name, value) pairs, all of them."""


_PAIRS = json.JSONDecoder(object_pairs_hook=_Members, parse_int=str, parse_float=str)


class DuplicateFields:
    """`paths` are dotted: those that every event must have, and others."""

    def __init__(self, needed: Iterable[str], others: Iterable[str] = ()) -> None:
        required = [tuple(path.split(".")) for path in needed]
        self._paths: list[FieldPath] = sorted({*required, *(tuple(path.split(".")) for path in others)})
        names = {name for path in self._paths for name in path}
        self._needed = {quoted(name) for path in required for name in path}
        self._names = sorted(quoted(name) for name in names)
        self._escaped = escapes_of(names)

    def among(self, events: Sequence[bytes | None], good: bool) -> list[int]:
        """Returns the positions of such events. `good`: each one has what every event must have.

        Mostly one test of all of them at once is enough: such a name is there as often as there are events.
        """
        if not self._paths:
            return []
        joined = b"\n".join(filter(None, events) if good else [event or b"" for event in events])
        suspects: set[int] = set()
        if b"\\" in joined and self._escaped.search(joined):
            good = False
            suspects |= {
                position for position, event in enumerate(events) if event and self._escaped.search(event)
            }
        for name in self._names:
            if not (good and name in self._needed and joined.count(name) == len(events)):
                suspects |= {
                    position for position, event in enumerate(events) if event and event.count(name) > 1
                }
        return [position for position in sorted(suspects) if self._is(events[position] or b"")]

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
        return all(event.count(name) == again.count(name) for name in self._names)


def _twice(node: Any, path: FieldPath) -> bool:
    for name in path:
        if not isinstance(node, _Members):
            return False
        values = [value for member, value in node if member == name]
        if len(values) != 1:
            return bool(values)
        [node] = values
    return False
