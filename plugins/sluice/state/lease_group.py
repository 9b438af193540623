"""The leases of several tables, held at once: those that a run left behind are waited for together."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.state.lease import Lease
from sluice.state.lease_record import LeaseWatch, observe


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
