"""Many small things at once: in order, alone as long as they are quick, and the first failure is told."""

from __future__ import annotations

import threading

import pytest

from sluice import concurrency
from sluice.concurrency import Lanes, each, each_if_slow


@pytest.mark.parametrize("do_each", [each, each_if_slow])
@pytest.mark.parametrize("count", [0, 1, 3, 16, 1000])
def test_results_come_in_the_order_of_the_things(do_each, count):
    assert do_each(lambda number: number * 2, range(count)) == list(range(0, 2 * count, 2))


class Clock:
    """A thing's time: with the processor (`computes`), or without it (`waits`)."""

    def __init__(self) -> None:
        self.seconds = self.busy = 0.0

    def waits(self, seconds: float) -> None:
        self.seconds += seconds

    def computes(self, seconds: float) -> None:
        self.seconds += seconds
        self.busy += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(concurrency, "perf_counter", lambda: found.seconds)
    monkeypatch.setattr(concurrency, "thread_time", lambda: found.busy)
    return found


def name_of_thread() -> str:
    return threading.current_thread().name


def test_after_two_that_waited_the_rest_is_handed_out(clock: Clock):
    def name(number: int) -> str:
        if number in (0, 2, 3):
            clock.waits(0.001)
        return name_of_thread()

    names = each_if_slow(name, range(8))
    own = name_of_thread()
    assert names[:4] == [own] * 4 and own not in names[4:]


@pytest.mark.parametrize(("busy", "idle"), [(1.0, 0.0), (1.0, 0.9), (0.0, 0.0004)])
def test_what_computes_stays_in_one_thread(clock: Clock, busy: float, idle: float):
    """It may be stopped meanwhile, for another process's turn."""

    def name(_: int) -> str:
        clock.computes(busy)
        clock.waits(idle)
        return name_of_thread()

    assert each_if_slow(name, range(8)) == [name_of_thread()] * 8


def test_two_that_wait_do_so_at_once(clock: Clock):
    """Both are under way, else the barrier breaks."""
    barrier = threading.Barrier(2, timeout=30)

    def slow(number: int) -> int:
        if number > 1:
            return barrier.wait()
        clock.waits(0.001)
        return -1

    assert sorted(each_if_slow(slow, range(4))) == [-1, -1, 0, 1]


def test_lanes_begin_with_the_third_of_those_that_wait(clock: Clock):
    def slow() -> str:
        clock.waits(0.001)
        return name_of_thread()

    lanes, own = Lanes(2), name_of_thread()
    names = [lanes.submit(slow).result() for _ in range(4)]
    lanes.close()
    assert names[:2] == [own] * 2 and own not in names[2:]


def test_lanes_tell_a_failure_where_the_result_is_asked_for():
    lanes = Lanes(2)
    failed = lanes.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed.result()
    lanes.close()


@pytest.mark.parametrize("do_each", [each, each_if_slow])
def test_the_first_failure_is_raised(do_each):
    with pytest.raises(ZeroDivisionError):
        do_each(lambda number: 1 // number, [3, 2, 0, 1])
