"""Reads and writes the summaries and the verdict in the lake. A write is a merge by compare-and-set, so
steps that run side by side lose nothing of each other's."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.slices import SliceRange
from sluice.state import months
from sluice.state.months import Month, StoredMonth, Summaries
from sluice.state.status import UnitStatus
from sluice.state.update_object import update_object

CachedMonths = dict[str, StoredMonth]
"""Months that were read before, by name."""

_SEEN = 3


def read_summaries(lake: Lake, slices: SliceRange, seen: CachedMonths | None = None) -> Summaries:
    """Returns the summaries of every month that the range touches; a month without summaries is empty.

    `seen`, of one lake, saves decoding a month again that has not changed; it keeps the last few, since a
    year's would take its room in a server's memory for good.
    """
    return Summaries(each_if_slow(lambda month: _read(lake, month, seen), months.months_of(slices)))


def note(lake: Lake, statuses: Iterable[UnitStatus]) -> None:
    """Stores the summaries of units that a step has just read."""
    merge_months(lake, statuses, None)


def merge_months(lake: Lake, statuses: Iterable[UnitStatus], broken: months.Broken | None) -> None:
    """Merges the summaries of these units into their months; `broken` are units that an anomaly names."""
    for name, new in months.by_month(statuses, broken).items():
        place = f"{lake.url}/{months.key_of(name)}"

        def change(data: bytes | None, new: Month = new, place: str = place) -> bytes:
            old = {} if data is None else months.decode(data, place)
            return months.encode(months.merged(old, new, verified=broken is not None))

        update_object(lake, months.key_of(name), change)


def _read(lake: Lake, name: str, seen: CachedMonths | None) -> StoredMonth:
    key = months.key_of(name)
    stored = lake.read(key)
    if stored is None:
        return StoredMonth(name, "", b"{}", f"{lake.url}/{key}")
    cached = (seen or {}).get(name)
    if cached is not None and cached.version == stored.version:
        return cached
    month = StoredMonth(name, stored.version, stored.data, f"{lake.url}/{key}")
    if seen is not None:
        seen[name] = month
        for old in sorted(seen)[:-_SEEN]:
            seen.pop(old, None)
    return month
