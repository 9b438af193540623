"""Ends a service that runs and no longer answers, so that its runner starts it again.

A broker whose memory was taken by one record, in many small objects, lives on with no thread that answers.
"""

import threading
import time
from collections.abc import Callable, Mapping

PROBE_SECONDS = 15.0
STARTING = 10
"""How many times as long a service may take to start."""

Probe = Callable[[], bool]


class Silence(threading.Thread):
    """Probes services by name. One that has not answered for so many `seconds` is told to `end`."""

    def __init__(self, probes: Mapping[str, Probe], seconds: float, end: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._probes, self._seconds, self._end = probes, seconds, end
        self._until = dict.fromkeys(probes, time.monotonic() + STARTING * seconds)

    def run(self) -> None:
        while True:
            for name, answers in self._probes.items():
                self.look(name, answers(), time.monotonic())
            time.sleep(min(PROBE_SECONDS, self._seconds / 2))

    def look(self, name: str, answers: bool, now: float) -> None:
        if answers:
            self._until[name] = now + self._seconds
        elif now > self._until[name]:
            self._until[name] = now + STARTING * self._seconds
            self._end(name)
