"""A record's place in Kafka, and the slice that stored boundaries give it. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import pendulum

from sluice.errors import WrongUse
from sluice.slices import Slice
from sluice.state.boundaries.boundary import TopicBoundaries
from sluice.state.boundaries.model import Boundaries

_PLACE = re.compile(r"([A-Za-z0-9._-]{1,249}):(\d{1,10}):(\d{1,19})", re.ASCII)
_MOST_PARTITION, _MOST_OFFSET = (1 << 31) - 1, (1 << 63) - 1


@dataclass(frozen=True, order=True)
class RecordPlace:
    """Where a record is in Kafka."""

    cluster: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}:{self.partition}:{self.offset}"


def read_place(text: str) -> tuple[str, int, int]:
    """Returns (topic, partition, offset) of `bids:3:10482`. Raises WrongUse for anything else."""
    found = _PLACE.fullmatch(text)
    if found is not None:
        partition, offset = int(found[2]), int(found[3])
        if partition <= _MOST_PARTITION and offset <= _MOST_OFFSET:
            return found[1], partition, offset
    raise WrongUse(f"{text[:60]!r} is no TOPIC:PARTITION:OFFSET such as bids:3:10482")


@dataclass(frozen=True)
class OffsetLocation:
    """Where the boundaries of one topic id put an offset.

    Without a `slice` it lies between the instants `after` and `before`, which are further apart than a slice,
    or beyond the boundaries: then one of them is None. `left`: its slice is read from the topic that was
    recreated under the same name.
    """

    uuid: str
    slice: Slice | None
    after: pendulum.DateTime | None = None
    before: pendulum.DateTime | None = None
    left: bool = False


def locations_of(boundaries: Boundaries, place: RecordPlace) -> list[OffsetLocation]:
    """Returns where the offset is, by each topic id that the boundary log knows, the newest first; a topic id
    that is gone only where a slice holds the offset. Empty where the log does not know the partition."""
    return list(_locations(boundaries, place))


def _locations(boundaries: Boundaries, place: RecordPlace) -> Iterator[OffsetLocation]:
    eras = boundaries.eras.get((place.cluster, place.topic), ())
    for number, era in enumerate(reversed(eras)):
        block = boundaries.blocks.get((place.cluster, place.topic, era.uuid))
        if block is None or place.partition not in block.columns:
            continue
        location = _location(boundaries, block, place)
        if number == 0 or location.slice is not None:
            yield location


def _location(boundaries: Boundaries, block: TopicBoundaries, place: RecordPlace) -> OffsetLocation:
    column, instants = block.columns[place.partition], block.instants
    # Per partition offsets never fall as instants rise.
    row = bisect_right(range(len(instants)), place.offset, key=column.offset)
    after = pendulum.from_timestamp(instants[row - 1]) if row else None
    before = pendulum.from_timestamp(instants[row]) if row < len(instants) else None
    length = boundaries.length
    if after is None or before is None or length is None or before - after != length:
        return OffsetLocation(block.uuid, None, after, before)
    slice_ = Slice(after, length)
    left = not _reads(boundaries, slice_, block.uuid, place)
    return OffsetLocation(block.uuid, slice_, after, before, left)


def _reads(boundaries: Boundaries, slice_: Slice, uuid: str, place: RecordPlace) -> bool:
    """Returns whether the slice is read from this topic id."""
    ranges = boundaries.ranges(slice_, place.cluster, [place.topic]) or ()
    return any(
        r.uuid == uuid and r.partition == place.partition and r.start <= place.offset < r.until
        for r in ranges
    )
