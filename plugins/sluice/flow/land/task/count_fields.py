"""The fields by which rows are counted, as the JSON text that stands in the payload."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from sluice.field_path import Absent, FieldPath, before, names_of, spellings

_MOST_DIGITS = 20  # of an integer of 64 bits, its sign among them
_LIKELY_LARGE = re.compile(rb"\d{19}|[eE]\+?0*\d{3}")
NULL = b"null"  # a missing field counts as one that is null
_ABSENT = msgspec.Raw(NULL)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])

_Tree = dict[str, Any]


class FieldTexts:
    """`read` gives a column for each path: the text of each row's value. Values are not cast: `1` and `1.0`
    are two; one that is no object has no fields."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: list[FieldPath] = [names_of(path) for path in paths]
        self._readers = [_Reader(self._paths, plain=True), _Reader(self._paths, plain=False)]

    def read(self, payloads: Sequence[bytes]) -> list[list[bytes]]:
        if not self._paths:
            return []
        for reader in self._readers:
            try:
                events = [*map(reader.decode, payloads)]
            except msgspec.DecodeError:
                continue
            return [[*map(get, events)] for get in reader.getters]
        # Somewhere a value is no object where a path runs through it.
        rows = [self._slowly(payload) for payload in payloads]
        return [list(column) for column in zip(*rows, strict=True)]

    def _slowly(self, payload: bytes) -> list[bytes]:
        found = ((_find(payload, keys) for keys in spellings(path)) for path in self._paths)
        return [next((text for text in texts if text != NULL), NULL) for texts in found]


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


class _Reader:
    """Reads events of which none has a key with a dot that may count (`plain`), or any."""

    def __init__(self, paths: Sequence[FieldPath], plain: bool) -> None:
        tree: _Tree = {}
        for keys in (keys for path in paths for keys in ([path] if plain else spellings(path))):
            _node(tree, keys[:-1]).setdefault(keys[-1], {})
        for other in (other for path in paths for other in before(path, path) if plain):
            _node(tree, other[:-1])[other[-1]] = Absent
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(tree)).decode
        self.getters = [
            _first([_getter(tree, keys) for keys in ([path] if plain else spellings(path))]) for path in paths
        ]


def _node(tree: _Tree, keys: FieldPath) -> _Tree:
    for name in keys:
        tree = tree.setdefault(name, {})
    return tree


def _struct(tree: _Tree) -> type[msgspec.Struct]:
    members = [_member(f"m{number}", below) for number, below in enumerate(tree.values())]
    names = {f"m{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Event", members, rename=names, gc=False)


def _member(attribute: str, below: Any) -> tuple[str, Any, Any]:
    if below is Absent:
        return attribute, Absent, None
    return (attribute, _struct(below) | None, None) if below else (attribute, msgspec.Raw, _ABSENT)


def _first(getters: Sequence[Callable[[Any], bytes]]) -> Callable[[Any], bytes]:
    """Returns what takes the first spelling with a value."""
    *earlier, last = getters
    if not earlier:
        return last

    def get(event: Any) -> bytes:
        for getter in earlier:
            if (text := getter(event)) != NULL:
                return text
        return last(event)

    return get


def _getter(tree: _Tree, path: FieldPath) -> Callable[[Any], bytes]:
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
