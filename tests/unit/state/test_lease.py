from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.lake import layout
from sluice.clients.lake.base import StoredObject
from sluice.clients.lake.folder import FolderLake
from sluice.errors import Busy, Fenced, LakeUnavailable, SluiceError
from sluice.state.lease import Lease, LeaseState, LeaseWatch, decode, encode, may_take, observe
from tests.support.fakes import FakeClock, MemoryLake
from tests.support.long_form import per_commit

TABLE = "events.clicks"
KEY = layout.lease(TABLE)
TERM = timedelta(seconds=30)
FORK = multiprocessing.get_context("fork")


def state(**changes: object) -> LeaseState:
    return LeaseState(
        **{"holder": "a1", "generation": 3, "serial": 7, "term_seconds": 30.0, "pid": 1, "host": "h"}
        | changes
    )


def acquire(
    lake, holder: str, clock: FakeClock | None = None, patience: float = 100, above: int = 0
) -> Lease:
    clock = clock or FakeClock()
    return Lease.acquire(
        lake, TABLE, holder, TERM, timedelta(seconds=patience), above, clock=clock, sleep=clock.sleep
    )


def stored(lake) -> LeaseState:
    return decode(lake.read(KEY).data, KEY)


class TestDeciding:
    @pytest.mark.parametrize(
        ("found", "watch", "read_at", "free"),
        [
            (None, None, 0.0, True),
            (state(released=True), LeaseWatch("v", 0.0), 0.0, True),
            (state(), LeaseWatch("v", 0.0), 0.0, False),
            (state(), LeaseWatch("v", 0.0), 29.9, False),
            (state(), LeaseWatch("v", 0.0), 30.0, True),
            (state(term_seconds=60.0), LeaseWatch("v", 0.0), 59.0, False),
            (state(), LeaseWatch("v", 5.0), 34.0, False),
        ],
    )
    def test_may_take(
        self, found: LeaseState | None, watch: LeaseWatch | None, read_at: float, free: bool
    ) -> None:
        assert may_take(found, watch, read_at) is free

    def test_a_watch_starts_again_with_each_version(self) -> None:
        watch = observe(None, None, 0.0)
        assert watch is None
        watch = observe(watch, StoredObject(b"", "v1"), 1.0)
        assert watch == LeaseWatch("v1", 1.0)
        assert observe(watch, StoredObject(b"", "v1"), 9.0) == LeaseWatch("v1", 1.0)
        assert observe(watch, StoredObject(b"", "v2"), 9.0) == LeaseWatch("v2", 9.0)

    @given(st.integers(0, 50), st.integers(0, 50))
    def test_generations_only_grow(self, before: int, above: int) -> None:
        successor = state(holder="a2").after(state(generation=before), above)
        assert successor.generation > before
        assert successor.generation > above
        assert (successor.holder, successor.serial, successor.released) == ("a2", 0, False)

    def test_every_write_changes_the_bytes(self) -> None:
        states = [state(), state().renewed(), state().given_back(), state().after(state())]
        assert len({encode(s) for s in states}) == len(states)

    def test_encoding(self) -> None:
        assert decode(encode(state()), KEY) == state()
        assert encode(state(released=True)) == (
            b'{"holder":"a1","generation":3,"serial":7,"term_seconds":30.0,"pid":1,"host":"h","released":true,'
            b'"replica":""}'
        )
        with pytest.raises(SluiceError, match=r"_leases/events\.clicks\.json is not a lease"):
            decode(b"{}", KEY)


class TestAcquiring:
    def test_the_first_and_the_next(self) -> None:
        lake = MemoryLake()
        with acquire(lake, "a1") as first:
            assert first.generation == 1
            assert (stored(lake).holder, stored(lake).pid) == ("a1", os.getpid())
        clock = FakeClock()
        second = acquire(lake, "a2", clock)
        assert second.generation == 2
        assert clock.now == 0

    def test_tables_do_not_meet(self) -> None:
        lake = MemoryLake()
        acquire(lake, "a1")
        other = Lease.acquire(lake, "events.views", "a2", TERM, timedelta(0))
        assert other.generation == 1

    def test_a_dead_holder_is_outwaited(self) -> None:
        lake, clock = MemoryLake(), FakeClock()
        acquire(lake, "a1")
        assert acquire(lake, "a2", clock).generation == 2
        assert 30 <= clock.now <= 34

    def test_a_living_holder_is_not(self) -> None:
        lake = MemoryLake()
        holder = acquire(lake, "a1", FakeClock())
        renewed = []

        def renew(now: float) -> None:
            if now >= 10 * (len(renewed) + 1):
                holder.renew()
                renewed.append(now)

        clock = FakeClock(then=renew)
        with pytest.raises(Busy, match=r"events\.clicks is being loaded by a1 \(process \d+ on .+\)"):
            acquire(lake, "a2", clock, patience=100)
        assert clock.now == pytest.approx(100)
        assert len(renewed) == 10
        holder.renew()

    def test_a_release_is_seen_while_waiting(self) -> None:
        lake = MemoryLake()
        holder = acquire(lake, "a1")
        clock = FakeClock(then=lambda now: holder.release() if now >= 9 else None)
        assert acquire(lake, "a2", clock).generation == 2
        assert clock.now <= 12

    def test_no_patience(self) -> None:
        lake, clock = MemoryLake(), FakeClock()
        acquire(lake, "a1")
        with pytest.raises(Busy):
            acquire(lake, "a2", clock, patience=0)
        assert clock.now == 0

    def test_the_term_that_counts_is_the_holders(self) -> None:
        lake, clock = MemoryLake(), FakeClock()
        Lease.acquire(lake, TABLE, "a1", timedelta(seconds=80), timedelta(0))
        acquire(lake, "a2", clock)
        assert 80 <= clock.now <= 84

    def test_generations_known_elsewhere(self) -> None:
        assert acquire(MemoryLake(), "a1", above=41).generation == 42

    def test_an_outage(self) -> None:
        with pytest.raises(LakeUnavailable):
            acquire(MemoryLake(outages=1), "a1")

    def test_not_a_lease(self) -> None:
        lake = MemoryLake()
        lake.put(KEY, b"<html>")
        with pytest.raises(SluiceError, match=r"memory://demo/_leases/events\.clicks\.json is not a lease"):
            acquire(lake, "a1")


class TestHolding:
    def test_renewals(self) -> None:
        lake = MemoryLake()
        lease = acquire(lake, "a1")
        for serial in range(1, 4):
            lease.renew()
            assert stored(lake).serial == serial
        assert stored(lake).generation == lease.generation == 1

    def test_one_that_wakes_up_late_is_fenced(self) -> None:
        lake = MemoryLake()
        sleeper = acquire(lake, "a1")
        successor = acquire(lake, "a2")
        with pytest.raises(Fenced, match=r"the lease of table events\.clicks is lost"):
            sleeper.renew()
        with pytest.raises(Fenced):
            sleeper.check()
        sleeper.release()
        successor.renew()
        assert (stored(lake).holder, stored(lake).released) == ("a2", False)

    def test_one_that_wakes_up_in_time_is_not(self) -> None:
        lake, clock = MemoryLake(), FakeClock()
        sleeper = acquire(lake, "a1", clock)
        clock.now += 1000
        sleeper.renew()

    def test_a_removed_lease_is_lost(self) -> None:
        lake = MemoryLake()
        lease = acquire(lake, "a1")
        lake.delete([KEY])
        with pytest.raises(Fenced):
            lease.renew()
        lease.release()
        assert lake.read(KEY) is None

    def test_release_keeps_the_generation_and_ends_it(self) -> None:
        lake = MemoryLake()
        lease = acquire(lake, "a1", above=6)
        lease.release()
        lease.release()
        assert (stored(lake).generation, stored(lake).released, stored(lake).serial) == (7, True, 1)
        assert acquire(lake, "a2").generation == 8

    def test_a_released_lease_is_not_renewed(self) -> None:
        lake = MemoryLake()
        lease = acquire(lake, "a1")
        lease.release()
        with pytest.raises(Fenced, match="given back"):
            lease.renew()
        assert stored(lake).released

    def test_lost_answers(self) -> None:
        lake, clock = MemoryLake(), FakeClock()
        lease = acquire(lake, "a1", clock)
        lake.lost_answers = 2
        lease.renew()
        lease.renew()
        assert stored(lake).generation == 1
        assert clock.now == pytest.approx(6)
        lake.lost_answers = 1
        with pytest.raises(LakeUnavailable):
            lease.release()
        assert acquire(lake, "a2").generation == 2

    def test_a_short_outage_is_survived(self) -> None:
        lake, clock = MemoryLake(), FakeClock()
        lease = acquire(lake, "a1", clock)
        lake.outages = 5
        lease.renew()
        assert clock.now == pytest.approx(15)

    def test_an_outage_of_a_term_fences(self) -> None:
        lake, clock = MemoryLake(), FakeClock()
        lease = acquire(lake, "a1", clock)
        lake.outages = 1000
        with pytest.raises(Fenced, match="unavailable for a whole term"):
            lease.renew()
        assert clock.now == pytest.approx(30)
        lake.outages = 0
        with pytest.raises(Fenced):
            lease.renew()

    def test_an_error_inside_is_not_hidden_by_the_release(self) -> None:
        lake = MemoryLake()
        with pytest.raises(ZeroDivisionError), acquire(lake, "a1"):
            fail_after(lambda: setattr(lake, "outages", 1))


class InterruptedLake(MemoryLake):
    """Somebody else comes in between one's look and one's write."""

    meanwhile: Callable[[], object] | None = None

    def replace(self, key: str, data: bytes, version: str) -> bool:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        return super().replace(key, data, version)


class TestInterrupted:
    def test_a_renewal_by_a_take_over(self) -> None:
        lake = InterruptedLake()
        lease = acquire(lake, "a1")
        lake.meanwhile = lambda: acquire(lake, "a2")
        with pytest.raises(Fenced):
            lease.renew()
        assert (stored(lake).holder, stored(lake).generation) == ("a2", 2)

    def test_a_release_by_a_take_over(self) -> None:
        lake = InterruptedLake()
        lease = acquire(lake, "a1")
        lake.meanwhile = lambda: acquire(lake, "a2")
        lease.release()
        assert (stored(lake).holder, stored(lake).released) == ("a2", False)

    def test_a_take_over_by_a_renewal(self) -> None:
        lake = InterruptedLake()
        lease = acquire(lake, "a1")
        lake.meanwhile = lease.renew
        with pytest.raises(Busy):
            acquire(lake, "a2", patience=35)
        lease.renew()
        assert stored(lake).holder == "a1"

    def test_a_take_over_by_another(self) -> None:
        lake, clock = InterruptedLake(), FakeClock()
        acquire(lake, "a1")
        lake.meanwhile = lambda: acquire(lake, "a3")
        assert acquire(lake, "a2", clock).generation == 3
        assert clock.now >= 60

    def test_the_first_look_by_another(self) -> None:
        lake = MemoryLake()
        create = lake.create

        def slow_create(key: str, data: bytes) -> bool:
            lake.create = create
            acquire(lake, "a2")
            return create(key, data)

        lake.create = slow_create
        assert acquire(lake, "a1").generation == 2


class FailingLake(MemoryLake):
    """Of the next writes each one is done and its answer lost, or fails before it is done."""

    arrives: tuple[bool, ...] = ()

    def replace(self, key: str, data: bytes, version: str) -> bool:
        if self.arrives:
            arrives, *rest = self.arrives
            self.arrives = tuple(rest)
            self.lost_answers, self.outages = int(arrives), int(not arrives)
        return super().replace(key, data, version)


FAILURES = [tuple(writes) for count in (1, 2, 3) for writes in product([True, False], repeat=count)]


class TestFailedWrites:
    @pytest.mark.parametrize("arrives", FAILURES)
    def test_a_lease_that_nobody_took_is_kept(self, arrives: tuple[bool, ...]) -> None:
        lake = FailingLake()
        lease = acquire(lake, "a1")
        lake.arrives = arrives
        lease.renew()
        assert lake.arrives == ()
        assert (stored(lake).holder, stored(lake).serial) == ("a1", 1 + sum(arrives))
        lease.renew()
        lease.release()
        assert stored(lake).released

    @pytest.mark.parametrize("arrives", FAILURES)
    def test_one_that_another_took_between_is_lost(self, arrives: tuple[bool, ...]) -> None:
        lake = FailingLake()
        clock = FakeClock(then=lambda _: lake.arrives or acquire(lake, "a2"))
        lease = acquire(lake, "a1", clock)
        lake.arrives = arrives
        with pytest.raises(Fenced, match="another attempt has taken it over"):
            lease.renew()
        lease.release()
        assert (stored(lake).holder, stored(lake).generation, stored(lake).serial) == ("a2", 2, 0)


def fail_after(act: Callable[[], object]) -> None:
    act()
    raise ZeroDivisionError


def noticed(lease: Lease) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            lease.check()
        except Fenced:
            return True
        Event().wait(0.01)
    return False


def real(lake, holder: str, term: float = 0.3, patience: float = 30) -> Lease:
    return Lease.acquire(lake, TABLE, holder, timedelta(seconds=term), timedelta(seconds=patience))


class TestKeeping:
    def test_the_lease_lives_during_a_long_statement(self) -> None:
        lake = MemoryLake()
        with real(lake, "a1") as lease, lease.keep():
            with pytest.raises(Busy):
                real(lake, "a2", patience=1.0)
            lease.renew()
        assert stored(lake).released
        assert stored(lake).serial >= 8

    def test_a_loss_is_remembered(self) -> None:
        lake = MemoryLake()
        lease = real(lake, "a1", term=0.1)
        lake.put(KEY, encode(state(holder="a2")))
        with pytest.raises(Fenced), lease.keep():
            assert noticed(lease)
        with pytest.raises(Fenced):
            lease.renew()
        assert stored(lake).holder == "a2"

    def test_an_error_inside_comes_first(self) -> None:
        lake = MemoryLake()
        lease = real(lake, "a1", term=0.1)
        with pytest.raises(ZeroDivisionError), lease.keep():
            fail_after(lambda: lake.delete([KEY]))


def work_alone(pickled: bytes, inside: Path, attempt: int, done) -> None:
    """Says so when two are inside at once; each one's folder must be made and removed alone."""
    with real(pickle.loads(pickled), f"attempt-{attempt}", term=5, patience=60) as lease:
        inside.mkdir()
        lease.renew()
        inside.rmdir()
        done.put(lease.generation)


def hold(pickled: bytes, attempt: str, keep: bool, held) -> None:
    lease = real(pickle.loads(pickled), attempt, term=1)
    if keep:
        with lease.keep():
            held.set()
            signal.pause()
    held.set()
    signal.pause()


def renew_when_told(pickled: bytes, held, told, outcome) -> None:
    lease = real(pickle.loads(pickled), "sleeper", term=0.5)
    held.set()
    told.wait()
    try:
        lease.renew()
        outcome.put("renewed")
    except Fenced:
        outcome.put("fenced")


class TestProcesses:
    @pytest.fixture
    def lake(self, tmp_path: Path) -> FolderLake:
        return FolderLake(tmp_path / "demo")

    def test_never_two_at_once(self, lake: FolderLake, tmp_path: Path) -> None:
        done = FORK.Queue()
        arguments = [(pickle.dumps(lake), tmp_path / "inside", n, done) for n in range(16)]
        racers = [FORK.Process(target=work_alone, args=a) for a in arguments]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(60)
        assert [racer.exitcode for racer in racers] == [0] * 16
        assert sorted(done.get(timeout=10) for _ in racers) == list(range(1, 17))

    @pytest.mark.parametrize("keep", per_commit([True, False]))
    def test_a_killed_holder_is_followed_after_its_term(self, lake: FolderLake, keep: bool) -> None:
        held = FORK.Event()
        holder = FORK.Process(target=hold, args=(pickle.dumps(lake), "victim", keep, held))
        holder.start()
        assert held.wait(10)
        if keep:
            with pytest.raises(Busy, match="victim"):
                real(lake, "impatient", patience=2)
        os.kill(holder.pid, signal.SIGKILL)
        holder.join()
        started = time.monotonic()
        assert real(lake, "successor", term=1).generation == 2
        assert 1 <= time.monotonic() - started < 10

    def test_a_stopped_holder_that_wakes_up_is_fenced(self, lake: FolderLake) -> None:
        held, told, outcome = FORK.Event(), FORK.Event(), FORK.Queue()
        sleeper = FORK.Process(target=renew_when_told, args=(pickle.dumps(lake), held, told, outcome))
        sleeper.start()
        assert held.wait(10)
        os.kill(sleeper.pid, signal.SIGSTOP)
        successor = real(lake, "successor")
        assert successor.generation == 2
        os.kill(sleeper.pid, signal.SIGCONT)
        told.set()
        assert outcome.get(timeout=10) == "fenced"
        sleeper.join(10)
        successor.renew()
