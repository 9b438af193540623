"""Sends chunks of events to one topic, each record with its time, its key and the batch that it is of."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType
from typing import Any, TypeVar

from sluice.clients.kafka.producer import (
    DeliveryError,
    Message,
    NotTaken,
    ProducedHeaders,
    Publisher,
    place_of,
    unavailable,
)
from sluice.config.event import Event
from sluice.errors import EventsRefused, SluiceError
from sluice.safe_text import Say
from sluice.ship.lines import Chunk
from sluice.ship.record_times import Ahead, RecordKeys, RecordTimes, SourceTimes, nothing

HEADER = "sluice_batch"  # its value is `<batch>:<line>`: a line that is shipped twice has the same twice
SAME_PARTITION = 1000  # lines in a row without a key, so that batches fill
_SERVE_SECONDS = 0.2


@dataclass
class Shipment:
    """All that one command sends."""

    publisher: Publisher
    times: RecordTimes
    keys: RecordKeys
    progress: ShipProgress
    windows: list[InFlight] = field(default_factory=list)
    events: int = 0
    bytes: int = 0

    def of(
        self,
        source: str,
        batch: str | None,
        settle: Callable[[Any], None],
        last: int | None = None,
        ahead: Ahead = nothing,
    ) -> Sending:
        """Returns the part of one source. `settle` hears of places up to which every event is acknowledged.
        `last` is the record time (ms) of the line before its first, `ahead` reads the source's events once
        more."""
        window = InFlight()
        self.windows.append(window)
        times = SourceTimes(self.times, last, ahead)
        return Sending(self, source, batch, settle, times, window)


@dataclass(frozen=True)
class Sending:
    """One source's events. Methods raise EventsRefused and KafkaUnavailable for one that did not arrive."""

    shipment: Shipment
    source: str
    batch: str | None
    settle: Callable[[Any], None]
    times: SourceTimes
    window: InFlight

    def ship(self, chunk: Chunk, place: Callable[[SourceTimes], Any]) -> None:
        """Hands the chunk over, and polls for the delivery of earlier ones; `place`, once the chunk's times
        are known, is settled with it."""
        self._send(chunk, place)
        self.shipment.publisher.serve()
        self.poll()
        self.check()

    def pass_over(self, chunk: Chunk) -> None:
        """Takes the times of a chunk that an earlier attempt has shipped."""
        self.times.passed(chunk.events, _now_ms(), self.shipment.publisher.facts)

    def poll(self) -> None:
        """Settles the place up to which all is acknowledged, and reports progress."""
        place = self.window.settled()
        if place is not None:
            self.settle(place)
        shipment = self.shipment
        shipment.progress.update(shipment.events, shipment.bytes, shipment.publisher.unacknowledged)

    def check(self) -> None:
        if self.window.undelivered:
            raise self._error(self.window.undelivered)

    def wait(self, seconds: float | None = None) -> None:
        """Waits until nothing is on its way, at most `seconds`; raises nothing."""
        until = None if seconds is None else time.monotonic() + seconds
        publisher = self.shipment.publisher
        while publisher.unacknowledged and (until is None or time.monotonic() < until):
            publisher.flush(_SERVE_SECONDS)
            self.poll()
        self.poll()

    def drain(self) -> None:
        """Waits until every event is acknowledged."""
        self.wait()
        self.check()

    def _send(self, chunk: Chunk, place: Callable[[SourceTimes], Any]) -> None:
        shipment, batch = self.shipment, self.batch
        facts, send = shipment.publisher.facts, shipment.publisher.send
        times = self.times.of(chunk.events, _now_ms(), facts)
        sent_chunk = self.window.begin(chunk, place(self.times))
        on_delivery, name = sent_chunk.delivered, (batch or "").encode()
        headers: ProducedHeaders | None = None
        rows = zip(chunk.events, chunk.numbers, times, shipment.keys.of(chunk.events), strict=True)
        for event, number, at, key in rows:
            if batch is not None:
                headers = [(HEADER, b"%b:%d" % (name, number))]
            partition = number // SAME_PARTITION % facts.partitions if key is None else -1
            try:
                send(event, key, partition, at, headers, on_delivery)
            except NotTaken as refusal:
                sent_chunk.failed(refusal.error, event)
                raise self._error(self.window.undelivered) from refusal
            shipment.events += 1
            shipment.bytes += len(event)

    def _error(self, undelivered: Undelivered | None) -> SluiceError:
        assert undelivered is not None  # noqa: S101 - narrows the type
        error, publisher = undelivered.error, self.shipment.publisher
        if unavailable(error):
            return publisher.gone(error.str())
        cluster = publisher.settings.cluster
        return EventsRefused(cluster, publisher.topic, error.name(), self.source, undelivered.line)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# What a shipment has come to: exactly what Kafka has acknowledged.
class ShipmentEnd(StrEnum):
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class BatchState(StrEnum):
    SHIPPED = "shipped"
    BEFORE = "shipped before"
    BEGUN = "begun"  # the rest is still to be shipped


@dataclass(frozen=True)
class BatchReport:
    """One source. Lines up to `line` are acknowledged, those up to `resumed_after` to an earlier publish."""

    source: str
    batch: str | None
    state: BatchState
    line: int
    resumed_after: int = 0


@dataclass(frozen=True)
class ShipReport:
    """`no_time`: events whose time is missing or not understood; `time_refused`: those whose time the broker
    would refuse (more than an hour ahead, by default). Both got the time of the line before them, or at the
    start of a source that of its first line with a time; `stamped_now` of them the current time, because
    there was no such line. `no_key`: events without the field that is the key. `gaps`: places where a log's
    rest could not be found.

    `events` were handed over; of them `acknowledged` are in Kafka, and `partitions` says where.
    """

    cluster: str
    topic: str
    end: ShipmentEnd
    events: int
    bytes: int
    acknowledged: int
    unacknowledged: int
    no_time: int
    time_refused: int
    stamped_now: int
    no_key: int
    gaps: int
    seconds: float
    partitions: Mapping[int, Acknowledged] = field(default_factory=dict)
    batches: Sequence[BatchReport] = ()


def untimed(report: ShipReport, event: Event) -> str | None:
    """Says that the pipeline file and the lines do not go together: none of them has a time."""
    time = event.time
    if time.record or not report.events == report.no_time == report.stamped_now > 0:
        return None
    form = f" ({time.format})" if time.format else ""
    elements = " of an array's elements" if event.rows == "array" else ""
    location = f"the field {time.field}{form}{elements}"
    return (
        f"no line has a time in {location}: all {report.events:,} records have the current time, and are "
        "not in their events' hours; correct event.time or event.rows in the pipeline file, and publish "
        "the lines again (a file with --again)"
    )


_SECONDS = 2.0


@dataclass
class ShipProgress:
    """Says a line every two seconds, with the rates since the last one; nothing where nothing happens."""

    place: str
    say: Say
    clock: Callable[[], float] = time.monotonic
    _then: tuple[float, int, int, int] = field(default=(0.0, 0, 0, 0), init=False)

    def __post_init__(self) -> None:
        self._then = (self.clock(), 0, 0, 0)

    def update(self, events: int, size: int, unacknowledged: int) -> None:
        """`size` in bytes; the first three are those since the start."""
        then, events_then, size_then, waiting_then = self._then
        seconds = self.clock() - then
        if seconds < _SECONDS or (events, unacknowledged) == (events_then, waiting_then) == (events, 0):
            return
        self._then = (then + seconds, events, size, unacknowledged)
        rate, speed = (events - events_then) / seconds, (size - size_then) / seconds / 1e6
        self.say(
            f"published {events:,} rows, {size / 1e6:,.1f} MB, to {self.place}: {rate:,.0f} rows/s, "
            f"{speed:,.1f} MB/s, {unacknowledged:,} unacknowledged"
        )


# Ctrl-C and `kill` end a shipment between two chunks, so that what was sent can be counted.
_T = TypeVar("_T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """`asked` once a signal has come; a second one ends the process at once, as Python does by itself."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Signals are heard while the context lasts; outside of the main thread there are none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def until(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yields the items until the interruption, which also ends the wait for the next one."""
        remaining = iter(items)
        while True:
            try:
                item = self._next(remaining)
            except (StopIteration, KeyboardInterrupt):
                return
            yield item

    def pause(self, seconds: float) -> None:
        """Sleeps; the interruption ends it."""
        for _ in self.until(map(time.sleep, (seconds,))):
            pass

    def _next(self, remaining: Iterator[_T]) -> _T:
        self._waiting = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            return next(remaining)
        finally:
            self._waiting = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or self._waiting:
            raise KeyboardInterrupt


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
