"""Keyed hashes of values: HMAC-SHA-256 with the key's id in front. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

FORM = re.compile(rb"hmac256:([0-9a-f]{8}):[0-9a-f]{64}")
"""`hmac256:<the key's id>:<hexadecimal digits>`"""
_OTHER = b"\0"
"""Before what is no plain text, so that the number 1 and the text 1 have two hashes."""


_BLOCK = 64  # bytes of SHA-256


@dataclass(frozen=True)
class MaskKey:
    """A key of HMAC-SHA-256. Its id is eight hexadecimal digits, from which nobody gets the key."""

    secret: bytes = field(repr=False)

    def __getstate__(self) -> dict[str, bytes]:
        """Returns what travels: states of a hash cannot."""
        return {"secret": self.secret}

    @cached_property
    def id(self) -> str:
        return self._hex(b"\0id")[:8]

    def token(self, data: bytes) -> bytes:
        """Returns the hash of a text in UTF-8, or of a record's key or bytes: `openssl dgst -hmac` gives the
        same digits."""
        if data.startswith(_OTHER):
            data = b"\0text" + data
        return self._head + self._hex(data).encode()

    def token_of_json(self, text: bytes) -> bytes:
        """Returns the hash of a value that is no text: a number, a boolean, an object, as it is written."""
        return self._head + self._hex(_OTHER + b"json" + text).encode()

    @cached_property
    def _head(self) -> bytes:
        return b"hmac256:" + self.id.encode() + b":"

    @cached_property
    def _states(self) -> tuple[Any, Any]:
        """Hashes the first block of RFC 2104's two hashes: a copy takes a third of hmac.digest's time."""
        short = self.secret if len(self.secret) <= _BLOCK else sha256(self.secret).digest()
        padded = short.ljust(_BLOCK, b"\0")
        return sha256(bytes(byte ^ 0x36 for byte in padded)), sha256(bytes(byte ^ 0x5C for byte in padded))

    def _hex(self, data: bytes) -> str:
        inner, outer = (state.copy() for state in self._states)
        inner.update(data)
        outer.update(inner.digest())
        digits: str = outer.hexdigest()
        return digits


def is_token(data: bytes, of: Collection[str]) -> bool:
    """Returns whether `data` is what one of the keys with these ids has made. Anybody can write such a text:
    it means something only where the caller knows that nothing else can stand there."""
    match = FORM.fullmatch(data) if of else None
    return match is not None and match[1].decode() in of
