"""What may be done with the text of one JSON value. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from sluice.mask.keyed_hash import MaskKey, is_token

_NULL = b"null"
_CACHED, _SHORT = 10_000, 200
"""So many hashes of values of so many bytes are kept in memory: most values come more than once."""
_STRINGS = json.JSONDecoder(strict=False)
HIDDEN = "***"


class Hashed:
    """Hashes with the key. `made`: ids of keys whose hashes may stand there already, because the same field
    was hashed when the record became bytes of the lake; they stay."""

    def __init__(self, key: MaskKey, made: frozenset[str] = frozenset()) -> None:
        self._key, self._made = key, made
        self._cached = lru_cache(_CACHED)(self._token)

    def __call__(self, text: bytes) -> bytes:
        if text == _NULL or (self._made and text[:1] == b'"' and is_token(text[1:-1], self._made)):
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
        own = _text(text)
        if own is None:
            return _quoted(HIDDEN)
        if own.endswith(HIDDEN) and len(own) <= self.characters + len(HIDDEN):
            return text
        return _quoted(own[: self.characters] + HIDDEN)


def token_of(key: MaskKey, text: bytes) -> bytes:
    """Returns the hash of a JSON value's text. A string counts as the text that it says, however it is
    escaped."""
    own = _text(text)
    return key.token_of_json(text) if own is None else key.token(own.encode())


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)


def _text(text: bytes) -> str | None:
    """Returns None for a value that is no string, or says none: half of a pair of surrogates."""
    if text[:1] != b'"':
        return None
    if b"\\" not in text:
        return text[1:-1].decode()
    try:
        own: str = _STRINGS.decode(text.decode())
        own.encode()
    except ValueError:
        return None
    return own
