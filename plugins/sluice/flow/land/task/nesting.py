"""How deep an event may be nested, and how many values it may have: numbers of our own, for what a parser's
stack and memory hold depends on who calls it and on Python's version."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from sluice.flow.land.expansion import MOST_VALUES

MOST_LEVELS = 900
"""Every parser behind the landing takes as many: Python 3.12's take 1,497."""

_BLOCK = 1 << 20
_OPEN, _COMMA = 1, 2
_BACKSLASHES = re.compile(rb"\\*")
_SIGNS = bytes.maketrans(b"[{]},", b"\x01\x01\xff\xff\x02")
_NO_SIGNS = bytes(set(range(256)) - set(b'[{]},"'))
_QUOTE = ord('"')


def too_deep(text: bytes, most: int = MOST_LEVELS) -> bool:
    """Returns whether more than `most` arrays and objects lie in one another. Brackets in strings are text.

    Of what is no JSON the answer means nothing, and is the same each time.
    """
    if len(text) <= most or text.count(b"[") + text.count(b"{") <= most:
        return False
    return any(int(depths.max(initial=0)) > most for _, depths in _structure(text))


def too_many_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Returns whether an event has more than `most` values, objects and arrays included; one that is empty
    counts twice. Of what is no JSON the answer means nothing, and is the same each time."""
    if len(text) <= 2 * most or sum(map(text.count, (b",", b"[", b"{"))) < most:
        return False
    return 1 + sum(int(((marks == _COMMA) | (marks == _OPEN)).sum()) for marks, _ in _structure(text)) > most


def too_many_elements(text: bytes, most: int = MOST_VALUES) -> bool:
    """Returns whether an array has more than `most` elements, in the same way."""
    if len(text) <= 2 * most or text.count(b",") < most:
        return False
    return 1 + sum(int(((marks == _COMMA) & (depth == 1)).sum()) for marks, depth in _structure(text)) > most


def _structure(text: bytes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields brackets and commas that are no text, and how deep each is, block by block."""
    inside, level, start = False, 0, 0
    while start < len(text):
        until = start + _BLOCK
        if text[until - 1 : until] == b"\\":  # an escape is not divided
            run = _BACKSLASHES.match(text, until)
            until = len(text) if run is None else run.end() + 1
        block, start = text[start:until], until
        plain = block.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in block else block
        marks = np.frombuffer(plain.translate(_SIGNS, _NO_SIGNS), np.int8)
        quotes = marks == _QUOTE
        within = np.logical_xor.accumulate(quotes) ^ inside
        if len(within):
            inside = bool(within[-1])
        outside = marks[~(quotes | within)]
        depth = level + np.cumsum(np.where(outside == _COMMA, 0, outside), dtype=np.int32)
        if len(depth):
            level = int(depth[-1])
        yield outside, depth
