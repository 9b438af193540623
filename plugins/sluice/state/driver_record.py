"""What the lake says of a Spark driver whose task is deferred, and what follows from it: pure functions.

Its keeper, the process that started it, renews the record every few seconds and writes its end. Every host
that reads the lake can so wait for the end, end the driver, and take its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from sluice.stored_json import decode_stored

BEAT_SECONDS = 5.0
"""How often a keeper renews its record."""
LOST_SECONDS = 60.0
"""A record that was seen to stand still for so long has no keeper any more."""


class EndCause(StrEnum):
    """What ended a driver."""

    OWN = "own"  # it ended by itself, or was killed
    TIME = "time"  # it had no more time
    STOP = "stop"  # Airflow no longer wants it


class DriverState(StrEnum):
    """What a watcher knows of the driver that it waits for."""

    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"
    REPLACED = "replaced"


@dataclass(frozen=True)
class DriverEnd:
    """`code` is spark-submit's, negative for a signal; `output` its last lines."""

    code: int
    cause: EndCause
    output: str


@dataclass(frozen=True)
class DriverRecord:
    """One driver of a landing.

    `work` stands for all that it was started with. `beat` grows with each renewal, and is 0 before the keeper
    has started. `said` is the newest line of its output, `started` an ISO 8601 instant by the clock of
    `host`; `host` and `pid`, the keeper's, are for people. `deferred`: the try that started it has ended in
    good order, so a later one is there because Airflow gave that up: the task was cleared, or has failed.
    """

    id: str
    work: str
    host: str
    started: str
    beat: int = 0
    pid: int = 0
    said: str = ""
    deferred: bool = False
    stop: bool = False
    end: DriverEnd | None = None

    def renewed(self, pid: int, said: str) -> DriverRecord:
        return replace(self, beat=self.beat + 1, pid=pid, said=said)

    def left(self) -> DriverRecord:
        return replace(self, deferred=True)

    def stopped(self) -> DriverRecord:
        return replace(self, stop=True)

    def ended(self, end: DriverEnd) -> DriverRecord:
        return replace(self, end=end)


@dataclass(frozen=True)
class DriverWatch:
    """A beat of the record, and the instant of the watcher's own clock since when it has seen it."""

    beat: int
    since: float


def may_attach(record: DriverRecord | None, work: str) -> bool:
    """Returns whether a try waits for the driver that is there, instead of starting one.

    That is one whose try was killed before it could defer. A driver that was started with something else is
    replaced; so is one whose keeper has never started, and one of a task that was deferred and then cleared.
    """
    if record is None or record.end is not None or record.stop or record.deferred or record.beat == 0:
        return False
    return record.work == work


def observe(watch: DriverWatch | None, record: DriverRecord | None, now: float) -> DriverWatch:
    """Returns the watch after a read that ended at `now`."""
    beat = -1 if record is None else record.beat
    return watch if watch is not None and watch.beat == beat else DriverWatch(beat, now)


def state_of(record: DriverRecord | None, driver: str, watch: DriverWatch, read_at: float) -> DriverState:
    """Returns the state of `driver`. `read_at` is when the last read began, so that a slow read does not
    count as standing still."""
    if record is None or record.id != driver:
        return DriverState.REPLACED
    if record.end is not None:
        return DriverState.ENDED
    return DriverState.LOST if read_at - watch.since >= LOST_SECONDS else DriverState.RUNNING


_DECODER = msgspec.json.Decoder(DriverRecord)


def encode(record: DriverRecord) -> bytes:
    return msgspec.json.encode(record)


def decode(data: bytes, place: str) -> DriverRecord:
    """Raises SluiceError naming `place` when the bytes are no record."""
    return decode_stored(
        _DECODER,
        data,
        lambda error: f"{place} is no record of a driver ({error}): remove it while nothing is landed",
    )
