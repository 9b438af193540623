"""Masks the records of one unit: events by their types, keys, headers, and bytes that are no event. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from sluice.config.mask import HEADERS, KEY, REJECTED_RECORDS
from sluice.field_path import HEADER, Absent, FieldPath, before, header_of, in_structs, names_of, spellings
from sluice.manifest import Masked
from sluice.mask.mask_rules import KeyedRule, MaskKey, MaskRules, is_token

DROPPED = b'"dropped"'
"""In the place of bytes that are no event, where they are dropped."""
_OBJECTS = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[dict[str, msgspec.Raw]])
_QUOTED = re.compile(rb'"([^"]*)"')
Headers = Sequence[tuple[str, bytes | None]]


class UnitMask:
    """`before`: what was masked already in the files that the records come from; None: they come from Kafka,
    or from files without a mask, and nothing that stands in them is trusted."""

    def __init__(self, rules: MaskRules, before: Masked | None = None) -> None:
        self._rules = rules
        self._before = before

    def event_of(self, kind: str) -> Callable[[bytes], bytes]:
        """Returns what masks the events of a type, which are JSON objects."""
        return self._events(
            {name: keyed for name, keyed in self._rules.fields.items() if keyed.rule.applies(kind)}
        )

    def rejected(self, text: bytes | None, too_deep: Callable[[bytes], bool]) -> bytes | None:
        """Returns the bytes that are kept of what was rejected: an object, or an array of objects, is masked
        by the rules of all types."""
        if text is None or is_held(text, self._before):
            return text
        return self._whole(text) if _is_event(text, too_deep) else self._part(REJECTED_RECORDS, text)

    def key(self, key: bytes | None) -> bytes | None:
        return None if key is None else self._part(KEY, key)

    def headers(self, headers: Headers) -> list[tuple[str, bytes | None]]:
        return [(name, self._header(name, value)) for name, value in headers]

    def _header(self, name: str, value: bytes | None) -> bytes | None:
        """Returns what is kept of a header: by its own rule, else by that of all headers."""
        field = f"{HEADER}{name}"
        keyed = self._rules.fields.get(field)
        if value is None or (keyed is not None and keyed.rule.keep):
            return value
        if keyed is None:
            return value if name in self._rules.read_headers else self._part(HEADERS, value)
        if keyed.keys:
            return value if is_token(value, self._key_ids(field)) else keyed.keys[0].token(value)
        if keyed.rule.drop:
            return None
        shown = FirstKept(keyed.rule.keep_first or 1)(_quoted(value.decode(errors="replace")))
        kept: str = msgspec.json.decode(shown, type=str)
        return kept.encode()

    @property
    def keeps(self) -> frozenset[str]:
        """Returns which parts of a record stay as they are."""
        return frozenset(name for name, keyed in self._rules.parts.items() if keyed.rule.keep)

    @cached_property
    def _whole(self) -> Callable[[bytes], bytes]:
        return EventMask(self._rewrites(self._rules.fields)).masked_slowly

    def _events(self, rules: Mapping[str, KeyedRule]) -> Callable[[bytes], bytes]:
        return EventMask(self._rewrites(rules)).masked

    def _rewrites(self, rules: Mapping[str, KeyedRule]) -> dict[FieldPath, Rewrite | Drop]:
        """Returns what is done with fields of events, not with headers."""
        paths = {names_of(name): (name, keyed) for name, keyed in rules.items()}
        return {path: self._rewrite(*rule) for path, rule in paths.items() if header_of(path) is None}

    def _rewrite(self, name: str, keyed: KeyedRule) -> Rewrite | Drop:
        if keyed.keys:
            return Hashed(keyed.keys[0], self._key_ids(name))
        return DROP if keyed.rule.drop else FirstKept(keyed.rule.keep_first or 1)

    def _key_ids(self, name: str) -> frozenset[str]:
        """Returns the ids of the keys whose hashes may stand in a field already."""
        before = self._before
        return frozenset(before.keys) if before is not None and name in before.hashed else frozenset()

    def _part(self, name: str, data: bytes) -> bytes | None:
        keyed = self._rules.parts[name]
        if keyed.rule.keep or is_token(data, self._key_ids(name)):
            return data
        if not keyed.keys:
            return DROPPED if name == REJECTED_RECORDS else None
        token = keyed.keys[0].token(data)
        return b'"' + token + b'"' if name == REJECTED_RECORDS else token


def is_held(text: bytes, masked: Masked | None) -> bool:
    """Returns whether all that a file has of a rejected record is its hash, or that it was dropped."""
    if masked is None or REJECTED_RECORDS not in masked.hashed:
        return False
    match = _QUOTED.fullmatch(text)
    return text == DROPPED or (match is not None and is_token(match[1], masked.keys))


def _is_event(text: bytes, too_deep: Callable[[bytes], bool]) -> bool:
    try:
        text.decode()
        if too_deep(text):
            return False
        value: Any = _OBJECTS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return bool(value) or text.strip()[:1] == b"{"


# What may be done with the text of one JSON value. Pure.
_NULL = b"null"
_CACHED, _SHORT = 10_000, 200
"""So many hashes of values of so many bytes are kept in memory: most values come more than once."""
_STRINGS = json.JSONDecoder(strict=False)
HIDDEN = "***"


class Hashed:
    """Hashes with the key. `key_ids`: keys whose hashes may stand there already, because the same field was
    hashed when the record became bytes of the lake; they stay."""

    def __init__(self, key: MaskKey, key_ids: frozenset[str] = frozenset()) -> None:
        self._key, self._key_ids = key, key_ids
        self._cached = lru_cache(_CACHED)(self._token)

    def __call__(self, text: bytes) -> bytes:
        if text == _NULL or (self._key_ids and text[:1] == b'"' and is_token(text[1:-1], self._key_ids)):
            return text
        return self._cached(text) if len(text) <= _SHORT else self._token(text)

    def _token(self, text: bytes) -> bytes:
        return b'"' + token_of(self._key, text) + b'"'


@dataclass(frozen=True)
class FirstKept:
    """Keeps the first characters of a text, and nothing of any other value but null. What it has made stays
    as it is."""

    characters: int

    def __call__(self, text: bytes) -> bytes:
        if text == _NULL:
            return text
        string = _text(text)
        if string is None:
            return _quoted(HIDDEN)
        if string.endswith(HIDDEN) and len(string) <= self.characters + len(HIDDEN):
            return text
        return _quoted(string[: self.characters] + HIDDEN)


def token_of(key: MaskKey, text: bytes) -> bytes:
    """Returns the hash of a JSON value's text. A string counts as the text that it says, however it is
    escaped."""
    string = _text(text)
    return key.token_of_json(text) if string is None else key.token(string.encode())


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)


def _text(text: bytes) -> str | None:
    """Returns None for a value that is no string, or says none: half of a pair of surrogates."""
    if text[:1] != b'"':
        return None
    if b"\\" not in text:
        return text[1:-1].decode()
    try:
        string: str = _STRINGS.decode(text.decode())
        string.encode()
    except ValueError:
        return None
    return string


# Masks the text of events: quickly where each name stands once, member by member elsewhere. Pure.
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
        quick = [_Quick(rules, absent), *([_Quick(every, ())] if absent else [])] if in_structs(rules) else []
        self._quick = quick
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


Rewrite = Callable[[bytes], bytes]
"""From the text of a JSON value to another. It is never asked for an array: its elements are asked for."""


class Drop(Enum):
    """The member is left out, with the comma that parts it from others."""

    DROP = "drop"


DROP: Final = Drop.DROP
EditTree = Mapping[str, "Rewrite | EditTree | Drop"]
"""What is done with the members of an object, by their names."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TEXT = re.compile(_STRING, re.DOTALL)
_MARK = re.compile(rb"[{}\[\]]|" + _STRING, re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\n\r,\]}]+")
_SPACE = re.compile(rb"[ \t\n\r]*")
_NAMES = json.JSONDecoder(strict=False)


def edited(text: bytes, rules: EditTree) -> bytes:
    """Returns the object in `text`, or the array of objects, with its members rewritten or left out. Of a
    name that is there twice both are; an array on the way means each of its elements. To be called where the
    stack is deep enough: sluice.runtime.deeper."""
    scan = _Scan(text)
    scan.value(scan.space(0), rules)
    return scan.result()


class _Scan:
    def __init__(self, text: bytes) -> None:
        self._text = text
        self._edits: list[tuple[int, int, bytes]] = []

    def result(self) -> bytes:
        parts, at = [], 0
        for start, end, new in self._edits:
            parts += [self._text[at:start], new]
            at = end
        return b"".join([*parts, self._text[at:]])

    def space(self, at: int) -> int:
        return _end(_SPACE, self._text, at)

    def value(self, at: int, rule: Rewrite | EditTree) -> int:
        """Changes the value that begins at `at`, and returns its end."""
        first = self._text[at : at + 1]
        if first == b"[":
            return self._array(at, rule)
        if not callable(rule):
            return self._object(at, rule) if first == b"{" else self._skip(at)
        end = self._skip(at)
        new = rule(self._text[at:end])
        if new != self._text[at:end]:
            self._edits.append((at, end, new))
        return end

    def _array(self, at: int, rule: Rewrite | EditTree) -> int:
        at = self.space(at + 1)
        while self._text[at : at + 1] != b"]":
            at = self.space(self.value(at, rule))
            if self._text[at : at + 1] == b",":
                at = self.space(at + 1)
        return at + 1

    def _object(self, at: int, rules: EditTree) -> int:
        at, kept = self.space(at + 1), -1
        while self._text[at : at + 1] != b"}":
            name_end = _end(_TEXT, self._text, at)
            value = self.space(self.space(name_end) + 1)
            name = _name(self._text[at:name_end])
            rule = None if name is None else rules.get(name)
            end = self._skip(value) if rule is None or rule is DROP else self.value(value, rule)
            after = self.space(end)
            last = self._text[after : after + 1] == b"}"
            following = after if last else self.space(after + 1)
            if rule is DROP:
                self._drop(at, end if last else following, kept if last else -1)
            else:
                kept = end
            at = following
        return at + 1

    def _drop(self, start: int, end: int, kept: int) -> None:
        """Leaves out a member. `kept`: the end of the last member that stays, where none follows."""
        start = start if kept < 0 else kept
        while self._edits and self._edits[-1][0] >= start:
            self._edits.pop()
        self._edits.append((start, end, b""))

    def _skip(self, at: int) -> int:
        """Returns the end of the value that begins at `at`."""
        first = self._text[at : at + 1]
        if first == b'"':
            return _end(_TEXT, self._text, at)
        if first not in (b"{", b"["):
            return _end(_SCALAR, self._text, at)
        level = 0
        for mark in _MARK.finditer(self._text, at):
            sign = self._text[mark.start()]
            level += (sign in b"{[") - (sign in b"}]")
            if not level:
                return mark.end()
        raise ValueError("no JSON")


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError("no JSON")
    return match.end()


def _name(text: bytes) -> str | None:
    """Returns None for a name that no reader can decode."""
    if b"\\" not in text:
        return text[1:-1].decode()
    try:
        name: str = _NAMES.decode(text.decode())
    except ValueError:
        return None
    return name


_SHORT_ESCAPES = '"\\/\b\f\n\r\t'


def quoted(name: str) -> bytes:
    """Returns the name as most writers spell it."""
    return json.dumps(name, ensure_ascii=False).encode()


def escapes_of(names: Iterable[str]) -> re.Pattern[bytes]:
    """Returns what finds an escaped character that one of the names has: a text without a match spells each
    of them as `quoted` does, or has none."""
    alternatives = sorted({_escape(char) for name in names for char in name})
    return re.compile("|".join(alternatives).encode(), re.IGNORECASE)


def _escape(char: str) -> str:
    """Returns a regular expression for what the character may be in JSON but itself."""
    units = char.encode("utf-16-be").hex()
    long = "".join(rf"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return rf"{long}|\\" if char in _SHORT_ESCAPES else long
