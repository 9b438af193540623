"""Masks the records of one unit: events by their types, keys, headers, and bytes that are no event. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from sluice.config.mask import HEADERS, KEY, UNPARSED
from sluice.field_path import names_of
from sluice.manifest import Masked
from sluice.mask.event_mask import EventMask
from sluice.mask.json_edit import DROP, Drop, Rewrite
from sluice.mask.keyed_hash import MaskKey, is_token
from sluice.mask.mask_rules import KeyedRule, MaskRules

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
        return self._whole(text) if _is_event(text, too_deep) else self._part(UNPARSED, text)

    def key(self, key: bytes | None) -> bytes | None:
        return None if key is None else self._part(KEY, key)

    def headers(self, headers: Headers) -> list[tuple[str, bytes | None]]:
        return [(name, self._header(name, value)) for name, value in headers]

    def _header(self, name: str, value: bytes | None) -> bytes | None:
        kept = value is None or name in self._rules.read_headers
        return value if kept else self._part(HEADERS, value or b"")

    @property
    def keeps(self) -> frozenset[str]:
        """Returns which parts of a record stay as they are."""
        return frozenset(name for name, keyed in self._rules.parts.items() if keyed.rule.keep)

    @cached_property
    def _whole(self) -> Callable[[bytes], bytes]:
        rules = {names_of(name): self._rewrite(name, keyed) for name, keyed in self._rules.fields.items()}
        return EventMask(rules).masked_slowly

    def _events(self, rules: Mapping[str, KeyedRule]) -> Callable[[bytes], bytes]:
        return EventMask({names_of(name): self._rewrite(name, keyed) for name, keyed in rules.items()}).masked

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
            return DROPPED if name == UNPARSED else None
        token = keyed.keys[0].token(data)
        return b'"' + token + b'"' if name == UNPARSED else token


def is_held(text: bytes, masked: Masked | None) -> bool:
    """Returns whether all that a file has of a rejected record is its hash, or that it was dropped."""
    if masked is None or UNPARSED not in masked.hashed:
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
