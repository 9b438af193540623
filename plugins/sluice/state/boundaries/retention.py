"""What Kafka no longer has of ranges whose boundaries are stored: known exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pendulum

from sluice.clients.kafka.topic_facts import LogStarts
from sluice.manifest import Loss, OffsetRange
from sluice.state.boundaries.model import Boundaries


def retained(ranges: Iterable[OffsetRange], log_starts: LogStarts) -> tuple[Loss, ...]:
    """Returns the losses: the part of each range below its partition's log start."""
    return tuple(
        Loss(r.topic, r.partition, r.start, min(log_starts[r.topic, r.partition], r.until), exact=True)
        for r in ranges
        if r.start < r.until and r.start < log_starts[r.topic, r.partition]
    )


def rest(ranges: Iterable[OffsetRange], log_starts: LogStarts) -> tuple[OffsetRange, ...]:
    """Returns the ranges without what is lost: what `on_expired: land_rest` reads."""
    return tuple(
        replace(r, start=min(max(r.start, log_starts[r.topic, r.partition]), r.until)) for r in ranges
    )


def last_seen(boundaries: Boundaries, cluster: str, topic: str) -> pendulum.DateTime | None:
    """Returns until when the topic id before the one that stands now is known; None when there was none.

    What came into that topic later went with it, uncounted.
    """
    eras = boundaries.eras.get((cluster, topic), ())
    block = boundaries.blocks.get((cluster, topic, eras[-2].uuid)) if len(eras) > 1 else None
    return None if block is None or not len(block.instants) else pendulum.from_timestamp(block.instants[-1])


def left_behind(boundaries: Boundaries, cluster: str, topic: str) -> tuple[Loss, ...]:
    """Returns what the topic's former id had, by its stored boundaries, in the slices that its newest id has
    taken over: none of them had landed, and none is read from it any more."""
    eras = boundaries.eras.get((cluster, topic), ())
    if len(eras) < 2 or (since := eras[-1].since) is None:
        return ()
    block = boundaries.blocks.get((cluster, topic, eras[-2].uuid))
    if block is None or not len(block.instants):
        return ()
    first, last = block.nearest(since), len(block.instants) - 1
    edges = {number: (c.offset(first), c.offset(last)) for number, c in sorted(block.columns.items())}
    return tuple(Loss(topic, n, *edge, exact=True) for n, edge in edges.items() if edge[0] < edge[1])
