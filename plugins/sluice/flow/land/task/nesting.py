"""How deep an event may be nested: a number of our own, for what a parser's stack holds depends on who calls
it and on Python's version."""

from __future__ import annotations

import numpy as np

MOST_LEVELS = 900
"""Every parser behind the landing takes as many: Python 3.12's take 1,497."""

_MARKS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_QUOTE = ord('"')
_OTHERS = bytes(set(range(256)) - set(b'[{]}"'))


def too_deep(text: bytes, most: int = MOST_LEVELS) -> bool:
    """Returns whether more than `most` arrays and objects lie in one another. Brackets in strings are text.

    Of what is no JSON the answer means nothing, and is the same each time.
    """
    if len(text) <= most or text.count(b"[") + text.count(b"{") <= most:
        return False
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    marks = np.frombuffer(plain.translate(_MARKS, _OTHERS), np.int8)
    quotes = marks == _QUOTE
    outside = marks[~(quotes | np.logical_xor.accumulate(quotes))]
    return int(np.cumsum(outside, dtype=np.int32).max(initial=0)) > most
