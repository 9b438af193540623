"""The record time of each event: its own time, or that of now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import numpy as np

from sluice.kafka.making import TopicFacts
from sluice.landing.fields import FastReader, fields_of, slow_read
from sluice.landing.reasons import Unparsed
from sluice.landing.times import READERS
from sluice.pipeline import Event, TypeSource

_CLOCKS_MS = 10_000  # how far the broker's clock may be behind this machine's
_UNREADABLE = np.iinfo(np.int64).min


class RecordTimes:
    """Record times of events, and how many could not have their own: `no_time` have none that is understood,
    the broker would have refused that of `refused` (more than an hour ahead, by default)."""

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
