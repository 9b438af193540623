"""Leases of several tables: a dead run's are waited for together, a live one is respected."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.clients.lake import layout
from sluice.errors import Busy
from sluice.state.lease import Lease, decode, hold_all
from tests.support.fakes import FakeClock, MemoryLake

NAMES = ("db.a", "db.b", "db.c", "db.d")
TERM, PATIENCE = timedelta(seconds=30), timedelta(seconds=45)


def left_behind(lake: MemoryLake, *names: str) -> list[Lease]:
    """Leases that nobody renews."""
    return [Lease.acquire(lake, name, "dead", TERM, PATIENCE) for name in names]


def holder(lake: MemoryLake, name: str) -> tuple[str, bool]:
    state = decode(lake.objects[layout.lease(name)][0], name)
    return ("dead" if state.holder == "dead" else "mine"), state.released


def test_those_of_a_dead_run_are_waited_for_together():
    lake, clock = MemoryLake(), FakeClock()
    left_behind(lake, *NAMES)
    begun = clock()
    with hold_all(lake, NAMES, TERM, PATIENCE, clock, clock.sleep) as leases:
        assert 30 <= clock() - begun <= 36
        assert [lease.name for lease in leases] == list(NAMES)
        assert {holder(lake, name) for name in NAMES} == {("mine", False)}
    assert {holder(lake, name) for name in NAMES} == {("mine", True)}


def test_one_that_is_renewed_meanwhile_is_not_taken():
    lake, clock = MemoryLake(), FakeClock()
    *_, alive = left_behind(lake, *NAMES)

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        alive.renew()

    with pytest.raises(Busy, match="db.d"), hold_all(lake, NAMES, TERM, PATIENCE, clock, sleep):
        pytest.fail("it is being loaded")
    assert holder(lake, "db.d") == ("dead", False)
    assert {holder(lake, name) for name in NAMES[:3]} == {("mine", True)}  # given back


def test_free_ones_are_taken_at_once():
    lake, clock = MemoryLake(), FakeClock()
    begun = clock()
    with hold_all(lake, NAMES, TERM, PATIENCE, clock, clock.sleep):
        pass
    with hold_all(lake, NAMES[1:], TERM, PATIENCE, clock, clock.sleep):
        assert clock() == begun
