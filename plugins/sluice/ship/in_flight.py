"""What was sent to Kafka: what of it was acknowledged, and the highest contiguous acknowledged offset."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.clients.kafka.producer import DeliveryError, Message, place_of
from sluice.ship.lines import Chunk


@dataclass
class Acknowledged:
    """Records of one partition: how many, and the lowest and highest offset among them."""

    records: int = 0
    first: int = -1
    last: int = -1


@dataclass(frozen=True)
class Undelivered:
    """The first event that did not arrive, and why; `line` is its number in the source."""

    error: DeliveryError
    line: int


class SentChunk:
    """One chunk on its way; `place` is where its source has been read to after it."""

    __slots__ = ("_window", "chunk", "left", "place", "whole")

    def __init__(self, window: InFlight, chunk: Chunk, place: Any) -> None:
        self._window = window
        self.chunk = chunk
        self.left = len(chunk.events)
        self.place = place
        self.whole = True

    def delivered(self, error: DeliveryError | None, message: Message) -> None:
        """Takes librdkafka's answer for one of the events."""
        self.left -= 1
        if error is None:
            self._window.acknowledge(*place_of(message))
        else:
            self.failed(error, message.value())

    def failed(self, error: DeliveryError, event: bytes | None) -> None:
        self.whole = False
        numbered = zip(self.chunk.numbers, self.chunk.events, strict=True)
        numbers = (number for number, mine in numbered if mine == event)
        self._window.undelivered = self._window.undelivered or Undelivered(
            error, next(numbers, self.chunk.last)
        )


class InFlight:
    """Chunks in the order of their source, each until it and all before it are acknowledged."""

    def __init__(self) -> None:
        self.undelivered: Undelivered | None = None
        self._sent_chunks: deque[SentChunk] = deque()
        self._partitions: dict[int, Acknowledged] = {}

    def begin(self, chunk: Chunk, place: Any) -> SentChunk:
        sent_chunk = SentChunk(self, chunk, place)
        self._sent_chunks.append(sent_chunk)
        return sent_chunk

    def settled(self) -> Any | None:
        """Returns where the source was read to by the last chunk that is, with all before it, acknowledged.

        None when there is none since the last time. A chunk with an event that failed is never passed.
        """
        place = None
        while self._sent_chunks and self._sent_chunks[0].whole and not self._sent_chunks[0].left:
            place = self._sent_chunks.popleft().place
        return place

    def acknowledge(self, partition: int, offset: int) -> None:
        acknowledged = self._partitions.get(partition)
        if acknowledged is None:
            acknowledged = self._partitions[partition] = Acknowledged(0, offset, offset)
        acknowledged.records += 1
        if offset > acknowledged.last:
            acknowledged.last = offset
        elif offset < acknowledged.first:
            acknowledged.first = offset

    @property
    def partitions(self) -> Mapping[int, Acknowledged]:
        return dict(sorted(self._partitions.items()))


def together(windows: Iterable[InFlight]) -> dict[int, Acknowledged]:
    """Returns what all of them have acknowledged, by partition."""
    by_partition: dict[int, Acknowledged] = {}
    for window in windows:
        for number, acknowledged in window.partitions.items():
            earlier = by_partition.get(number, acknowledged)
            records = acknowledged.records + (earlier.records if number in by_partition else 0)
            by_partition[number] = Acknowledged(
                records, min(earlier.first, acknowledged.first), max(earlier.last, acknowledged.last)
            )
    return dict(sorted(by_partition.items()))
