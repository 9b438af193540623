"""What may be done with the text of one JSON value. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sluice.mask.keyed_hash import MaskKey, is_token

_NULL = b"null"
_STRINGS = json.JSONDecoder(strict=False)
HIDDEN = "***"


@dataclass(frozen=True)
class Hashed:
    """Hashes with the key. `made`: ids of keys whose hashes may stand there already, because the same field
    was hashed when the record became bytes of the lake; they stay."""

    key: MaskKey
    made: frozenset[str] = frozenset()

    def __call__(self, text: bytes) -> bytes:
        if text == _NULL or (text[:1] == b'"' and is_token(text[1:-1], self.made)):
            return text
        return b'"' + token_of(self.key, text) + b'"'


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
    return json.dumps(text, ensure_ascii=False).encode()


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
