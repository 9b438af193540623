"""Ctrl-C and `kill` end a shipment between two chunks, so that what was sent can be counted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

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
