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
