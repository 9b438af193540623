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
        """librdkafka's answer for one of the events."""
        self.left -= 1
        if error is None:
            self._window.acknowledge(*place_of(message))
        else:
            self.failed(error, message.value())

    def failed(self, error: DeliveryError, event: bytes | None) -> None:
        self.whole = False
        own = zip(self.chunk.numbers, self.chunk.events, strict=True)
        found = (number for number, mine in own if mine == event)
        self._window.undelivered = self._window.undelivered or Undelivered(
            error, next(found, self.chunk.last)
        )


class InFlight:
    """Chunks in the order of their source, each until it and all before it are acknowledged."""

    def __init__(self) -> None:
        self.undelivered: Undelivered | None = None
        self._runs: deque[SentChunk] = deque()
        self._partitions: dict[int, Acknowledged] = {}

    def begin(self, chunk: Chunk, place: Any) -> SentChunk:
        run = SentChunk(self, chunk, place)
        self._runs.append(run)
        return run

    def settled(self) -> Any | None:
        """Returns where the source was read to by the last chunk that is, with all before it, acknowledged.

        None when there is none since the last time. A chunk with an event that failed is never passed.
        """
        place = None
        while self._runs and self._runs[0].whole and not self._runs[0].left:
            place = self._runs.popleft().place
        return place

    def acknowledge(self, partition: int, offset: int) -> None:
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = Acknowledged(0, offset, offset)
        found.records += 1
        if offset > found.last:
            found.last = offset
        elif offset < found.first:
            found.first = offset

    @property
    def partitions(self) -> Mapping[int, Acknowledged]:
        return dict(sorted(self._partitions.items()))


def together(windows: Iterable[InFlight]) -> dict[int, Acknowledged]:
    """Of all of them, by partition."""
    found: dict[int, Acknowledged] = {}
    for window in windows:
        for number, own in window.partitions.items():
            known = found.get(number, own)
            records = own.records + (known.records if number in found else 0)
            found[number] = Acknowledged(records, min(known.first, own.first), max(known.last, own.last))
    return dict(sorted(found.items()))
