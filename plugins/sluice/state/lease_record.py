"""What a lease says, and who may take it: pure functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from sluice.clients.lake.base import StoredObject
from sluice.stored_json import decode_stored


@dataclass(frozen=True)
class LeaseState:
    """One table's lease as it is in the lake.

    `holder` is the attempt; `generation` grows with every holder; `serial` with every write of one holder,
    so that each renewal changes the bytes. `pid` and `host` are for people. `replica`: the one through which
    the newest settled attempt wrote (empty without replicas).
    """

    holder: str
    generation: int
    serial: int
    term_seconds: float
    pid: int
    host: str
    released: bool = False
    replica: str = ""

    def renewed(self) -> LeaseState:
        return replace(self, serial=self.serial + 1)

    def given_back(self) -> LeaseState:
        return replace(self, serial=self.serial + 1, released=True)

    def settled(self, replica: str) -> LeaseState:
        """Returns the state when no earlier attempt can write, and this one writes through `replica`."""
        return replace(self, serial=self.serial + 1, replica=replica)

    def after(self, earlier: LeaseState | None, above: int = 0) -> LeaseState:
        """Returns this state as the successor of `earlier`; its generation is also higher than `above`."""
        newest = max(above, earlier.generation if earlier else 0)
        replica = earlier.replica if earlier else ""
        return replace(self, generation=newest + 1, serial=0, released=False, replica=replica)

    def __str__(self) -> str:
        return f"{self.holder} (process {self.pid} on {self.host})"


@dataclass(frozen=True)
class LeaseWatch:
    """A version of the lease, and the instant of the watcher's own clock since when it has seen it."""

    version: str
    since: float


def observe(watch: LeaseWatch | None, stored: StoredObject | None, now: float) -> LeaseWatch | None:
    """Returns the watch after a read that ended at `now`."""
    if stored is None or (watch is not None and watch.version == stored.version):
        return watch
    return LeaseWatch(stored.version, now)


def may_take(state: LeaseState | None, watch: LeaseWatch | None, read_at: float) -> bool:
    """Returns whether the lease is free: never held, given back, or seen to stand still for the holder's
    term.

    `read_at` is when the last read began, so that a slow read does not count as standing still.
    """
    if state is None or state.released:
        return True
    return watch is not None and read_at - watch.since >= state.term_seconds


_DECODER = msgspec.json.Decoder(LeaseState)


def encode(state: LeaseState) -> bytes:
    fields = {name: value for name, value in vars(state).items() if name != "replica" or value}
    return msgspec.json.encode(fields)


def decode(data: bytes, place: str) -> LeaseState:
    """Raises SluiceError naming `place` when the bytes are no lease."""
    return decode_stored(
        _DECODER, data, lambda error: f"{place} is not a lease ({error}): remove it while no load runs"
    )
