"""Sends chunks of events to one topic, each record with its time, its key and the batch that it is of."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sluice.clients.kafka.producer import NotTaken, ProducedHeaders, Publisher, unavailable
from sluice.errors import EventsRefused, SluiceError
from sluice.ship.in_flight import InFlight, Undelivered
from sluice.ship.lines import Chunk
from sluice.ship.record_keys import RecordKeys
from sluice.ship.record_times import Ahead, RecordTimes, SourceTimes, nothing
from sluice.ship.report import ShipProgress

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
