"""Many small things at once: in order, alone as long as they are quick, and the first failure is told."""

from __future__ import annotations

import threading
from time import perf_counter

import pytest

from sluice.side_by_side import each, each_if_slow


@pytest.mark.parametrize("do_each", [each, each_if_slow])
@pytest.mark.parametrize("count", [0, 1, 3, 16, 1000])
def test_results_come_in_the_order_of_the_things(do_each, count):
    assert do_each(lambda number: number * 2, range(count)) == list(range(0, 2 * count, 2))


def test_after_a_slow_one_the_rest_is_handed_out():
    def name_of_thread(number: int) -> str:
        until = perf_counter() + (0.01 if number == 2 else 0)
        while perf_counter() < until:
            pass
        return threading.current_thread().name

    names = each_if_slow(name_of_thread, range(6))
    own = threading.current_thread().name
    assert names[2] == own and own not in names[3:]


def test_two_slow_ones_wait_for_each_other():
    """Both are under way at once, else the barrier breaks."""
    barrier = threading.Barrier(2, timeout=30)
    began = perf_counter()

    def slow(number: int) -> int:
        while not number and perf_counter() < began + 0.01:
            pass
        return barrier.wait() if number else -1

    assert sorted(each_if_slow(slow, range(3))) == [-1, 0, 1]


@pytest.mark.parametrize("do_each", [each, each_if_slow])
def test_the_first_failure_is_raised(do_each):
    with pytest.raises(ZeroDivisionError):
        do_each(lambda number: 1 // number, [3, 2, 0, 1])
