"""The second look at offsets that Spark did not bring: a plain consumer seeks to them and reads on.

A hole is explained when it meets no record there either, and the log's start is not behind the hole:
then a compaction removed the records, or they belong to transactions (markers, aborted ones).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from sluice.errors import RecordsExpired
from sluice.landing.conservation import Place, refuse, unexplained
from sluice.landing.reports import Gap
from sluice.slices import Unit

NEAR = 20_000  # offsets between two holes that are read faster than another look begins


class Consumer(Protocol):
    """What `sluice.kafka.topics.Topics` offers."""

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]: ...


Holes = Mapping[Unit, Mapping[Place, Sequence[Gap]]]


def explain(topics: Consumer, holes: Holes, log_starts: Mapping[Place, int]) -> None:
    """Looks at all holes of one cluster's units, as they are after the read.

    Raises RecordsExpired when a log's start has passed a hole, Conservation when the consumer meets
    records that Spark did not bring.
    """
    by_place: dict[Place, list[tuple[Gap, Unit]]] = {}
    for unit, places in holes.items():
        for place, gaps in places.items():
            by_place.setdefault(place, []).extend((gap, unit) for gap in gaps)
    for place, found in by_place.items():
        for gap, unit in found:
            if log_starts[place] > gap.start:
                lost = min(log_starts[place], gap.until)
                raise RecordsExpired(unit.cluster, *place, unit.slice.id, gap.start, lost, exact=True)
        for near in _neighbours(sorted(found, key=lambda one: one[0].start)):
            _look(topics, place, near)


def _look(topics: Consumer, place: Place, holes: Sequence[tuple[Gap, Unit]]) -> None:
    offsets = (offset for offset, _ in topics.records(*place, holes[0][0].start, holes[-1][0].until))
    for (gap, unit), visible in zip(holes, visible_in(offsets, [gap for gap, _ in holes]), strict=True):
        if unexplained(gap, visible):
            raise refuse(unit, place, gap, visible)


def visible_in(offsets: Iterable[int], gaps: Sequence[Gap]) -> list[int]:
    """How many of the ascending `offsets` lie in each of `gaps`, which are in order."""
    counts = [0] * len(gaps)
    current = 0
    for offset in offsets:
        while current < len(gaps) and offset >= gaps[current].until:
            current += 1
        if current < len(gaps) and offset >= gaps[current].start:
            counts[current] += 1
    return counts


def _neighbours(holes: Sequence[tuple[Gap, Unit]]) -> Iterator[list[tuple[Gap, Unit]]]:
    near: list[tuple[Gap, Unit]] = []
    for hole in holes:
        if near and hole[0].start - near[-1][0].until > NEAR:
            yield near
            near = []
        near.append(hole)
    if near:
        yield near
