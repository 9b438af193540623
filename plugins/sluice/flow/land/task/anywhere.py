"""Finds an erased value at any place in bytes that are no event: as they are, unescaped, percent-decoded.

In a text it is no part of a longer word: `user-1` is not in `user-12`. In other bytes what stands before it
may be a length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote_to_bytes

import numpy as np

from sluice.state.erasures import PROBES, AskedValue, ErasureList, probe_weights

SHORTEST = 8
"""Bytes of a value that is searched for anywhere in what is no JSON object; a shorter one only where it
follows the field's name."""
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


class Anywhere:
    """The values of some entries that are long enough, by their lengths."""

    def __init__(self, erasures: ErasureList, values: Sequence[AskedValue]) -> None:
        self._digest = erasures.digest
        self._by_length: dict[int, dict[int, set[str]]] = {}
        for value in values:
            if value.bytes >= SHORTEST:
                probes = self._by_length.setdefault(value.bytes, {})
                probes.setdefault(value.probe, set()).add(value.digest)
        self._weights = np.array(probe_weights(erasures.salt) if self._by_length else (), np.uint64)

    def has(self, text: bytes) -> bool:
        return bool(self._by_length) and any(self._in(form) for form in forms_of(text))

    def _in(self, text: bytes) -> bool:
        is_text = _is_text(text)
        sums = np.zeros(len(text) + 1, np.uint64)
        np.cumsum(self._weights[np.frombuffer(text, np.uint8)], out=sums[1:])
        for length, digests_by_probe in self._by_length.items():
            if length > len(text):
                continue
            probes = (sums[length:] - sums[:-length]) % np.uint64(PROBES)
            for start in np.flatnonzero(np.isin(probes, [*digests_by_probe])).tolist():
                if is_text and _within_word(text, start, start + length):
                    continue
                if self._digest(text[start : start + length]) in digests_by_probe[int(probes[start])]:
                    return True
        return False


def _is_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


def _within_word(text: bytes, start: int, until: int) -> bool:
    """Returns whether a letter or a digit goes on before or after what is a letter or a digit itself."""
    before = start > 0 and text[start - 1 : start].isalnum() and text[start : start + 1].isalnum()
    return before or (text[until : until + 1].isalnum() and text[until - 1 : until].isalnum())


def forms_of(text: bytes) -> Iterator[bytes]:
    """Yields the bytes, and what they are without JSON's escapes and without those of addresses."""
    yield text
    if b"\\" in text:
        yield _ESCAPE.sub(_unescaped, text)
    if b"%" in text:
        yield unquote_to_bytes(text)


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return _SHORT.get(found[2], found[2])
    return chr(int(found[1], 16)).encode(errors="replace")
