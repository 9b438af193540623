"""Does many small things at once: the lake's round trips side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from time import perf_counter
from typing import TypeVar

_SIDE_BY_SIDE = 16
_MOST_TOGETHER = 64
# About what a pool of threads costs.
_QUICK_SECONDS = 0.001
_In = TypeVar("_In")
_Out = TypeVar("_Out")


def each(do: Callable[[_In], _Out], things: Iterable[_In]) -> list[_Out]:
    """What `do` gives for each of the things, in their order. Raises what the first failure raised.

    They are handed out by the dozen where there are many: in a folder one costs less than a hand-over.
    """
    given = list(things)
    size = min(max(len(given) // (4 * _SIDE_BY_SIDE), 1), _MOST_TOGETHER)
    parts = [given[start : start + size] for start in range(0, len(given), size)]

    def all_of(part: Sequence[_In]) -> list[_Out]:
        return [do(thing) for thing in part]

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return list(chain.from_iterable(pool.map(all_of, parts)))


def each_if_slow(do: Callable[[_In], _Out], things: Iterable[_In]) -> list[_Out]:
    """As `each`, for what may be quicker than the threads' own cost, as a read from a folder is: they get
    what is left once one thing has been slow."""
    given, done = list(things), []
    while len(done) < len(given):
        began = perf_counter()
        done.append(do(given[len(done)]))
        if perf_counter() - began > _QUICK_SECONDS:
            return done + each(do, given[len(done) :])
    return done
