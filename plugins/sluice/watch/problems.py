"""A problem, and what is known of the problems of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from sluice.stored_json import decode_stored
from sluice.watch.judged import FirstJudged


class ProblemKind(StrEnum):
    """What can be wrong. The values are stored: they do not change."""

    OVERDUE = "hour overdue"
    NOT_COMMITTED = "hour not committed"
    OLDER = "older hours"
    TABLE = "table missing"
    LAG = "lag"
    STILL = "partition stands still"
    TRANSACTION = "open transaction"
    RETENTION = "retention"
    EXPIRED = "records expired"
    ANOMALY = "anomaly"
    FIELD = "field missing"
    SCHEMA = "schema changed"
    FORGETS = "hours will be forgotten"
    FEW = "too few events"
    REJECTED = "rejects above share"
    SERVER_ERROR = "server error"
    QUEUE = "replication queue"
    PARTS = "parts"
    DISK = "disk"
    UNAVAILABLE = "unavailable"
    MORE = "more problems"


EVENTS = frozenset({ProblemKind.SCHEMA, ProblemKind.FORGETS})
"""What happens once: a channel hears of it, and of no end."""


class ProblemSource(StrEnum):
    """The system in which a problem is seen. While it does not answer, none of its problems is over."""

    KAFKA = "kafka"
    CLICKHOUSE = "clickhouse"
    LAKE = "lake"


@dataclass(frozen=True)
class Problem:
    """`message` says what is so, with figures, and what to do; it may change while the problem stays."""

    kind: ProblemKind
    place: str
    message: str
    sources: tuple[ProblemSource, ...] = ()

    @property
    def key(self) -> str:
        """Identifies the problem: it is the same in every run of the watch."""
        return f"{self.kind}|{self.place}"

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.message}"


@dataclass(frozen=True)
class Alarm:
    """A problem that is or was open since `since` (ISO 8601, UTC), and the channels notified of it.

    `over`: it is gone, and the channels in `notified` have still to be notified of its end.
    """

    problem: Problem
    since: str
    notified: tuple[str, ...] = ()
    over: bool = False


@dataclass(frozen=True)
class LogStart:
    """A partition's log start, seen there first at `at` (seconds since the epoch).

    `moved`: a watch saw it move there. `before` is the (offset, at) of the move before that one, so that the
    two tell its pace.
    """

    offset: int
    at: int
    moved: bool = False
    before: tuple[int, int] | None = None


@dataclass(frozen=True)
class Open:
    """A last stable offset with records behind it, seen there first at `at` (seconds since the epoch)."""

    offset: int
    at: int


@dataclass(frozen=True)
class WatchState:
    """`_alarms/state.json`: alarms by key; log starts and open transactions by `cluster/topic/partition`;
    which slices were judged (judged.py)."""

    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    log_starts: Mapping[str, LogStart] = field(default_factory=dict)
    open: Mapping[str, Open] = field(default_factory=dict)
    judged: FirstJudged = field(default_factory=dict)


def watch_remedy(dag: str, paused: bool, watched: bool) -> str:
    """Returns what a person does so that problems are noticed; empty where the watch runs."""
    if paused:
        return f"Unpause {dag} in Airflow: while it is paused nothing is noticed, and no channel is notified."
    return "" if watched else f"{dag} has not run yet: it runs within the next half hour."


_DECODER = msgspec.json.Decoder(WatchState)


def encode(state: WatchState) -> bytes:
    return msgspec.json.format(msgspec.json.encode(state), indent=1)


def decode(data: bytes, place: str) -> WatchState:
    """Raises SluiceError naming `place`."""
    return decode_stored(
        _DECODER,
        data,
        lambda error: (
            f"{place} holds no alarms ({error}): delete it; channels are notified of open problems again"
        ),
    )
