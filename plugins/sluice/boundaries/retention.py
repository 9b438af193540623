"""What Kafka no longer has of ranges whose boundaries are stored: known exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pendulum

from sluice.boundaries.model import Boundaries
from sluice.manifest import Loss, OffsetRange

LogStarts = Mapping[tuple[str, int], int]
"""(topic, partition) of one cluster to the first offset that is still there."""


# By so much the broker's clock may be ahead of this machine's, a long look-up included.
CLOCKS_MS = 3_600_000


def kept_ms(settings: Mapping[str, str]) -> int | None:
    """How long a topic keeps every record, by its effective settings; None where they do not say it.

    A segment goes when its newest record is older than `retention.ms` (Kafka, UnifiedLog). So a younger
    record is there. How long a segment may grow, and when it is looked at, only keeps records longer. Nothing
    is known where segments go by size, where a topic is compacted, and where nothing goes by age: then
    something else has moved the log start.
    """
    known = {name: settings.get(name) for name in ("cleanup.policy", "retention.bytes", "retention.ms")}
    if (
        known["cleanup.policy"] != "delete"
        or known["retention.bytes"] != "-1"
        or known["retention.ms"] is None
    ):
        return None
    kept = int(known["retention.ms"])
    return kept if kept >= 0 else None


def kept_since(now_ms: int, kept: int | None) -> int | None:
    """The first second since the epoch of which no record has gone by age."""
    return None if kept is None else -((kept - now_ms - CLOCKS_MS) // 1000)


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


def left_behind(boundaries: Boundaries, cluster: str, topic: str) -> tuple[Loss, ...]:
    """What the topic's former id had, by its stored boundaries, in the slices that its newest id has taken
    over: none of them had landed, and none is read from it any more."""
    eras = boundaries.eras.get((cluster, topic), ())
    if len(eras) < 2 or (since := eras[-1].since) is None:
        return ()
    block = boundaries.blocks.get((cluster, topic, eras[-2].uuid))
    if block is None or not len(block.instants):
        return ()
    first, last = block.nearest(since), len(block.instants) - 1
    edges = {number: (c.offset(first), c.offset(last)) for number, c in sorted(block.columns.items())}
    return tuple(Loss(topic, n, *edge, exact=True) for n, edge in edges.items() if edge[0] < edge[1])
