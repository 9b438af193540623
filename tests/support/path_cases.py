"""What a dotted path means, by hand: for each event the value that is read, and all that is hidden and found.

The model below says the same in a few lines, for events made at random.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

TOKENS = ("p1", "p2", "p3", "p4", "x")


@dataclass(frozen=True)
class PathCase:
    """`value` is what a column, the type, the time and counts read; `covered` is what a mask hides, and by
    what an erasure and `find` find the event. `rejected`: a column's row is a rejected row."""

    path: str
    event: str
    value: str | None
    covered: tuple[str, ...]
    rejected: bool = False

    @property
    def left(self) -> set[str]:
        """The tokens that a mask leaves."""
        return {token for token in TOKENS if f'"{token}"' in self.event} - set(self.covered)


CASES = [
    # Literal only, nested only, both in either order.
    PathCase("user.id", '{"user.id": "p1"}', "p1", ("p1",)),
    PathCase("user.id", '{"user": {"id": "p1"}}', "p1", ("p1",)),
    PathCase("user.id", '{"user.id": "p1", "user": {"id": "p2"}}', "p1", ("p1", "p2")),
    PathCase("user.id", '{"user": {"id": "p2"}, "user.id": "p1"}', "p1", ("p1", "p2")),
    PathCase("user.id", '{"user": {"id": "p1"}, "id": "x", "user.name": "x"}', "p1", ("p1",)),
    PathCase("user.id", r'{"user\u002eid": "p1"}', "p1", ("p1",)),
    PathCase("user.id", r'{"user.id": "p1", "us\u0065r": {"\u0069d": "p2"}}', "p1", ("p1", "p2")),
    # Null says nothing.
    PathCase("user.id", '{"user.id": null, "user": {"id": "p2"}}', "p2", ("p2",)),
    PathCase("user.id", '{"user.id": "p1", "user": {"id": null}}', "p1", ("p1",)),
    PathCase("user.id", '{"user.id": "p1", "user": null}', "p1", ("p1",)),
    PathCase("user.id", '{"user.id": null}', None, ()),
    PathCase("user.id", '{"user": {"id": null}, "user.id": null}', None, ()),
    # Not there.
    PathCase("user.id", '{"id": "x", "x.user.id": "x", "user": {"user.id": "x"}}', None, ()),
    PathCase("user.id", "{}", None, ()),
    # What is no object has no fields: a column's row is a rejected row, unless the value is elsewhere.
    PathCase("user.id", '{"user": "x"}', None, (), rejected=True),
    PathCase("user.id", '{"user.id": "p1", "user": "x"}', "p1", ("p1",)),
    PathCase("user.id", '{"user.id": null, "user": "x"}', None, (), rejected=True),
    # Under an array nothing is read, and everything is hidden and found.
    PathCase("user.id", '{"user": [{"id": "p1"}, {"id": "p2"}]}', None, ("p1", "p2"), rejected=True),
    PathCase("user.id", '{"user.id": "p1", "user": [{"id": "p2"}]}', "p1", ("p1", "p2")),
    PathCase("user.id", '{"user": [[{"id": "p1"}], {"user.id": "x"}]}', None, ("p1",), rejected=True),
    # Three names: each dot may stand in a key, and the longest first key counts.
    PathCase("a.b.c", '{"a.b.c": "p1"}', "p1", ("p1",)),
    PathCase("a.b.c", '{"a.b": {"c": "p1"}}', "p1", ("p1",)),
    PathCase("a.b.c", '{"a": {"b.c": "p1"}}', "p1", ("p1",)),
    PathCase("a.b.c", '{"a": {"b": {"c": "p1"}}}', "p1", ("p1",)),
    PathCase(
        "a.b.c",
        '{"a": {"b": {"c": "p4"}, "b.c": "p3"}, "a.b": {"c": "p2"}, "a.b.c": "p1"}',
        "p1",
        ("p1", "p2", "p3", "p4"),
    ),
    PathCase("a.b.c", '{"a": {"b": {"c": "p4"}, "b.c": "p3"}, "a.b": {"c": "p2"}}', "p2", ("p2", "p3", "p4")),
    PathCase("a.b.c", '{"a": {"b": {"c": "p4"}, "b.c": "p3"}, "a.b": {"x": "x"}}', "p3", ("p3", "p4")),
    PathCase("a.b.c", '{"a": {"b": {"c": "p4"}, "b.c": null}, "a.b": {"c": null}}', "p4", ("p4",)),
    PathCase("a.b.c", '{"a": {"b": {"c": "p4"}}, "a.b": "x"}', "p4", ("p4",)),
    PathCase("a.b.c", '{"a": {"b": {"c": "p4"}}, "a.b": ["x"]}', "p4", ("p4",)),
    PathCase("a.b.c", '{"a": {"b": {"c": "p4"}}, "a.b": [{"c": "p2"}]}', "p4", ("p2", "p4")),
    PathCase("a.b.c", '{"a.b": "x"}', None, ()),
    PathCase("a.b.c", '{"a": {"b": "x", "b.c": "p1"}}', "p1", ("p1",)),
    PathCase("a.b.c", '{"a": {"b": "x"}}', None, (), rejected=True),
    PathCase("a.b.c", '{"a": "x", "a.b": {"c": "p1"}}', "p1", ("p1",)),
    PathCase("a.b.c", '{"c": "x", "b.c": "x", "a": {"c": "x"}, "b": {"c": "x"}, "a.c": "x"}', None, ()),
]


def read_by_model(event: Any, names: list[str]) -> Any:
    """The value at a path: the longest first key that leads to one."""
    if not names:
        return event
    for size in range(len(names), 0, -1):
        inner = event.get(".".join(names[:size])) if isinstance(event, dict) else None
        if inner is not None and (value := read_by_model(inner, names[size:])) is not None:
            return value
    return None


def covered_by_model(event: Any, names: list[str]) -> Iterator[str]:
    """All single values at a path, also of arrays."""
    if isinstance(event, list):
        for element in event:
            yield from covered_by_model(element, names)
    elif not names:
        yield from [event] if isinstance(event, str) else []
    else:
        for size in range(1, len(names) + 1):
            key = ".".join(names[:size])
            if isinstance(event, dict) and key in event:
                yield from covered_by_model(event[key], names[size:])


def random_event(chance: Random, depth: int = 4) -> dict[str, Any]:
    """An object of keys that a path a.b.c, or a part of it, may meet; each text in it stands once."""
    keys = ["a", "b", "c", "a.b", "b.c", "a.b.c", "a.c"]
    picked = chance.sample(keys, chance.randint(0, 4))
    return {key: _random_value(chance, depth - 1) for key in picked}


def _random_value(chance: Random, depth: int) -> Any:
    kind = chance.random()
    if kind < 0.15:
        return None
    if kind < 0.45 or not depth:
        return f"t{chance.getrandbits(48)}"
    if kind < 0.55:
        return [_random_value(chance, depth - 1) for _ in range(chance.randint(0, 2))]
    return random_event(chance, depth)


def written(event: Any) -> bytes:
    return json.dumps(event).encode()
