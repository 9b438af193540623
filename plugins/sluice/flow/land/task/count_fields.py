"""The fields by which rows are counted, as the JSON text that stands in the payload."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from sluice.type_fields import FieldPath

_MOST_DIGITS = 20  # of an integer of 64 bits, its sign among them
_LIKELY_LARGE = re.compile(rb"\d{19}|[eE]\+?0*\d{3}")
NULL = b"null"  # a missing field counts as one that is null
_ABSENT = msgspec.Raw(NULL)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])

Tree = dict[str, "Tree"]


class FieldTexts:
    """`read` gives a column for each path: the text of each row's value. Values are not cast: `1` and `1.0`
    are two; one that is no object has no fields."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: list[FieldPath] = [tuple(path.split(".")) for path in paths]
        tree: Tree = {}
        for path in self._paths:
            node = tree
            for name in path:
                node = node.setdefault(name, {})
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(tree)).decode
        self._getters = [_getter(tree, path) for path in self._paths]

    def read(self, payloads: Sequence[bytes]) -> list[list[bytes]]:
        if not self._paths:
            return []
        try:
            events = [*map(self._decode, payloads)]
        except msgspec.DecodeError:  # somewhere a value is no object where a path runs through it
            rows = [self._slowly(payload) for payload in payloads]
            return [list(column) for column in zip(*rows, strict=True)]
        return [[*map(get, events)] for get in self._getters]

    def _slowly(self, payload: bytes) -> list[bytes]:
        return [_find(payload, path) for path in self._paths]


def canonical(text: bytes) -> bytes:
    """Returns the same for the same string, however it is escaped. A value with a number that ClickHouse
    cannot parse is the string of its text: the row of counts would be no JSON there, and its hour could not
    be done."""
    if text.startswith(b'"'):
        return msgspec.json.encode(msgspec.json.decode(text)) if b"\\" in text else text
    if _LIKELY_LARGE.search(text) and not _readable(text):
        return msgspec.json.encode(text.decode())
    return text


def _readable(text: bytes) -> bool:
    try:
        _NUMBERS.decode(text.decode())
    except OverflowError:
        return False
    return True


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS or not -(1 << 63) <= int(text) < 1 << 64:
        raise OverflowError
    return int(text)


def _double(text: str) -> float:
    if not math.isfinite(float(text)):
        raise OverflowError
    return float(text)


_NUMBERS = json.JSONDecoder(parse_int=_integer, parse_float=_double)


def _find(payload: bytes, path: FieldPath) -> bytes:
    raw: bytes | msgspec.Raw = payload
    for name in path:
        try:
            members = _OBJECT.decode(raw)
        except msgspec.ValidationError:
            return NULL
        raw = members.get(name, _ABSENT)
    return bytes(raw)


def _struct(tree: Tree) -> type[msgspec.Struct]:
    members = [_member(number, below) for number, below in enumerate(tree.values())]
    names = {f"m{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Event", members, rename=names, gc=False)


def _member(number: int, below: Tree) -> tuple[str, Any, Any]:
    return (f"m{number}", _struct(below) | None, None) if below else (f"m{number}", msgspec.Raw, _ABSENT)


def _getter(tree: Tree, path: FieldPath) -> Callable[[Any], bytes]:
    names = []
    for part in path:
        names.append(f"m{list(tree).index(part)}")
        tree = tree[part]
    if len(names) == 1:
        leaf = attrgetter(names[0])
        return lambda event: bytes(leaf(event))
    *inner, last = names

    def reach(event: Any) -> bytes:
        for name in inner:
            event = getattr(event, name)
            if event is None:
                return NULL
        return bytes(getattr(event, last))

    return reach
