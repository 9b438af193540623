"""What Kafka no longer has of ranges whose boundaries are stored: known exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pendulum

from sluice.boundaries.model import Boundaries
from sluice.manifest import Loss, OffsetRange

LogStarts = Mapping[tuple[str, int], int]
"""(topic, partition) of one cluster to the first offset that is still there."""


def retained(ranges: Iterable[OffsetRange], log_starts: LogStarts) -> tuple[Loss, ...]:
    """The losses: the part of each range below its partition's log start."""
    return tuple(
        Loss(r.topic, r.partition, r.start, min(log_starts[r.topic, r.partition], r.until), exact=True)
        for r in ranges
        if r.start < r.until and r.start < log_starts[r.topic, r.partition]
    )


def rest(ranges: Iterable[OffsetRange], log_starts: LogStarts) -> tuple[OffsetRange, ...]:
    """The ranges without what is lost: what `on_expired: land_rest` reads."""
    return tuple(
        replace(r, start=min(max(r.start, log_starts[r.topic, r.partition]), r.until)) for r in ranges
    )


def last_seen(boundaries: Boundaries, cluster: str, topic: str) -> pendulum.DateTime | None:
    """Until when the topic id before the one that stands now is known; None when there was none.

    What came into that topic later went with it, uncounted.
    """
    eras = boundaries.eras.get((cluster, topic), ())
    block = boundaries.blocks.get((cluster, topic, eras[-2].uuid)) if len(eras) > 1 else None
    return None if block is None or not len(block.instants) else pendulum.from_timestamp(block.instants[-1])
