"""A problem, and what is known of the problems of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

import msgspec

from sluice.clients.lake.base import Lake
from sluice.slices import Slice
from sluice.stored_json import decode_stored

# Which slices the watch judges by what they brought: each once, also those of hours without a watch. Pure.
#
# known 09 … 20, judged before 18 19 20 → 18 19 20
# known 10 … 21, judged before … 20     → 19 20 21
# known 10 … 06, judged before … 20     → 21 22 … 06, and these once more with 07 and with 08
# known 10 … 06, judged before nothing  → 04 05 06: an earlier watch may have judged the others
JUDGED = 3
"""The newest slices, which are always judged: a problem of one hour is open until so many have come."""
CAUGHT_UP = timedelta(days=1)
"""So far back from the newest slice those are judged that no watch has judged."""

FirstJudged = Mapping[str, str]
"""By the id of a slice, that of the newest slice when it was judged first."""


def first_judged(known_slices: Iterable[Slice], before: FirstJudged) -> dict[str, str]:
    """Returns what the next watch gets as `before`; bounded to the slices of CAUGHT_UP."""
    slices = sorted(known_slices)
    if not slices:
        return dict(before)
    newest = slices[-1]
    recent = [
        slice_
        for number, slice_ in enumerate(reversed(slices))
        if number < JUDGED or newest.start - slice_.start < CAUGHT_UP
    ]
    return {slice_.id: before.get(slice_.id, newest.id if before else slice_.id) for slice_ in recent}


def to_judge(known_slices: Iterable[Slice], before: FirstJudged) -> list[Slice]:
    """Returns the newest JUDGED slices, and those that were first judged when one of these was the newest."""
    slices = sorted(known_slices)
    newest = {slice_.id for slice_ in slices[-JUDGED:]}
    first = first_judged(slices, before)
    return [slice_ for slice_ in slices if slice_.id in newest or first.get(slice_.id) in newest]


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


# The alarms in the lake: `_alarms/state.json`, changed by compare-and-set.
KEY = "_alarms/state.json"


@dataclass(frozen=True)
class AlarmStore:
    lake: Lake

    def read(self) -> WatchState:
        stored = self.lake.read(KEY)
        return WatchState() if stored is None else decode(stored.data, f"{self.lake.url}/{KEY}")

    def change(self, step: Callable[[WatchState], WatchState]) -> WatchState:
        """Writes what `step` makes of the stored state, and returns it. Repeats where another watch wrote
        in between."""
        while True:
            stored = self.lake.read(KEY)
            state = WatchState() if stored is None else decode(stored.data, f"{self.lake.url}/{KEY}")
            encoded = encode(after := step(state))
            if stored is None:
                if self.lake.create(KEY, encoded):
                    return after
            elif encoded == stored.data or self.lake.replace(KEY, encoded, stored.version):
                return after
