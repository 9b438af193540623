"""The fields that landing needs of an event, read by msgspec while it checks the syntax of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from sluice.config.event import Event
from sluice.errors import WrongUse
from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import Unparsed
from sluice.flow.land.task.nesting import too_deep

_RAW = msgspec.json.Decoder(msgspec.Raw)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class EventField:
    """A dotted path, the type its value must have, and the verdicts where it is absent or another's."""

    path: tuple[str, ...]
    type: Any
    absent: str
    other: str


def fields_of(event: Event) -> tuple[EventField, ...]:
    """Returns the type's field, then the time's, as far as they are fields of the event."""
    fields = []
    if event.type.field is not None:
        path = tuple(event.type.field.split("."))
        fields.append(EventField(path, str, reject_reasons.NO_TYPE, reject_reasons.TYPE_NOT_STRING))
    if event.time.field is not None:
        kind = str if event.time.format == "iso8601" else int | float
        path = tuple(event.time.field.split("."))
        fields.append(EventField(path, kind, reject_reasons.NO_TIME, reject_reasons.TIME_NOT_UNDERSTOOD))
    return tuple(fields)


class FastReader:
    """`decode` raises msgspec.DecodeError for all but good events; `getters` then read.

    Raises WrongUse when one field's path runs through the other's value.
    """

    def __init__(self, fields: Sequence[EventField]) -> None:
        tree: dict[str, Any] = {}
        for field in fields:
            _plant(tree, field)
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(tree)).decode
        self.getters = tuple(attrgetter(_attribute(tree, field.path)) for field in fields)


def slow_read(value: bytes, fields: Sequence[EventField]) -> list[Any]:
    """Returns the fields' values, or the reason that comes first. Raises Unparsed."""
    try:
        value.decode()
        if too_deep(value):
            raise Unparsed(reject_reasons.NESTED_TOO_DEEP)
        members = _members(_RAW.decode(value))
    except UnicodeDecodeError:
        raise Unparsed(reject_reasons.NOT_UTF8) from None
    except msgspec.DecodeError:
        raise Unparsed(reject_reasons.NOT_JSON) from None
    if members is None:
        raise Unparsed(reject_reasons.NOT_AN_OBJECT)
    return [_find(members, field) for field in fields]


def _find(members: dict[str, msgspec.Raw] | None, field: EventField) -> Any:
    for name in field.path[:-1]:
        members = _members(members[name]) if members is not None and name in members else None
    raw = None if members is None else members.get(field.path[-1])
    if raw is None or bytes(raw) == b"null":
        raise Unparsed(field.absent)
    try:
        return msgspec.json.decode(raw, type=field.type)
    except msgspec.DecodeError:
        raise Unparsed(field.other) from None


def _members(raw: msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    """Returns None when it is no object."""
    try:
        return _OBJECT.decode(raw)
    except msgspec.ValidationError:
        return None


def _plant(tree: dict[str, Any], field: EventField) -> None:
    *parents, leaf = field.path
    node: Any = tree
    for name in parents:
        node = node.setdefault(name, {})
        if not isinstance(node, dict):
            break
    if not isinstance(node, dict) or node.setdefault(leaf, field.type) != field.type:
        raise WrongUse(f"event: no event has both the type and the time where {'.'.join(field.path)} says")


def _struct(tree: dict[str, Any]) -> type[msgspec.Struct]:
    members = [(f"m{i}", _struct(t) if isinstance(t, dict) else t) for i, t in enumerate(tree.values())]
    names = {f"m{i}": name for i, name in enumerate(tree)}
    return msgspec.defstruct("Event", members, rename=names, gc=False)


def _attribute(tree: dict[str, Any], path: Sequence[str]) -> str:
    names = []
    for part in path:
        names.append(f"m{list(tree).index(part)}")
        tree = tree[part]
    return ".".join(names)
