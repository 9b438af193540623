"""The lease of a target table: at most one attempt loads it, and a late one learns that it has lost.

No clocks are compared. A successor waits until it has itself seen the lease stand still for the holder's
whole term; the holder's renewal is a compare-and-set, which fails once another attempt has taken the lease.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Event, RLock
from typing import Annotated

import msgspec

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake, StoredObject
from sluice.concurrency import each_if_slow
from sluice.errors import Busy, Fenced, Unavailable
from sluice.stored_json import Whole, decode_stored

_LONGEST_TERM = 1e9


class Lease:
    """A lease that this attempt holds, until it is released or another takes it over."""

    def __init__(
        self,
        lake: Lake,
        table: str,
        state: LeaseState,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lake, self._table, self._clock, self._sleep = lake, table, clock, sleep
        self._key = layout.lease(table)
        self._confirmed = self._written = state
        self._confirmed_at = clock()
        self._lost: Fenced | None = None
        self._lock = RLock()

    @classmethod
    def acquire(
        cls,
        lake: Lake,
        table: str,
        holder: str,
        term: timedelta,
        patience: timedelta,
        above: int = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        watch: LeaseWatch | None = None,
    ) -> Lease:
        """Takes the lease, waiting at most `patience` for a holder that lives (or died a moment ago).

        `holder` names one attempt, never two; `above` is the highest generation known elsewhere, in case
        the lake was emptied; `watch` is what this process has seen of the lease before. Raises Busy when
        patience ends, LakeUnavailable when the lake does.
        """
        claim = LeaseState(holder, 0, 0, term.total_seconds(), os.getpid(), socket.gethostname())
        deadline = clock() + patience.total_seconds()
        while True:
            read_at = clock()
            stored = lake.read(layout.lease(table))
            watch = observe(watch, stored, clock())
            earlier = None if stored is None else decode(stored.data, f"{lake.url}/{layout.lease(table)}")
            if may_take(earlier, watch, read_at):
                mine = claim.after(earlier, above)
                lease = cls(lake, table, mine, clock, sleep)
                if lease._write(mine, None if stored is None else stored.version):
                    return lease
                continue
            if clock() >= deadline:
                raise Busy(f"table {table} is being loaded by {earlier}: wait until it has finished")
            sleep(min(claim.term_seconds / 10, max(deadline - clock(), 0.0)))

    @property
    def name(self) -> str:
        return self._table

    @property
    def generation(self) -> int:
        return self._confirmed.generation

    @property
    def replica(self) -> str:
        return self._confirmed.replica

    def settle(self, replica: str) -> None:
        """Notes the replica that this attempt writes through. Raises Fenced, Unavailable."""
        with self._lock:
            self.check()
            self._advance(lambda state: state.settled(replica))

    def renew(self) -> None:
        """Proves that the lease is still this attempt's. Raises Fenced when it is not.

        An unavailable lake is asked again until the term is over: then a successor may be at work.
        """
        with self._lock:
            self.check()
            while True:
                try:
                    return self._advance(LeaseState.renewed)
                except Unavailable as error:
                    if self._clock() - self._confirmed_at >= self._confirmed.term_seconds:
                        raise self._lose("the lake was unavailable for a whole term") from error
                    self._sleep(self._confirmed.term_seconds / 10)

    def check(self) -> None:
        """Raises Fenced when a renewal has failed before, or after `release`, without asking the lake."""
        if self._lost is not None:
            raise self._lost
        if self._confirmed.released:
            raise Fenced(f"the lease of table {self._table} was given back: acquire it again")

    def release(self) -> None:
        """Gives the lease back: the next attempt need not wait. Nothing to do when it was lost."""
        with self._lock:
            if self._lost is None and not self._confirmed.released:
                with suppress(Fenced):
                    self._advance(LeaseState.given_back)

    @contextmanager
    def keep(self) -> Iterator[None]:
        """Renews three times a term while the context lasts. Raises Fenced at its end when that failed."""
        stop = Event()
        with ThreadPoolExecutor(1, thread_name_prefix="lease") as pool:
            renewing = pool.submit(self._renew_until, stop)
            try:
                yield
            finally:
                stop.set()
        renewing.result()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What went wrong inside matters more than a lake that cannot take the lease back.
        with nullcontext() if kind is None else suppress(Unavailable):
            self.release()

    def _renew_until(self, stop: Event) -> None:
        while not stop.wait(self._confirmed.term_seconds / 3):
            self.renew()

    def _advance(self, step: Callable[[LeaseState], LeaseState]) -> None:
        """Writes the next state over this attempt's last one. Raises Fenced, Unavailable."""
        asked_at = self._clock()
        stored = self._lake.read(self._key)
        # After a lost answer the last state written may be there, or the one before it.
        matching = [s for s in (self._written, self._confirmed) if stored and stored.data == encode(s)]
        taken = "another attempt has taken it over"
        if stored is None or not matching:
            raise self._lose(taken)
        self._confirmed = matching[0]  # the lake has it, whatever becomes of the next write
        if not self._write(step(matching[0]), stored.version):
            raise self._lose(taken)
        self._confirmed_at = asked_at

    def _write(self, state: LeaseState, version: str | None) -> bool:
        self._written = state
        data = encode(state)
        won = (
            self._lake.create(self._key, data)
            if version is None
            else self._lake.replace(self._key, data, version)
        )
        if won:
            self._confirmed = state
        return won

    def _lose(self, reason: str) -> Fenced:
        self._lost = Fenced(f"the lease of table {self._table} is lost: {reason}; this attempt stops")
        return self._lost


# The leases of several tables, held at once: those that a run left behind are waited for together.
@contextmanager
def hold_all(
    lake: Lake,
    names: Collection[str],
    term: timedelta,
    patience: timedelta,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[list[Lease]]:
    """Holds the leases while the context lasts. Raises Busy, when `patience` with one of them ends.

    All are watched from the beginning, and taken in the order of their names: of two that want the same
    leases neither holds what the other waits for.
    """

    def first_watch(name: str) -> LeaseWatch | None:
        stored = lake.read(layout.lease(name))
        return observe(None, stored, clock())

    ordered = sorted(names)
    watches = each_if_slow(first_watch, ordered)
    with ExitStack() as held:
        leases = []
        for name, watch in zip(ordered, watches, strict=True):
            holder = uuid.uuid4().hex
            lease = Lease.acquire(lake, name, holder, term, patience, clock=clock, sleep=sleep, watch=watch)
            leases.append(held.enter_context(lease))
            held.enter_context(lease.keep())
        yield leases


# What a lease says, and who may take it: pure functions.
@dataclass(frozen=True)
class LeaseState:
    """One table's lease as it is in the lake.

    `holder` is the attempt; `generation` grows with every holder; `serial` with every write of one holder,
    so that each renewal changes the bytes. `pid` and `host` are for people. `replica`: the one through which
    the newest settled attempt wrote (empty without replicas).
    """

    holder: str
    generation: Whole
    serial: Whole
    term_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_TERM)]
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
    return msgspec.json.encode(state)


def decode(data: bytes, place: str) -> LeaseState:
    """Raises SluiceError naming `place` when the bytes are no lease."""
    return decode_stored(
        _DECODER, data, lambda error: f"{place} is not a lease ({error}): remove it while no load runs"
    )
