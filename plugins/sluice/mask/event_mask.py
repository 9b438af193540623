"""Masks the text of events: quickly where each name stands once, member by member elsewhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from sluice.field_path import Absent, FieldPath, before, spellings
from sluice.mask.json_edit import DROP, Drop, Rewrite, edited
from sluice.mask.json_names import escapes_of, quoted

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
    """Masks events by what is done at each path, in each of its spellings. No path runs through another."""

    def __init__(self, rules: Mapping[FieldPath, Rewrite | Drop]) -> None:
        every = {keys: rewrite for path, rewrite in rules.items() for keys in spellings(path)}
        self._tree: _Tree = {}
        for keys, rewrite in every.items():
            _plant(self._tree, keys, rewrite)
        absent = {other for path in rules for other in before(path, path)}
        self._quick = [_Quick(rules, absent), *([_Quick(every, ())] if absent else [])]
        self._ends = [quoted(path[-1])[1:] for path in rules]
        self._escaped = escapes_of({".".join(path) for path in rules}) if rules else None

    def masked(self, text: bytes) -> bytes:
        """Returns the event with its fields masked; `text` is known to be a JSON object. To be called where
        the stack is deep enough: sluice.runtime.deeper."""
        if self._escaped is None:
            return text
        if b"\\" in text and self._escaped.search(text):
            return edited(text, self._tree)
        for end in self._ends:
            if end in text:
                break
        else:
            return text
        for quick in self._quick:
            try:
                event = quick.decode(text)
            except msgspec.DecodeError:
                continue
            done = quick.masked(text, event)
            return edited(text, self._tree) if done is None else done
        return edited(text, self._tree)

    def masked_slowly(self, text: bytes) -> bytes:
        """Returns the same, also for an array of objects."""
        return edited(text, self._tree) if self._tree else text


class _Quick:
    """Masks events by `rules`, at keys and not at paths. No event has the keys `absent`."""

    def __init__(self, rules: Mapping[FieldPath, Rewrite | Drop], absent: Iterable[FieldPath]) -> None:
        tree: _Tree = {}
        for keys, rewrite in rules.items():
            _plant(tree, keys, rewrite)
        for keys in absent:
            _plant(tree, keys, Absent)
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(tree)).decode
        self._leaves = [_leaf(tree, keys, rewrite) for keys, rewrite in rules.items()]

    def masked(self, text: bytes, event: Any) -> bytes | None:
        """Returns None where names alone do not say which value is which: one of them is there twice, stands
        elsewhere too, or an array is on its way.

        A name that stands once, in a text whose reader has found the field, is that field's.
        """
        for leaf in self._leaves:
            at = text.find(leaf.name)
            if at < 0:
                continue
            value = leaf.get(event)
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


def _plant(tree: _Tree, path: FieldPath, rewrite: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = rewrite


def _struct(tree: _Tree) -> type[msgspec.Struct]:
    members = [_member(number, below) for number, below in enumerate(tree.values())]
    names = {f"m{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Masked", members, rename=names, gc=False)


def _member(number: int, below: Any) -> tuple[str, Any, Any]:
    if below is Absent:
        return f"m{number}", Absent, None
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
