"""Which records are inspected for their fields: the same ones whatever task reads them, and however often."""

from __future__ import annotations

import numpy as np

WHOLE_UNIT = 10_000
"""A unit of so many offsets is inspected whole."""
_SHARE, _MOST = 500, 100_000


def step_of(offsets: int) -> int:
    """Returns one of how many offsets of a unit is inspected: 10,000 of them and one of 500 more, at most
    100,000."""
    return -(-offsets // min(WHOLE_UNIT + offsets // _SHARE, _MOST)) or 1


def chosen(first: int, last: int, step: int) -> np.ndarray:
    """Returns the offsets in `[first, last]` that are inspected: one of each `step`, at a place that its
    number decides. A fixed distance would meet only some types of a producer that writes them in turn."""
    if step == 1:
        return np.arange(first, last + 1, dtype=np.int64)
    blocks = np.arange(first // step, last // step + 1, dtype=np.int64)
    offsets: np.ndarray = blocks * step + (_mixed(blocks) % np.uint64(step)).astype(np.int64)
    return offsets[(offsets >= first) & (offsets <= last)]


def rows_at(offsets: np.ndarray, inspected: np.ndarray) -> np.ndarray:
    """Returns the positions in `offsets` of those that are `inspected`. Both ascend; `offsets` may repeat
    one."""
    begin, end = int(offsets[0]), int(offsets[-1]) + 1
    inspected = inspected[slice(*np.searchsorted(inspected, (begin, end)).tolist())]
    if end - begin == len(offsets) and (np.diff(offsets) == 1).all():
        return inspected - begin
    first, until = np.searchsorted(offsets, inspected, "left"), np.searchsorted(offsets, inspected, "right")
    counts = until - first
    places: np.ndarray = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    return places


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Applies SplitMix64's finalizer.

    Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
    """
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
