"""Whether payloads may hold a number that no double keeps: if so, the load checks each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.flow.land.task.records import runs_of

RUN = 16  # bytes of digits and points
_WORD, _WORDS = 4, 3
_FIRST, _COUNT = ord("."), ord("9") - ord(".") + 1  # ./0123456789
_FULL = np.uint32(0x01010101)
_LOWER = np.uint16(0x20)  # what a capital letter lacks
_EXPONENT = np.uint16(int.from_bytes(b"e-", "little"))
_BLOCK, _AROUND = 1 << 20, 32  # bytes, and how many of the next ones a number may need
_BEFORE = np.frombuffer(b" \t\n\r:,[", np.uint8)  # a number of JSON


def may_be_long(payloads: pa.ChunkedArray[Any]) -> bool:
    """Returns True where any text has RUN digits or points in a row (a slash counts), or a number that may be
    below a double's range; texts are not distinguished.

    `payloads` are of type binary or string.
    """
    texts = [_bytes(chunk) for chunk in payloads.chunks]
    return any(map(has_run, texts)) or any(map(has_tiny, texts))


def has_run(text: np.ndarray) -> bool:
    """Finds RUN digits in a row: a run has three aligned words of four bytes; their neighbours decide."""
    mask = np.zeros((-(-len(text) // _WORD) + 2) * _WORD, np.uint8)
    np.less(text - np.uint8(_FIRST), _COUNT, out=mask[_WORD : _WORD + len(text)].view(np.bool_))
    full = mask.view(np.uint32) == _FULL
    starts = np.flatnonzero(full[:-2] & full[1:-1] & full[2:])
    around = mask.reshape(-1, _WORD)
    before = np.cumprod(around[starts - 1, ::-1], axis=1).sum(axis=1)
    after = np.cumprod(around[starts + _WORDS], axis=1).sum(axis=1)
    return bool((before + after >= RUN - _WORDS * _WORD).any())


def has_tiny(text: np.ndarray) -> bool:
    """Finds a number with an exponent of -100 or less, 1e-400; one that has a run of RUN need not be found.

    What stands before the number tells it from a part of a UUID. Blocks are read once from memory, then from
    the processor's cache.
    """
    starts = range(0, len(text), _BLOCK)
    return any(_tiny_in(text[max(0, start - _AROUND) : start + _BLOCK + _AROUND]) for start in starts)


def _tiny_in(text: np.ndarray) -> bool:
    exponents = np.concatenate([_exponents(text, first) for first in (0, 1)])
    # A number has `:1` before it and 3 digits behind.
    exponents = exponents[(exponents > 1) & (exponents < len(text) - 4)]
    for distance in (-1, 2, 3, 4):
        exponents = exponents[_digit(text[exponents + distance])]
    around = np.maximum(exponents[:, None] - 1 - np.arange(RUN), 0)
    mantissa = np.cumprod(_digit(text[around]) | (text[around] == ord(".")), axis=1).sum(axis=1)
    start = np.maximum(exponents - 1 - mantissa, 0)
    start = np.maximum(start - (text[start] == ord("-")), 0)
    return bool(np.isin(text[start], _BEFORE).any())


def _exponents(text: np.ndarray, first: int) -> np.ndarray:
    """Returns where `e-` or `E-` stands, of the places `first`, `first` + 2 …"""
    pairs = text[first : first + (len(text) - first) // 2 * 2].view("<u2")
    return np.flatnonzero((pairs | _LOWER) == _EXPONENT) * 2 + first


def _digit(text: np.ndarray) -> np.ndarray:
    return text - np.uint8(ord("0")) < 10


def _bytes(chunk: pa.Array[Any]) -> np.ndarray:
    """Returns all texts of the chunk, one behind the other, without a copy."""
    buffers: list[Any] = chunk.buffers()
    _, offsets, data = buffers
    if data is None or not len(chunk):  # an empty array need not have offsets
        return np.empty(0, np.uint8)
    edges = np.frombuffer(offsets, np.int32)[[chunk.offset, chunk.offset + len(chunk)]]
    content: np.ndarray = np.frombuffer(data, np.uint8)
    return content[edges[0] : edges[1]]


def may_be_long_in(payloads: pa.ChunkedArray[Any], slices: np.ndarray) -> list[int]:
    """Returns the numbers of the slices of which a payload may hold one; `slices` has that of each row."""
    if not may_be_long(payloads):
        return []
    spans = pairwise(runs_of(slices))
    return [int(slices[a]) for a, b in spans if may_be_long(payloads.slice(a, b - a))]
