"""Cuts a range into batches: each landed by one Spark application and loaded by one protocol run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pendulum

from sluice.slices import Slice, SliceRange

MAX_ROWS = 50_000_000
MAX_SLICES = 9_000
OLDER_SLICES = 240
"""Older hours that are not complete, of which an hourly run surveys at most so many: ten days of hours."""


@dataclass(frozen=True)
class SliceWeight:
    """A slice that has work to do, and about how many rows that is in one cluster."""

    slice: Slice
    rows: int


def cut(
    work: Sequence[SliceWeight], max_rows: int = MAX_ROWS, max_slices: int = MAX_SLICES
) -> list[SliceRange]:
    """Cuts into ranges in order, each from its first slice with work to its last.

    A batch ends before the slice that would make it larger than `max_rows` rows or span more than
    `max_slices` slices; one slice larger than that is a batch of its own. The weights of a slice (one
    from each cluster) add up.
    """
    weights: Counter[Slice] = Counter()
    for weight in work:
        weights[weight.slice] += weight.rows
    batches: list[SliceRange] = []
    total = 0
    for slice_, rows in sorted(weights.items()):
        if batches and total + rows <= max_rows and _span(batches[-1].start, slice_) <= max_slices:
            batches[-1] = SliceRange(batches[-1].start, slice_.end, slice_.length)
            total += rows
        else:
            batches.append(SliceRange(slice_.start, slice_.end, slice_.length))
            total = rows
    return batches


def spells(slices: Iterable[Slice]) -> list[SliceRange]:
    """Returns slices, which are in order, as ranges without gaps."""
    ranges: list[SliceRange] = []
    for slice_ in slices:
        start = ranges.pop().start if ranges and ranges[-1].end == slice_.start else slice_.start
        ranges.append(SliceRange(start, slice_.end, slice_.length))
    return ranges


def _span(start: pendulum.DateTime, last: Slice) -> int:
    return len(SliceRange(start, last.end, last.length))
