"""Which offsets Kafka leaves without a record on purpose: what compaction removed, and what transactions
leave behind (markers, aborted records). Any other missing offset is a lost record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import NoError, for_code
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

Hole = tuple[int, int]
"""Offsets `[from, until)` without a record."""

# The request by topic name; from version 13 on it wants the topic's id (KIP-516).
_FETCH_BY_NAME = 12
_FETCH_BYTES = 4 << 20


@dataclass(frozen=True)
class _Span:
    """The offsets `[start, until)` of one stored batch."""

    start: int
    until: int
    transactional: bool


class BatchAdmin(KafkaAdminClient):
    """Also looks at batches as they are stored: no consumer shows markers, or that a record was aborted."""

    def unhidden(self, place: TopicPartition, holes: Iterable[Hole]) -> Hole | None:
        """The first of the holes, which are in order, that nothing explains; None when all are explained.

        Only the right to read is needed, unless a hole is not in transactions' batches.
        """
        bare = self._outside_transactions(place, holes)
        return None if bare is None or self.compacted(place.topic) else bare

    def compacted(self, topic: str) -> bool:
        """False, too, without the right to see the topic's settings: Kafka then names none."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": None})
        found = self.describe_configs([resource], config_filter="all")
        policy = found.get("topic", {}).get(topic, {}).get("cleanup.policy", {})
        return "compact" in (policy.get("value") or "")

    def _outside_transactions(self, place: TopicPartition, holes: Iterable[Hole]) -> Hole | None:
        """The first hole of which an offset is neither in a transaction's batch nor in a control batch."""
        stored: deque[_Span] = deque()
        for hole in holes:
            offset, until = hole
            while offset < until:
                while stored and stored[0].until <= offset:
                    stored.popleft()
                if not stored:
                    stored.extend(self._stored(place, offset))
                if not stored or stored[0].start > offset or not stored[0].transactional:
                    return hole
                offset = stored[0].until
        return None

    def _stored(self, place: TopicPartition, offset: int) -> Iterator[_Span]:
        """The next batches from the one on that holds `offset`."""
        batches = self._manager.run(self._fetch, place, offset)
        while (batch := batches.next_batch()) is not None:
            if batch.magic < 2:  # older than transactions: the records of the outer message are not counted
                return
            if batch.last_offset >= offset:
                hidden = batch.is_transactional or batch.is_control_batch
                yield _Span(batch.base_offset, batch.last_offset + 1, hidden)

    async def _fetch(self, place: TopicPartition, offset: int) -> MemoryRecords:
        (leader,) = await self._async_get_leader_for_partitions([place])
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=place.partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=_FETCH_BYTES,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
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
