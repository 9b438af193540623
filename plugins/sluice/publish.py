"""Publishes newline-delimited events into Kafka, with the event's own time as record time."""

from __future__ import annotations

import gc
import gzip
import io
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import zstandard

from sluice.errors import WrongUse
from sluice.kafka.producer import MAX_EVENT_BYTES, TopicFacts, open_publisher
from sluice.kafka.settings import settings_of
from sluice.landing.fields import FastReader, fields_of, slow_read
from sluice.landing.reasons import Unparsed
from sluice.landing.times import READERS
from sluice.pipeline import Cluster, Event, Pipeline, TypeSource

PARTITIONS = 4
_READ_BYTES = 1 << 20
_PROGRESS_SECONDS = 2.0
_CLOCKS_MS = 10_000  # how far the broker's clock may be behind this machine's
_UNREADABLE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Published:
    """`no_time`: events whose time is missing or not understood; `time_refused`: those whose time the
    broker would refuse (more than an hour ahead, by default). Both were published with the time of now."""

    cluster: str
    topic: str
    events: int
    bytes: int
    no_time: int
    time_refused: int


def publish(
    pipeline: Pipeline,
    source: str,
    topic: str | None = None,
    lag: timedelta | None = None,
    on_progress: Callable[[str], None] = lambda line: None,
) -> Published:
    """Publishes every line of `source` (a file, plain, .gz or .zst; `-` is stdin) as one event, as it is.

    Record time is the event's time plus `lag`; now where the pipeline takes the time from the record. A
    missing topic is made. No key and no header is set: where the type is in a header, the events will land
    as unparsed. Empty lines are skipped. Raises WrongUse for a file or topic that does not do,
    KafkaOutOfReach, EventsRefused.
    """
    cluster, name = choose(pipeline, topic)
    clock = _RecordTimes(pipeline.event, lag or timedelta())
    total = size = 0
    said = time.monotonic()
    with (
        opened(source) as stream,
        open_publisher(settings_of(cluster), name, PARTITIONS) as publisher,
        _rare_collection(),
    ):
        for events in lines(stream, source):
            publisher.send(events, clock.of(events, time.time_ns() // 1_000_000, publisher.facts))
            total += len(events)
            size += sum(map(len, events))
            if time.monotonic() - said > _PROGRESS_SECONDS:
                said = time.monotonic()
                on_progress(f"published {total:,} events, {size >> 20:,} MiB, to {cluster.cluster}/{name}")
        publisher.finish()
    return Published(cluster.cluster, name, total, size, clock.no_time, clock.refused)


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Hundreds of thousands of acknowledgements are awaited: looking for cycles among them takes a third
    of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(200_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def choose(pipeline: Pipeline, topic: str | None) -> tuple[Cluster, str]:
    """The pipeline's only topic, or the one that `topic` names: `bids`, or `dc1/bids`. Raises WrongUse."""
    every = [(cluster, name) for cluster in pipeline.kafka for name in cluster.topics]
    found = [
        (cluster, name)
        for cluster, name in every
        if topic is None or topic in (name, f"{cluster.cluster}/{name}")
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{cluster.cluster}/{name}" for cluster, name in found or every)
    what = "has more than one such topic" if found else "has no such topic"
    raise WrongUse(f"pipeline {pipeline.name} {what}: --topic chooses one of {known}")


@contextmanager
def opened(source: str) -> Iterator[BinaryIO]:
    """The bytes of the source, decompressed. Raises WrongUse when there is no such file, or it is damaged."""
    if source == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(source).open("rb") as file:
            yield _decompressed(file, Path(source).suffix)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        if error.filename != source:
            raise
        raise WrongUse(f"{source}: {error.strerror}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise WrongUse(f"{source} is damaged ({error}): what came before it was published") from error


def _decompressed(file: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return gzip.open(file)
    if suffix == ".zst":
        frames = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return io.BufferedReader(frames, _READ_BYTES)
    return file


def lines(stream: BinaryIO, source: str) -> Iterator[list[bytes]]:
    """What has arrived, line by line without the line ends: a slow source is not waited for to fill a batch.

    Raises WrongUse for a line that is too long to be a record.
    """
    begun: list[bytes] = []  # pieces of a line whose end has not arrived
    number = 1
    while chunk := stream.read1(_READ_BYTES):
        first, *others = chunk.split(b"\n")
        begun.append(first)
        _refuse_long(sum(map(len, begun)), source, number)
        if not others:
            continue
        *whole, last = b"".join(begun), *others
        begun = [last]
        number += len(whole)
        if found := [line for line in whole if line.strip()]:
            yield found
    if (line := b"".join(begun)).strip():
        yield [line]


def _refuse_long(size: int, source: str, number: int) -> None:
    if size > MAX_EVENT_BYTES:
        raise WrongUse(f"{source}, line {number}: an event may have at most {MAX_EVENT_BYTES >> 20} MiB")


class _RecordTimes:
    """Record times of events, and how many could not have their own."""

    def __init__(self, event: Event, lag: timedelta) -> None:
        time_only = Event(type=TypeSource(topic=True), time=event.time)
        self._fields = fields_of(time_only)
        self._fast = FastReader(self._fields)
        self._read = READERS[event.time.format]
        self._lag = lag // timedelta(milliseconds=1)
        self.no_time = 0
        self.refused = 0

    def of(self, events: Sequence[bytes], now: int, facts: TopicFacts) -> list[int]:
        """Milliseconds for each event; `now` for those without a time that the topic takes."""
        if not self._fields:
            return [now] * len(events)
        times = self._event_times(events)
        unread = times == _UNREADABLE
        times = np.where(unread, now, times + self._lag)
        earliest, latest = max(now - facts.before_ms, 0), now + facts.after_ms - _CLOCKS_MS
        refused = ~unread & ((times < earliest) | (times > latest))
        self.no_time += int(unread.sum())
        self.refused += int(refused.sum())
        return np.where(refused, now, times).tolist()

    def _event_times(self, events: Sequence[bytes]) -> np.ndarray:
        (get,) = self._fast.getters
        try:
            texts = [get(event) for event in map(self._fast.decode, events)]
            rows = np.arange(len(events))
        except (msgspec.DecodeError, RecursionError):
            found = {row: text for row, event in enumerate(events) if (text := self._one(event)) is not None}
            texts, rows = list(found.values()), np.array(list(found), np.int64)
        times = np.full(len(events), _UNREADABLE, np.int64)
        column, reasons = self._read(texts)
        times[rows] = column
        times[rows[list(reasons)]] = _UNREADABLE
        return times

    def _one(self, event: bytes) -> str | float | None:
        try:
            return slow_read(event, self._fields)[0]
        except Unparsed:
            return None
