"""Masks the text of events: quickly where each name stands once, member by member elsewhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from sluice.mask.json_edit import DROP, Drop, Rewrite, edited
from sluice.mask.json_names import escapes_of, quoted
from sluice.type_fields import FieldPath

_COLON = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")
_COMMA = re.compile(rb"[ \t\n\r]*,[ \t\n\r]*")
_BLANK = b" \t\n\r"

_Tree = dict[str, Any]


@dataclass(frozen=True)
class _Leaf:
    """A masked field: its path's names as they are spelled, the last one of them, and what is done."""

    names: tuple[bytes, ...]
    name: bytes
    rewrite: Rewrite | Drop
    get: Callable[[Any], Any]


class EventMask:
    """Masks events by `rules`: what is done at each path, of which none runs through another."""

    def __init__(self, rules: Mapping[FieldPath, Rewrite | Drop]) -> None:
        self._tree: _Tree = {}
        for path, rewrite in rules.items():
            _plant(self._tree, path, rewrite)
        struct = _struct(self._tree)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(struct).decode
        self._leaves = [_leaf(self._tree, path, rewrite) for path, rewrite in rules.items()]
        self._escaped = escapes_of({name for path in rules for name in path}) if rules else None

    def masked(self, text: bytes) -> bytes:
        """Returns the event with its fields masked; `text` is known to be a JSON object. To be called where
        the stack is deep enough: sluice.runtime.deeper."""
        if self._escaped is None:
            return text
        if b"\\" in text and self._escaped.search(text):
            return edited(text, self._tree)
        met = [leaf for leaf in self._leaves if leaf.name in text]
        if not met:
            return text
        quick = self._quick(text, met)
        return edited(text, self._tree) if quick is None else quick

    def masked_slowly(self, text: bytes) -> bytes:
        """Returns the same, also for an array of objects."""
        return edited(text, self._tree) if self._leaves else text

    def _quick(self, text: bytes, met: Sequence[_Leaf]) -> bytes | None:
        """Returns None where names alone do not say which value is which: one of them is there twice, stands
        elsewhere too, or an array is on its way.

        A name that stands once, in a text whose reader has found the field, is that field's.
        """
        try:
            event = self._decode(text)
        except msgspec.DecodeError:
            return None
        for leaf in met:
            value, at = leaf.get(event), text.find(leaf.name)
            if value is None:
                if all(map(text.__contains__, leaf.names)):
                    return None
                continue
            written, colon = bytes(value), _COLON.match(text, at + len(leaf.name))
            if text.find(leaf.name, at + 1) >= 0 or colon is None or written[:1] == b"[":
                return None
            start, end = colon.end(), colon.end() + len(written)
            if text[start:end] != written:
                return None
            if leaf.rewrite is DROP:
                start, end, new = *_dropped(text, at, end), b""
            else:
                new = leaf.rewrite(written)
            text = text[:start] + new + text[end:]
        return text


def _dropped(text: bytes, at: int, end: int) -> tuple[int, int]:
    """Returns what goes with a member between `at` and `end`: the comma behind it, else that before it."""
    comma = _COMMA.match(text, end)
    if comma is not None:
        return at, comma.end()
    before = len(text[:at].rstrip(_BLANK))
    if text[before - 1 : before] != b",":
        return at, end
    return len(text[: before - 1].rstrip(_BLANK)), end


def _plant(tree: _Tree, path: FieldPath, rewrite: Rewrite | Drop) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = rewrite


def _struct(tree: _Tree) -> type[msgspec.Struct]:
    members = [_member(number, below) for number, below in enumerate(tree.values())]
    names = {f"m{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Masked", members, rename=names, gc=False)


def _member(number: int, below: Any) -> tuple[str, Any, Any]:
    kind = _struct(below) | None if isinstance(below, dict) else msgspec.Raw
    return f"m{number}", kind, None


def _leaf(tree: _Tree, path: FieldPath, rewrite: Rewrite | Drop) -> _Leaf:
    numbers = []
    for part in path:
        numbers.append(f"m{list(tree).index(part)}")
        tree = tree[part]
    return _Leaf(tuple(map(quoted, path)), quoted(path[-1]), rewrite, _getter(numbers))


def _getter(numbers: Sequence[str]) -> Callable[[Any], Any]:
    *inner, last = numbers
    leaf = attrgetter(last)
    if not inner:
        return leaf

    def reach(event: Any) -> Any:
        for name in inner:
            event = getattr(event, name)
            if event is None:
                return None
        return leaf(event)

    return reach
