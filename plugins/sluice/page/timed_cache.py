"""Answers that are asked for again and again, each kept for some seconds: what they cost does not depend on
how many people look at the page."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from sluice.errors import SluiceError

T = TypeVar("T")


@dataclass
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = float("-inf")
    value: object = None
    error: SluiceError | None = None


class TimedCache(Generic[T]):
    """At most `most` answers; the one that was asked for longest ago goes first. For a key one thread asks at
    a time, and the others wait for its answer. A SluiceError is an answer, too, for
    `error_seconds` at most."""

    def __init__(
        self,
        seconds: float,
        most: int = 64,
        clock: Callable[[], float] = time.monotonic,
        error_seconds: float = 60,
    ) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._error_seconds = min(seconds, error_seconds)
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Returns what `ask` has answered at most `seconds` ago. Raises what it raised then."""
        entry = self._entry(key)
        with entry.lock:
            if self._clock() >= entry.until:
                entry.value, entry.error = None, None
                try:
                    entry.value = ask()
                except SluiceError as error:
                    entry.error = error
                seconds = self._seconds if entry.error is None else self._error_seconds
                entry.until = self._clock() + seconds
            if entry.error is not None:
                raise entry.error.with_traceback(None)
            return cast(T, entry.value)

    def _entry(self, key: Hashable) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
            return entry
