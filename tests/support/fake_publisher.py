"""A Kafka topic in memory, in the place of librdkafka: it acknowledges when it is served, or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

from sluice.clients.kafka.producer import TopicLimits


class Killed(BaseException):
    """As kill -9: nothing of the process goes on."""


@dataclass
class FakePublisher:
    """`taken` are (header, event) that the topic holds, whoever was killed later; `stamps` are their times.
    `kill_at` is the number of the call after which the process is dead; the topic has then what was served
    before."""

    kill_at: int | None = None
    serves_at_once: int = 1_000_000
    refuse: Callable[[bytes], object | None] = lambda event: None
    taken: list[tuple[bytes | None, bytes]] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    facts: TopicLimits = field(default_factory=lambda: TopicLimits(4, 2**62, 2**62, "uuid-1"))
    topic: str = "clicks"
    settings: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(cluster="dc1", bootstrap="x:1"))
    calls: int = 0
    _waiting: deque = field(default_factory=deque)

    def send(self, event, key, partition, at, headers, delivered) -> None:
        self._call()
        self._waiting.append((event, partition, at, headers, delivered))

    def serve(self, seconds: float = 0) -> None:
        self._call()
        for _ in range(min(self.serves_at_once, len(self._waiting))):
            event, partition, at, headers, delivered = self._waiting.popleft()
            error = self.refuse(event)
            if error is None:
                self.taken.append((headers[0][1] if headers else None, event))
                self.stamps.append(at)
            message = SimpleNamespace(
                partition=lambda p=partition: max(p, 0),
                offset=lambda: len(self.taken) - 1,
                value=lambda e=event: e,
            )
            delivered(error, message)

    def flush(self, seconds: float) -> int:
        self.serve(seconds)
        return len(self._waiting)

    @property
    def unacknowledged(self) -> int:
        return len(self._waiting)

    def restart(self) -> None:
        """A new process: what the old one had not handed over is gone, and nothing kills it."""
        self.kill_at = None
        self._waiting.clear()

    def _call(self) -> None:
        self.calls += 1
        if self.kill_at is not None and self.calls >= self.kill_at:
            raise Killed
