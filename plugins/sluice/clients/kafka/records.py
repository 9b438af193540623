"""Reads the records of given offsets in bounded memory, whatever a batch holds once it is decompressed."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType, TracebackType
from typing import NamedTuple

from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from sluice.clients.kafka.batch_records import UnreadableBytes, parts_of
from sluice.clients.kafka.fetch import FetchAdmin, Fetched, MissingOffsets, fetching, not_hidden
from sluice.clients.kafka.record_batch import Part, StoredBatch, StoredHeaders
from sluice.clients.kafka.settings import KafkaSettings, reached
from sluice.errors import BatchUnreadable, KafkaUnavailable

_PATIENCE_SECONDS = 60.0
_FEW_BYTES = 1 << 20  # where single records are wanted: what is fetched beside them is in vain


class OffsetSpan(NamedTuple):
    """Offsets `[start, until)` of one partition."""

    topic: str
    partition: int
    start: int
    until: int


class PartitionRecords(NamedTuple):
    """Some records of one partition, in its order. `timestamps` in milliseconds since the epoch; `headers`
    are None where a record has none. `too_large`: by number the size of those that are not held."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[StoredHeaders | None]
    too_large: Mapping[int, int] = MappingProxyType({})


class RecordBody(NamedTuple):
    """What one record holds; nothing where it is `too_large`."""

    key: bytes | None
    value: bytes | None
    headers: StoredHeaders | None
    too_large: int | None = None

    @property
    def size(self) -> int:
        """Bytes that are held, about."""
        header_bytes = sum(len(name) + len(value or b"") for name, value in self.headers or ())
        return header_bytes + len(self.key or b"") + len(self.value or b"")


class BoundedReader:
    """Reads as the cluster's isolation says. Of a record of more than `max_record` bytes, decompressed, only
    place and size are there. Every method raises BatchUnreadable, and KafkaUnavailable when nothing comes for
    a minute or the cluster says no, also to an offset that it no longer has.
    """

    def __init__(self, settings: KafkaSettings, max_record: int) -> None:
        self._settings, self._max_record = settings, max_record
        self._stack = ExitStack()
        self._client: FetchAdmin | None = None
        self._held: tuple[TopicPartition, Fetched] | None = None

    def __enter__(self) -> BoundedReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._held = None
        self._stack.close()

    def read(self, spans: Sequence[OffsetSpan]) -> Iterator[PartitionRecords]:
        """Yields every visible record of the spans, span after span; some hundred KiB at once, or one
        record."""
        for span in spans:
            for batch in self.visible(span):
                yield from self._batch(span, batch)

    def visible(self, span: OffsetSpan) -> Iterator[StoredBatch]:
        """Yields the stored batches that hold the visible records of the span; compaction may have left
        none."""
        place, at = TopicPartition(*span[:2]), span.start
        while at < span.until:
            fetched = self._next(place, at, span.until)
            if not fetched.batches:
                return
            yield from (batch for batch in fetched.visible if batch.start < span.until)
            at = fetched.batches[-1].until

    def each(self, topic: str, partition: int, offsets: Sequence[int]) -> Iterator[RecordBody]:
        """Yields the records at `offsets`, which ascend. Batches between them are not unpacked."""
        place, number = TopicPartition(topic, partition), 0
        while number < len(offsets):
            fetched = self._held_at(place, offsets[number])
            for batch in fetched.visible:
                last = bisect_left(offsets, batch.until, number)
                if number < last:
                    yield from self._chosen(place, batch, offsets[number:last])
                    number = last
            if number < len(offsets) and offsets[number] < fetched.batches[-1].until:
                raise self._silent(place, f"no longer has offset {offsets[number]}")

    def left(self, topic: str, partition: int, gaps: Sequence[MissingOffsets]) -> list[MissingOffsets]:
        """Returns what of the gaps, which are in order, neither markers nor aborted records explain; all of
        them where Kafka no longer has the first."""
        place = TopicPartition(topic, partition)
        with reached(self._settings):
            try:
                return not_hidden(lambda at, most: self._fetched(place, at, most), gaps)
            except OffsetOutOfRangeError:
                return list(gaps)

    @contextmanager
    def readable(self, span: OffsetSpan, batch: StoredBatch) -> Iterator[None]:
        """Raises BatchUnreadable for what is Unreadable in the batch."""
        try:
            yield
        except UnreadableBytes as error:
            place = (self._settings.cluster, span.topic, span.partition)
            raise BatchUnreadable(*place, batch.start, batch.until, str(error)) from error

    def _held_at(self, place: TopicPartition, offset: int) -> Fetched:
        if self._held is not None and self._held[0] == place:
            batches = self._held[1].batches
            if batches[0].start <= offset < batches[-1].until:
                return self._held[1]
        self._held = None
        fetched = self._next(place, offset, offset + 1, _FEW_BYTES)
        if not fetched.batches:
            raise self._silent(place, f"no longer has offset {offset}")
        self._held = place, fetched
        return fetched

    def _chosen(
        self, place: TopicPartition, batch: StoredBatch, offsets: Sequence[int]
    ) -> Iterator[RecordBody]:
        span, missing = OffsetSpan(*place, offsets[0], offsets[-1] + 1), set(offsets)
        for records in self._batch(span, batch):
            for number, offset in enumerate(records.offsets):
                if offset in missing:
                    missing.remove(offset)
                    contents = (records.keys[number], records.values[number], records.headers[number])
                    yield RecordBody(*contents, records.too_large.get(number))
        if missing:
            raise self._silent(place, f"no longer has offset {min(missing)}")

    def _next(self, place: TopicPartition, at: int, until: int, *most: int) -> Fetched:
        """Returns the next batches; none where compaction has left none of `[at, until)`."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with reached(self._settings):
            while time.monotonic() < deadline:
                fetched = self._fetched(place, at, *most)
                if fetched.batches or self._opened().emptied(place.topic, fetched, until):
                    return fetched
        raise self._silent(place, "brings no more records")

    def _fetched(self, place: TopicPartition, at: int, *most: int) -> Fetched:
        return self._opened().fetch(place, at, self._settings.isolation, *most)

    def _opened(self) -> FetchAdmin:
        if self._client is None:
            self._client = self._stack.enter_context(fetching(self._settings))
        return self._client

    def _silent(self, place: TopicPartition, what: str) -> KafkaUnavailable:
        reason = f"{place.topic}/{place.partition} {what}"
        return KafkaUnavailable(self._settings.cluster, self._settings.bootstrap, reason)

    def _batch(self, span: OffsetSpan, batch: StoredBatch) -> Iterator[PartitionRecords]:
        with self.readable(span, batch):
            for part in parts_of(batch, self._max_record):
                inside = slice(bisect_left(part.offsets, span.start), bisect_left(part.offsets, span.until))
                if inside.start < inside.stop:
                    yield _records(span, part, inside)


def _records(span: OffsetSpan, part: Part, inside: slice) -> PartitionRecords:
    return PartitionRecords(
        span.topic,
        span.partition,
        part.offsets[inside],
        part.timestamps[inside],
        part.keys[inside],
        part.values[inside],
        part.headers[inside],
        {} if part.too_large is None else {0: part.too_large},
    )
