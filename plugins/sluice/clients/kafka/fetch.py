"""Fetches batches as they are stored: no consumer bounds what it decompresses, or shows markers."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, Unpack

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, KafkaTimeoutError, NoError, UnknownTopicOrPartitionError
from kafka.protocol.consumer import FetchRequest, IsolationLevel

from sluice.clients.kafka.record_batch import StoredBatch, ends_abortion, stored_batches
from sluice.clients.kafka.settings import DamagedBatch, KafkaSettings, admin, error_of, reached

FETCH_BYTES = 4 << 20
# The request by topic name; from version 13 on it wants the topic's id (KIP-516).
_FETCH_BY_NAME = 12
_ANSWER_BYTES = (1 << 31) - 1  # a batch of any size, as Kafka's own client takes it
_WAIT_MS = 500
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.25

_Args = TypeVarTuple("_Args")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class Fetched:
    """Some stored batches, from the one on that holds the asked offset. `hidden` has the place of each that
    no consumer shows: markers, and with `read_committed` what was aborted. Before `end` all can be read."""

    batches: tuple[StoredBatch, ...]
    hidden: frozenset[int] = frozenset()
    end: int = -1

    @property
    def hidden_batches(self) -> list[StoredBatch]:
        return [self.batches[number] for number in sorted(self.hidden)]

    @property
    def visible(self) -> list[StoredBatch]:
        return [batch for number, batch in enumerate(self.batches) if number not in self.hidden]


class _Manager(Protocol):
    """What is used of kafka-python's KafkaConnectionManager."""

    def run(self, coro: Callable[[Unpack[_Args]], Awaitable[_Out]], *args: *_Args) -> _Out: ...

    def send(self, request: object, node_id: int) -> Awaitable[Any]: ...


class FetchAdmin(KafkaAdminClient):
    """Every method raises KafkaError; `fetch` DamagedBatch, when nothing before it answers."""

    if TYPE_CHECKING:  # kafka-python's own, which it gives no type
        _manager: _Manager

    rack = ""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs, receive_message_max_bytes=_ANSWER_BYTES)
        self._led_by: dict[TopicPartition, int] = {}
        self._nearer: dict[TopicPartition, int] = {}

    def fetch(
        self,
        place: TopicPartition,
        offset: int,
        isolation: str | IsolationLevel,
        most: int = FETCH_BYTES,
    ) -> Fetched:
        """Returns the next batches from the one on that holds `offset`; none at the end of what can be
        read."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        level = isolation if isinstance(isolation, IsolationLevel) else IsolationLevel[isolation.upper()]
        while True:
            try:
                return self._fetch(place, offset, level, most)
            except KafkaError as error:  # a leader has moved, or a broker restarts
                self._led_by.pop(place, None)
                final = not error.retriable and self._nearer.pop(place, None) is None
                if final or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def batches(
        self, place: TopicPartition, start: int, until: int, isolation: IsolationLevel
    ) -> Iterator[StoredBatch]:
        """Yields all batches that hold the offsets `[start, until)`, also those that no consumer shows."""
        while start < until:
            fetched = self.fetch(place, start, isolation)
            if not fetched.batches:
                if self.emptied(place.topic, fetched, until):
                    return
                raise KafkaTimeoutError(f"{place.topic}/{place.partition} brings no more records")
            yield from fetched.batches
            start = fetched.batches[-1].until

    def emptied(self, topic: str, fetched: Fetched, until: int) -> bool:
        """Returns whether an answer without batches means that compaction has removed all records before
        `until`. Where the topic is not compacted, its records are still to come."""
        return not fetched.batches and fetched.end >= until and self.compacted(topic)

    def compacted(self, topic: str) -> bool:
        """Returns whether the topic is compacted; False, too, without the right to see its settings."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": ""})
        configs = self.describe_configs([resource], config_filter="all")
        policy = configs.get("topic", {}).get(topic, {}).get("cleanup.policy", {})
        return "compact" in (policy.get("value") or "")

    def _fetch(self, place: TopicPartition, offset: int, level: IsolationLevel, most: int) -> Fetched:
        """A leader may name a replica in this client's rack, and gives no records then (KIP-392)."""
        if place not in self._led_by:
            self._led_by[place] = self._leader(place)
        request = _request(place, offset, level, most, self.rack)
        response: Any = self._manager.run(self._sent, request, self._nearer.get(place, self._led_by[place]))
        partition = response.responses[0].partitions[0]
        error = error_of(partition.error_code)
        if self.rack and error is NoError and partition.preferred_read_replica >= 0:
            self._nearer[place] = partition.preferred_read_replica
            return self._fetch(place, offset, level, most)
        if error is not NoError:
            raise error(f"{place.topic}/{place.partition} at offset {offset}")
        batches = as_asked(place, offset, list(stored_batches(partition.records or b"")))
        aborted = [(t.first_offset, t.producer_id) for t in partition.aborted_transactions or ()]
        committed = level is IsolationLevel.READ_COMMITTED
        end = partition.last_stable_offset if committed else partition.high_watermark
        return Fetched(batches, hidden_of(batches, aborted), end)

    def _leader(self, place: TopicPartition) -> int:
        (topic,) = self.describe_topics([place.topic])
        led_by: dict[int, int] = {p["partition_index"]: p["leader_id"] for p in topic["partitions"]}
        if place.partition not in led_by:
            raise UnknownTopicOrPartitionError(f"{place.topic}/{place.partition}")
        return led_by[place.partition]

    async def _sent(self, request: FetchRequest, leader: int) -> Any:
        """No public call sends a request of one's own; nothing else of kafka-python's inside is used."""
        return await self._manager.send(request, node_id=leader)


def as_asked(place: TopicPartition, offset: int, batches: Sequence[StoredBatch]) -> tuple[StoredBatch, ...]:
    """Returns the batches from the one on that holds `offset`, up to the first damaged one. Raises
    DamagedBatch where the damaged one is the next."""
    sound = list(takewhile(lambda batch: not batch.damage, batches))
    asked = tuple(batch for batch in sound if batch.until > offset)
    if not asked and len(sound) < len(batches):
        raise DamagedBatch(place, batches[len(sound)].start, batches[len(sound)].damage)
    return asked


def hidden_of(batches: Sequence[StoredBatch], aborted: Sequence[tuple[int, int]]) -> frozenset[int]:
    """Returns the places of markers and of aborted batches. `aborted` transactions have their first offset
    and their producer; one ends with its producer's marker."""
    waiting, open_now, hidden = sorted(aborted), set(), set()
    for number, batch in enumerate(batches):
        while waiting and waiting[0][0] < batch.until:
            open_now.add(waiting.pop(0)[1])
        if batch.control:
            hidden.add(number)
            if ends_abortion(batch):
                open_now.discard(batch.producer)
        elif batch.transactional and batch.producer in open_now:
            hidden.add(number)
    return frozenset(hidden)


@contextmanager
def fetching(settings: KafkaSettings) -> Iterator[FetchAdmin]:
    with reached(settings), admin(settings, FetchAdmin) as client:
        client.rack = settings.rack or ""
        yield client


def _request(
    place: TopicPartition, offset: int, isolation: IsolationLevel, most: int, rack: str
) -> FetchRequest:
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=place.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=most,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=most,
        isolation_level=isolation.value,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=place.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id=rack,
        min_version=4,
        max_version=_FETCH_BY_NAME,
    )


# Which offsets Kafka leaves without a record on purpose: what compaction removed, and what transactions
# leave behind (markers, aborted records). Any other missing offset is a lost record.
#
# Batches' headers say it; their records are not read.
MissingOffsets = tuple[int, int]
"""Offsets `[from, until)` without a record."""

_JUMP_BYTES = 64 << 10
# As many such fetches as one of FETCH_BYTES takes as long.
_WORTH = 16


def not_hidden(fetch: Callable[[int, int], Fetched], gaps: Sequence[MissingOffsets]) -> list[MissingOffsets]:
    """Returns what of the gaps, which are in order, is neither a marker nor, with `read_committed`, aborted.

    `fetch` gives the batches from an offset on, of some bytes. Between gaps that lie far apart it jumps.
    """
    left: list[MissingOffsets] = []
    number, most = 0, _JUMP_BYTES
    while number < len(gaps):
        at = gaps[number][0]
        fetched = fetch(at, most)
        if not fetched.batches:  # the end of what can be read
            return joined([*left, *gaps[number:]])
        reach = fetched.batches[-1].until
        hidden = [(batch.start, batch.until) for batch in fetched.hidden_batches]
        while number < len(gaps) and gaps[number][1] <= reach:
            left += without(gaps[number], hidden)
            number += 1
        if number < len(gaps) and gaps[number][0] < reach:
            start, until = gaps[number]
            left += without((start, reach), hidden)
            gaps = [*gaps[:number], (reach, until), *gaps[number + 1 :]]
        near = number < len(gaps) and gaps[number][0] - reach < _WORTH * (reach - at)
        most = FETCH_BYTES if near else _JUMP_BYTES
    return joined(left)


def without(gap: MissingOffsets, hidden: Sequence[MissingOffsets]) -> Iterator[MissingOffsets]:
    """Yields the gap less the `hidden` offsets, which are in order."""
    at, until = gap
    for start, end in hidden[bisect_right(hidden, at, key=itemgetter(1)) :]:
        if start >= until:
            break
        if at < start:
            yield at, start
        at = max(at, end)
    if at < until:
        yield at, until


def joined(gaps: Iterable[MissingOffsets]) -> list[MissingOffsets]:
    """Merges gaps that touch."""
    merged: list[MissingOffsets] = []
    for start, until in gaps:
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, until))
    return merged


class BatchAdmin(FetchAdmin):
    """Also reads batches as they are stored: no consumer shows markers, or that a record was aborted."""

    def left(
        self, place: TopicPartition, gaps: Sequence[MissingOffsets], isolation: str
    ) -> list[MissingOffsets]:
        """Returns what of the gaps, which are in order, neither markers nor aborted records explain."""
        return not_hidden(lambda offset, most: self.fetch(place, offset, isolation, most), gaps)

    def unhidden(self, place: TopicPartition, gaps: Iterable[MissingOffsets]) -> MissingOffsets | None:
        """Returns the first of the gaps, which are in order, that nothing explains; None when all are
        explained.

        Only the right to read is needed, unless a gap is not in transactions' batches.
        """
        bare = self._outside_transactions(place, gaps)
        return None if bare is None or self.compacted(place.topic) else bare

    def _outside_transactions(
        self, place: TopicPartition, gaps: Iterable[MissingOffsets]
    ) -> MissingOffsets | None:
        """Returns the first gap of which an offset is neither in a transaction's batch nor in a control
        batch."""
        stored: deque[StoredBatch] = deque()
        for gap in gaps:
            offset, until = gap
            while offset < until:
                while stored and stored[0].until <= offset:
                    stored.popleft()
                if not stored:
                    stored.extend(self.fetch(place, offset, "read_uncommitted").batches)
                if not stored or stored[0].start > offset or not _of_transaction(stored[0]):
                    return gap
                offset = stored[0].until
        return None


def _of_transaction(batch: StoredBatch) -> bool:
    return batch.transactional or batch.control
