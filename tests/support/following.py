"""Follows a log in this process, with a topic in memory; the log's writer acts when it waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from pathlib import Path

from sluice.config.event import Event
from sluice.ship.follow import Follower, StateFile
from sluice.ship.record_times import RecordKeys, RecordTimes
from sluice.ship.shipment import Shipment, ShipProgress
from tests.support.fake_publisher import FakePublisher, Killed

EVENT = Event.model_validate({"type": {"field": "type"}, "time": {"record": True}})
Act = Callable[[], object]
MOST_TURNS = 200  # of a follower between two pauses


@dataclass
class Script:
    """In the place of the interruption: each pause lets the writer do its next act; then it is the end.

    After an act there are `pauses` more, in which the follower sees what has happened. A follower that takes
    turns without a pause, and would for ever, is an AssertionError.
    """

    acts: Iterable[Act]
    pauses: int = 6

    def __post_init__(self) -> None:
        self._acts = iter(self.acts)
        self._left = self.pauses
        self._over, self._turns = False, 0

    @property
    def asked(self) -> bool:
        self._turns += 1
        assert self._turns < MOST_TURNS, "it takes turns without a pause"
        return self._over

    def pause(self, seconds: float) -> None:
        self._turns = 0
        self._left -= 1
        if self._left > 0:
            return
        self._left = self.pauses
        act = next(self._acts, None)
        if act is None:
            self._over = True
        else:
            act()

    def until(self, items):
        yield from items


@dataclass
class World:
    folder: Path
    topic: FakePublisher = field(default_factory=FakePublisher)
    said: list[str] = field(default_factory=list)
    event: Event = EVENT
    state: Path | None = None

    @property
    def log(self) -> Path:
        return self.folder / "app.log"

    def write(self, *lines: str, end: str = "\n") -> Act:
        """An act that appends to whatever file has the log's name then."""

        def act() -> None:
            with self.log.open("a") as file:
                file.write("\n".join(lines) + end)

        return act

    def follow(self, *acts: Act, rest: Iterable[Act] = ()) -> Follower:
        """Runs until the acts are over, or until the topic kills it; `rest` keeps what was not acted then."""
        times, keys = RecordTimes(self.event, timedelta()), RecordKeys(None)
        shipment = Shipment(self.topic, times, keys, ShipProgress("dc1/clicks", self.said.append))
        state = StateFile(self.state or self.folder / "state.json", "dc1/clicks")
        follower = Follower(
            self.log, shipment, state, Script(chain(acts, rest)), self.said.append, patience=0.0
        )
        with suppress(Killed):
            follower.run()
        return follower

    @property
    def events(self) -> list[str]:
        return [event.decode() for _, event in self.topic.taken]

    @property
    def once(self) -> list[str]:
        """The events as a loader keeps them: one of each batch and line, the first."""
        return [event.decode() for event in dict(self.topic.taken).values()]

    def headers_tell(self) -> bool:
        """Whether the same batch and line always has the same event: else dropping one would lose it."""
        return len(set(self.topic.taken)) == len(dict(self.topic.taken))
