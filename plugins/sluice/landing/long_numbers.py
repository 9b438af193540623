"""Whether payloads may hold a number of more digits than a double keeps: if so, the load looks at each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

RUN = 16  # bytes of digits and points; load/exact.py says why
_WORD, _WORDS = 4, 3
_FIRST, _COUNT = ord("."), ord("9") - ord(".") + 1  # ./0123456789
_FULL = np.uint32(0x01010101)


def may_be_long(payloads: pa.ChunkedArray) -> bool:
    """True where any text has RUN digits or points in a row; a slash counts, and texts are not told apart.

    `payloads` are of type binary or string.
    """
    return any(has_run(_bytes(chunk)) for chunk in payloads.chunks)


def has_run(text: np.ndarray) -> bool:
    """A run of 16 bytes has three aligned words of four in it. Few places have; their neighbours decide."""
    mask = np.zeros((-(-len(text) // _WORD) + 2) * _WORD, np.uint8)
    np.less(text - np.uint8(_FIRST), _COUNT, out=mask[_WORD : _WORD + len(text)].view(np.bool_))
    full = mask.view(np.uint32) == _FULL
    found = np.flatnonzero(full[:-2] & full[1:-1] & full[2:])
    around = mask.reshape(-1, _WORD)
    before = np.cumprod(around[found - 1, ::-1], axis=1).sum(axis=1)
    after = np.cumprod(around[found + _WORDS], axis=1).sum(axis=1)
    return bool((before + after >= RUN - _WORDS * _WORD).any())


def _bytes(chunk: pa.Array) -> np.ndarray:
    """All texts of the chunk, one behind the other, without a copy."""
    _, offsets, data = chunk.buffers()
    if data is None or not len(chunk):  # an empty array need not have offsets
        return np.empty(0, np.uint8)
    edges = np.frombuffer(offsets, np.int32)[[chunk.offset, chunk.offset + len(chunk)]]
    return np.frombuffer(data, np.uint8)[edges[0] : edges[1]]
