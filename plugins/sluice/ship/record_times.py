"""The record time of each line: its event's time, of an array the latest of its events', or that of the line
before it.

The current time in the middle of a log of last week would end every hour in between: what comes after it in
its partition would be late. So it is taken only if a source has no time at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import numpy as np

from sluice.clients.kafka.producer import TopicLimits
from sluice.config.event import Event, TypeSource
from sluice.errors import WrongUse
from sluice.field_path import FieldPath, names_of, spellings
from sluice.flow.land.reject_reasons import Rejected
from sluice.flow.land.task.decode import elements_of
from sluice.flow.land.task.parse import fast_readers, fields_of, slow_read
from sluice.flow.land.task.times import read_times
from sluice.infer.values import NumberSpan, far_times
from sluice.time_grammar import EPOCHS

_CLOCKS_MS = 10_000  # how far the broker's clock may be behind this machine's
_UNREADABLE = np.iinfo(np.int64).min
Ahead = Callable[[], Iterable[Sequence[bytes]]]
"""A source's events from its start, where it can be read once more."""


@dataclass(frozen=True)
class OwnTimes:
    """Record times in ms; the events at `missing` have none: the time of `no_time` of them is missing or not
    understood, and the broker would refuse that of `refused` (more than an hour ahead, by default)."""

    times: np.ndarray
    missing: np.ndarray
    no_time: int
    refused: int


class RecordTimes:
    """Reads events' times, and counts those that could not be taken; `now` of them have the current time."""

    def __init__(self, event: Event, lag: timedelta) -> None:
        time_only = Event(type=TypeSource(topic=True), time=event.time)
        self._fields = fields_of(time_only)
        self._readers = fast_readers(self._fields)
        self._spelled = event.time.spelled
        self._arrays = event.rows == "array"
        self._lag = lag // timedelta(milliseconds=1)
        self._time = event.time
        self._numbers = NumberSpan()
        self.no_time = 0
        self.refused = 0
        self.now = 0

    def far(self) -> str:
        """Says that all times are decades away, and why; empty where they are not."""
        return far_times(self._time, self._numbers, time.time_ns() // 1_000_000)

    @property
    def of_now(self) -> bool:
        """Whether record times are not the events': the pipeline takes an event's time from its record."""
        return not self._fields

    def own(self, events: Sequence[bytes], now: int, facts: TopicLimits) -> OwnTimes:
        """Returns the events' own times. `now` in ms: the range that a broker takes counts from there."""
        if self._arrays:
            elements = Elements.of(events)
            judged = elements.latest(self._judged(elements.events, now, facts))
        else:
            judged = self._judged(events, now, facts)
        missing = np.flatnonzero(judged.unread | judged.refused)
        return OwnTimes(judged.times, missing, int(judged.unread.sum()), int(judged.refused.sum()))

    def _judged(self, events: Sequence[bytes], now: int, facts: TopicLimits) -> Judged:
        times = self._event_times(events)
        unread = times == _UNREADABLE
        times = np.where(unread, now, times + self._lag)
        earliest, latest = max(now - facts.before_ms, 0), now + facts.after_ms - _CLOCKS_MS
        return Judged(times, unread, ~unread & ((times < earliest) | (times > latest)))

    def _event_times(self, events: Sequence[bytes]) -> np.ndarray:
        values = self._fast(events)
        if values is None:
            by_row = {
                row: value for row, event in enumerate(events) if (value := self._one(event)) is not None
            }
            values, rows = list(by_row.values()), np.array(list(by_row), np.int64)
        else:
            rows = np.arange(len(events))
        if self._time.format in EPOCHS:
            self._numbers.take(values)
        times = np.full(len(events), _UNREADABLE, np.int64)
        column, reasons = read_times(values, self._spelled)
        times[rows] = column
        times[rows[list(reasons)]] = _UNREADABLE
        return times

    def _fast(self, events: Sequence[bytes]) -> list[str | float] | None:
        """Returns None where not all events have a time in the same spelling."""
        for reader in self._readers:
            (get,) = reader.getters
            try:
                return [get(event) for event in map(reader.decode, events)]
            except (msgspec.DecodeError, RecursionError):
                continue
        return None

    def _one(self, event: bytes) -> str | float | None:
        try:
            value: str | float = slow_read(event, self._fields)[0]
        except Rejected:
            return None
        return value


def nothing() -> Iterator[Sequence[bytes]]:
    return iter(())


@dataclass
class SourceTimes:
    """Record times of one source, line by line. `last` is the time of the line before; None at the start."""

    times: RecordTimes
    last: int | None = None
    ahead: Ahead = nothing

    def of(self, events: Sequence[bytes], now: int, facts: TopicLimits) -> list[int]:
        """Milliseconds for each of the next events. One without a time that the topic takes has that of the
        line before it, at the source's start that of the first that has one, and else `now`."""
        if self.times.of_now:
            return [now] * len(events)
        own_times = self.times.own(events, now, facts)
        self.times.no_time += own_times.no_time
        self.times.refused += own_times.refused
        times = own_times.times
        if len(own_times.missing):
            times = self._filled(own_times, now, facts)
        if len(own_times.missing) < len(events):
            self.last = int(times[-1])
        stamps: list[int] = times.tolist()
        return stamps

    def passed(self, events: Sequence[bytes], now: int, facts: TopicLimits) -> None:
        """Takes the last time of events that an earlier attempt has shipped; they are not counted."""
        if self.times.of_now:
            return
        for event in reversed(events):
            own_times = self.times.own([event], now, facts)
            if not len(own_times.missing):
                self.last = int(own_times.times[0])
                return

    def _filled(self, own_times: OwnTimes, now: int, facts: TopicLimits) -> np.ndarray:
        before = np.arange(len(own_times.times))
        before[own_times.missing] = -1
        before = np.maximum.accumulate(before)
        start = before < 0
        if not start.any():
            return own_times.times[before]
        if self.last is None:
            good = before[~start]
            self.last = int(own_times.times[good[0]]) if len(good) else self._first(now, facts)
        if self.last is None:
            self.times.now += int(start.sum())
        return np.where(start, now if self.last is None else self.last, own_times.times[before])

    def _first(self, now: int, facts: TopicLimits) -> int | None:
        """Returns the first time that the source has; it is read once."""
        ahead, self.ahead = self.ahead, nothing
        for events in ahead():
            own_times = self.times.own(events, now, facts)
            good = np.delete(own_times.times, own_times.missing)
            if len(good):
                return int(good[0])
        return None


# The key of each record, out of a field of the event.
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)


class RecordKeys:
    """`field` is a dotted path; None gives no keys. `missing` counts the lines without it. Where lines
    are `arrays`, the first element that has it gives the key."""

    def __init__(self, field: str | None, arrays: bool = False) -> None:
        self._path = names_of(field) if field else ()
        if not all(self._path):
            raise WrongUse(f"--key: expected a field such as user or device.id, not {field!r}")
        self._key = _key_in_array if arrays else _key
        self.missing = 0

    def of(self, events: Sequence[bytes]) -> list[bytes | None]:
        """Returns a text's UTF-8 bytes, and any other value as JSON writes it; None without the field, or
        null."""
        if not self._path:
            return [None] * len(events)
        keys = [self._key(event, self._path) for event in events]
        self.missing += keys.count(None)
        return keys


def _key(event: bytes, path: FieldPath) -> bytes | None:
    keys = (_key_at(event, spelled) for spelled in spellings(path))
    return next((key for key in keys if key is not None), None)


def _key_at(event: bytes, keys: FieldPath) -> bytes | None:
    try:
        for name in keys:
            event = _OBJECT.decode(event).get(name, b"null")
        raw = bytes(event)
        if raw.startswith(b'"'):
            return _TEXT.decode(raw).encode("utf-8", "surrogatepass")
        return None if raw == b"null" else raw
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _key_in_array(line: bytes, path: FieldPath) -> bytes | None:
    keys = (_key(bytes(element), path) for element in elements_in(line))
    return next((key for key in keys if key is not None), None)


# Lines that are arrays: each is one record, and its elements are the events.
@dataclass(frozen=True)
class Judged:
    """Times in ms; those that are `unread` are not understood, the broker would refuse those `refused`."""

    times: np.ndarray
    unread: np.ndarray
    refused: np.ndarray


@dataclass(frozen=True)
class Elements:
    """The events of `lines` arrays, in order; `places`: the line that each is of."""

    events: Sequence[bytes]
    places: np.ndarray
    lines: int

    @classmethod
    def of(cls, lines: Sequence[bytes]) -> Elements:
        elements_by_line = [*map(elements_in, lines)]
        sizes = np.array([*map(len, elements_by_line)], np.int64)
        events = [bytes(element) for elements in elements_by_line for element in elements]
        return cls(events, np.repeat(np.arange(len(lines)), sizes), len(lines))

    def latest(self, judged: Judged) -> Judged:
        """Returns each line's time, of those of its elements: the latest that the broker takes. An event may
        lie any time before its record, and only `max_early` behind it."""
        taken = ~(judged.unread | judged.refused)
        times = np.full(self.lines, -1, np.int64)  # what the broker takes is never below 0
        np.maximum.at(times, self.places[taken], judged.times[taken])
        none, refused = times < 0, np.zeros(self.lines, bool)
        refused[self.places[judged.refused]] = True
        return Judged(times, none & ~refused, none & refused)


def elements_in(line: bytes) -> Sequence[msgspec.Raw]:
    """Returns no elements of a line that is no array: landing rejects it."""
    try:
        return elements_of(line)
    except Rejected:
        return ()
