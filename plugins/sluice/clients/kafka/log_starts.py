"""What Kafka still has of a topic: log starts and retention."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sluice.clients.kafka.reader import TopicOffsets, TopicReader
from sluice.errors import PartitionMissing, TopicRecreated, UnknownTopic
from sluice.manifest import OffsetRange

LogStarts = Mapping[tuple[str, int], int]
"""(topic, partition) of one cluster to the first offset that is still there."""


# By so much the broker's clock may be ahead of this machine's, a long look-up included.
CLOCKS_MS = 3_600_000


def kept_ms(settings: Mapping[str, str]) -> int | None:
    """Returns how long a topic keeps every record, by its effective settings; None where they do not say it.

    A segment goes when its newest record is older than `retention.ms` (Kafka, UnifiedLog). So a younger
    record is there. How long a segment may grow, and when it is checked, only keeps records longer. Nothing
    is known where segments go by size, where a topic is compacted, and where nothing goes by age: then
    something else has moved the log start.
    """
    cleanup = {name: settings.get(name) for name in ("cleanup.policy", "retention.bytes", "retention.ms")}
    if (
        cleanup["cleanup.policy"] != "delete"
        or cleanup["retention.bytes"] != "-1"
        or cleanup["retention.ms"] is None
    ):
        return None
    kept = int(cleanup["retention.ms"])
    return kept if kept >= 0 else None


def kept_since(now_ms: int, kept: int | None) -> int | None:
    """Returns the first second since the epoch of which no record has gone by age."""
    return None if kept is None else -((kept - now_ms - CLOCKS_MS) // 1000)


def log_starts(
    reader: TopicReader, cluster: str, ranges: Iterable[OffsetRange], departed: Collection[str] = ()
) -> LogStarts:
    """Reads the log start of every range's partition. Of a `departed` topic, which the pipeline file no
    longer names, nothing is returned where Kafka does not have it any more.

    Raises what `Topics.describe` raises, PartitionMissing for a partition that is not listed, TopicRecreated
    for a topic with another id than the range's.
    """
    starts: dict[tuple[str, int], int] = {}
    partitions = {(r.topic, r.uuid, r.partition) for r in ranges}
    states: dict[str, TopicOffsets | None] = {
        topic: _described(reader, topic, topic in departed)
        for topic in sorted({topic for topic, _, _ in partitions})
    }
    for topic, uuid, partition in sorted(partitions):
        state = states[topic]
        if state is None or (state.uuid != uuid and topic in departed):
            continue
        if state.uuid != uuid:
            raise TopicRecreated(cluster, topic, uuid, state.uuid)
        if partition not in state.log_starts:
            raise PartitionMissing(cluster, topic, partition)
        starts[topic, partition] = state.log_starts[partition]
    return starts


def _described(reader: TopicReader, topic: str, departed: bool) -> TopicOffsets | None:
    try:
        return reader.describe(topic)
    except UnknownTopic:
        if departed:
            return None
        raise
