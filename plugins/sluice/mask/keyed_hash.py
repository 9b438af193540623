"""Keyed hashes of values: HMAC-SHA-256 with the key's id in front. Pure."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

FORM = re.compile(rb"hmac256:([0-9a-f]{8}):[0-9a-f]{64}")
"""`hmac256:<the key's id>:<hexadecimal digits>`"""
_OTHER = b"\0"
"""Before what is no plain text, so that the number 1 and the text 1 have two hashes."""


@dataclass(frozen=True)
class MaskKey:
    """A key of HMAC-SHA-256. Its id is eight hexadecimal digits, from which nobody gets the key."""

    secret: bytes = field(repr=False)

    @cached_property
    def id(self) -> str:
        return hmac.digest(self.secret, b"\0id", "sha256").hex()[:8]

    @cached_property
    def _head(self) -> bytes:
        return b"hmac256:" + self.id.encode() + b":"

    def token(self, data: bytes) -> bytes:
        """Returns the hash of a text in UTF-8, or of a record's key or bytes: `openssl dgst -hmac` gives the
        same digits."""
        if data.startswith(_OTHER):
            data = b"\0text" + data
        return self._head + hmac.digest(self.secret, data, "sha256").hex().encode()

    def token_of_json(self, text: bytes) -> bytes:
        """Returns the hash of a value that is no text: a number, a boolean, an object, as it is written."""
        return self._head + hmac.digest(self.secret, _OTHER + b"json" + text, "sha256").hex().encode()


def is_token(data: bytes, of: Collection[str]) -> bool:
    """Returns whether `data` is what one of the keys with these ids has made. Anybody can write such a text:
    it means something only where the caller knows that nothing else can stand there."""
    found = FORM.fullmatch(data) if of else None
    return found is not None and found[1].decode() in of
