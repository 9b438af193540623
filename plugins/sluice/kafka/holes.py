"""The second look at offsets that the landing did not get: is there really nothing to read?

Compaction removes records, and transactions leave markers and aborted records that nobody is shown. Any
other missing offset is a lost record.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import NoError, for_code
from kafka.protocol.consumer import FetchRequest, OffsetSpec
from kafka.record import MemoryRecords

from sluice.errors import KafkaOutOfReach
from sluice.kafka.client import REQUEST_MS, admin, consumer, reached
from sluice.kafka.settings import KafkaSettings

Hole = tuple[int, int]
"""Offsets `[from, until)` without a record."""

# Below this distance reading on is cheaper than seeking, which throws away what is already on its way.
_NEAR = 20_000
# The request by topic name; from version 13 on it wants the topic's id (KIP-516).
_FETCH_BY_NAME = 12


def explain_hole(
    settings: KafkaSettings, topic: str, partition: int, offset_from: int, offset_until: int
) -> bool:
    """Whether `[offset_from, offset_until)` has no record on purpose. Raises KafkaOutOfReach."""
    return not unexplained(settings, topic, partition, [(offset_from, offset_until)])


def unexplained(
    settings: KafkaSettings, topic: str, partition: int, holes: Iterable[Hole]
) -> tuple[Hole, ...]:
    """Those of the holes that only a lost record explains; one pass over one partition.

    A hole is explained when a plain consumer that begins at it next gets something behind it, the log
    start is not behind its beginning, and the topic is compacted or the partition transactional.
    """
    ordered = sorted(holes)
    if not ordered:
        return ()
    place = TopicPartition(topic, partition)
    with reached(settings), admin(settings, BatchAdmin) as client:
        start = client.log_start(place)
        with consumer(settings) as reader:
            look = _Look(settings, reader, place)
            empty = [hole for hole in ordered if hole[0] >= start and look.next_at(*hole) >= hole[1]]
        start = client.log_start(place)  # it may have passed a hole while that was looked at
        empty = [hole for hole in empty if hole[0] >= start]
        if empty and not client.hides(place, empty[0]):
            empty = []
    explained = set(empty)
    return tuple(hole for hole in ordered if hole not in explained)


class _Look:
    """A consumer's way through one partition, from hole to hole."""

    def __init__(self, settings: KafkaSettings, client: KafkaConsumer, place: TopicPartition) -> None:
        self._settings = settings
        self._client = client
        self._place = place
        self._seen: deque[int] = deque()
        self._begun = False
        client.assign([place])

    def next_at(self, start: int, until: int) -> int:
        """The first visible offset at or after `start`, or a position from `until` on when there is none
        before it. Holes come in order."""
        if not self._begun or start > self._client.position(self._place) + _NEAR:
            self._client.seek(self._place, start)
            self._seen.clear()
            self._begun = True
        deadline = time.monotonic() + REQUEST_MS / 1000
        while True:
            while self._seen and self._seen[0] < start:
                self._seen.popleft()
            if self._seen:
                return self._seen[0]
            position = self._client.position(self._place)
            if position >= until:
                return position
            for record in self._client.poll(timeout_ms=500).get(self._place, ()):
                self._seen.append(record.offset)
            if self._client.position(self._place) > position:
                deadline = time.monotonic() + REQUEST_MS / 1000
            elif time.monotonic() > deadline:
                reason = f"{self._place.topic}/{self._place.partition} stands still at offset {position}"
                raise KafkaOutOfReach(self._settings.cluster, self._settings.bootstrap, reason)


class BatchAdmin(KafkaAdminClient):
    """What says of a partition that it may have offsets without a record."""

    def log_start(self, place: TopicPartition) -> int:
        return self.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset

    def compacted(self, topic: str) -> bool:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": None})
        found = self.describe_configs([resource], config_filter="all")
        return "compact" in found["topic"][topic]["cleanup.policy"]["value"]

    def hides(self, place: TopicPartition, hole: Hole) -> bool:
        return self.compacted(place.topic) or self.transactional(place, hole)

    def transactional(self, place: TopicPartition, hole: Hole) -> bool:
        """Whether every offset of the hole is in a control batch or a transaction's batch: no consumer
        shows these, so the batches are fetched as they are stored."""
        offset, until = hole
        while offset < until:
            batches = self._manager.run(self._fetch, place, offset)
            after = _transactional_until(batches, offset, until)
            if after == offset:
                return False
            offset = after
        return True

    async def _fetch(self, place: TopicPartition, offset: int) -> MemoryRecords:
        (leader,) = await self._async_get_leader_for_partitions([place])
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=place.partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=place.topic, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
            min_version=4,
            max_version=_FETCH_BY_NAME,
        )
        response: Any = await self._manager.send(request, node_id=leader)
        found = response.responses[0].partitions[0]
        error = for_code(found.error_code)
        if error is not NoError:
            raise error(f"{place.topic}/{place.partition} at offset {offset}")
        return MemoryRecords(found.records or b"")


def _transactional_until(batches: MemoryRecords, offset: int, until: int) -> int:
    """How far from `offset` on every offset is in a transactional or control batch."""
    while offset < until and (batch := batches.next_batch()) is not None:
        if batch.magic < 2 or batch.last_offset < offset:
            continue
        if batch.base_offset > offset or not (batch.is_transactional or batch.is_control_batch):
            break
        offset = batch.last_offset + 1
    return offset
