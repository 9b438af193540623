"""The fields that landing needs of an event, read by msgspec while it checks the syntax of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, product
from operator import attrgetter
from typing import Any

import msgspec

from sluice.config.event import Event
from sluice.errors import WrongUse
from sluice.field_path import Absent, FieldPath, before, names_of, spellings
from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import Unparsed
from sluice.flow.land.task.nesting import too_deep

_RAW = msgspec.json.Decoder(msgspec.Raw)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MOST_READERS = 16


@dataclass(frozen=True)
class EventField:
    """A dotted path, the type its value must have, and the verdicts where it is absent or another's."""

    path: FieldPath
    type: Any
    absent: str
    other: str


def fields_of(event: Event) -> tuple[EventField, ...]:
    """Returns the type's field, then the time's, as far as they are fields of the event."""
    fields = []
    if event.type.field is not None:
        path = names_of(event.type.field)
        fields.append(EventField(path, str, reject_reasons.NO_TYPE, reject_reasons.TYPE_NOT_STRING))
    if event.time.field is not None:
        kind = str if event.time.format == "iso8601" else int | float
        path = names_of(event.time.field)
        fields.append(EventField(path, kind, reject_reasons.NO_TIME, reject_reasons.TIME_NOT_UNDERSTOOD))
    return tuple(fields)


class FastReader:
    """Reads events that spell each field's path with the `keys` given for it. `decode` raises
    msgspec.DecodeError for all but good ones of these; `getters` then read.

    `names`: each of these has them. `absent`: none has these keys, for their values would count.
    """

    def __init__(self, fields: Sequence[EventField], keys: Sequence[FieldPath]) -> None:
        tree: dict[str, Any] = {}
        absent: frozenset[FieldPath] = frozenset()
        for field, chosen in zip(fields, keys, strict=True):
            _plant(tree, chosen, field.type)
            absent |= before(field.path, chosen)
        for other in absent:
            _plant(tree, other, Absent)
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(tree)).decode
        self.getters = tuple(attrgetter(_attribute(tree, chosen)) for chosen in keys)
        self.names = frozenset(name for chosen in keys for name in chosen)
        self.absent = absent


def fast_readers(fields: Sequence[EventField]) -> list[FastReader]:
    """Returns readers of the spellings of the fields' paths, first of the one without dots in keys. Raises
    WrongUse where no event has all of the fields."""
    readers = []
    for keys in islice(product(*(spellings(field.path)[::-1] for field in fields)), _MOST_READERS):
        try:
            readers.append(FastReader(fields, keys))
        except _NoEvent:
            continue
    if not readers:
        paths = " and ".join(".".join(field.path) for field in fields)
        raise WrongUse(f"event: no event has both the type and the time where {paths} say")
    return readers


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


def _find(members: dict[str, msgspec.Raw], field: EventField) -> Any:
    found = (_at(members, keys) for keys in spellings(field.path))
    raw = next((raw for raw in found if raw is not None and bytes(raw) != b"null"), None)
    if raw is None:
        raise Unparsed(field.absent)
    try:
        return msgspec.json.decode(raw, type=field.type)
    except msgspec.DecodeError:
        raise Unparsed(field.other) from None


def _at(members: dict[str, msgspec.Raw] | None, keys: FieldPath) -> msgspec.Raw | None:
    for name in keys[:-1]:
        members = _members(members[name]) if members is not None and name in members else None
    return None if members is None else members.get(keys[-1])


def _members(raw: msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    """Returns None when it is no object."""
    try:
        return _OBJECT.decode(raw)
    except msgspec.ValidationError:
        return None


class _NoEvent(Exception):
    """No event has all of the fields where these spellings have them."""


def _plant(tree: dict[str, Any], keys: FieldPath, kind: Any) -> None:
    *parents, leaf = keys
    node: Any = tree
    for name in parents:
        node = node.setdefault(name, {})
        if not isinstance(node, dict):
            raise _NoEvent
    if node.setdefault(leaf, kind) != kind:
        raise _NoEvent


def _struct(tree: dict[str, Any]) -> type[msgspec.Struct]:
    members = [_member(f"m{number}", below) for number, below in enumerate(tree.values())]
    names = {f"m{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Event", members, rename=names, gc=False, kw_only=True)


def _member(attribute: str, below: Any) -> Any:
    if below is Absent:
        return attribute, Absent, None
    return attribute, _struct(below) if isinstance(below, dict) else below


def _attribute(tree: dict[str, Any], path: Sequence[str]) -> str:
    names = []
    for part in path:
        names.append(f"m{list(tree).index(part)}")
        tree = tree[part]
    return ".".join(names)
