"""Reads and writes the summaries and the verdict in the lake. A write is a merge by compare-and-set, so
steps that run side by side lose nothing of each other's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from sluice.lake.base import Lake
from sluice.side_by_side import each_if_slow
from sluice.slices import SliceRange
from sluice.status import UnitStatus
from sluice.summary import anomalies, months
from sluice.summary.anomalies import Covered, OpenAnomaly, Verdict
from sluice.summary.months import Month, StoredMonth, Summaries
from sluice.verification.anomaly import Anomaly

Seen = dict[str, StoredMonth]
"""Months that were read before, by name."""

_SEEN = 3


def read_summaries(lake: Lake, slices: SliceRange, seen: Seen | None = None) -> Summaries:
    """The summaries of every month that the range touches; a month nobody has summarised is empty.

    `seen`, of one lake, saves decoding a month again that has not changed; it keeps the last few, since a
    year's would take its room in a server's memory for good.
    """
    return Summaries(each_if_slow(lambda month: _read(lake, month, seen), months.months_of(slices)))


def read_verdict(lake: Lake) -> Verdict:
    stored = lake.read(anomalies.KEY)
    return Verdict() if stored is None else anomalies.decode(stored.data, f"{lake.url}/{anomalies.KEY}")


def note(lake: Lake, found: Iterable[UnitStatus]) -> None:
    """Keeps what a step has just seen of these units."""
    _merge(lake, found, None)


def note_verified(
    lake: Lake,
    slices: SliceRange,
    found: Sequence[UnitStatus],
    broken: Sequence[Anomaly],
    now: datetime,
    covered: Covered | None = None,
) -> None:
    """Keeps what verify has found in `slices`: `broken` are its anomalies, and all other units hold, but for
    open anomalies of kinds that were not looked at (`covered`)."""
    records = sum(status.manifest.read for status in found if status.manifest)
    look = anomalies.look_at(slices, len(found), records, len(broken), now)
    opened = [anomalies.opened(one, look) for one in broken]
    open_now: list[OpenAnomaly] = []

    def change(data: bytes | None) -> bytes:
        old = Verdict() if data is None else anomalies.decode(data, f"{lake.url}/{anomalies.KEY}")
        verdict = anomalies.after(old, look, opened, covered)
        open_now[:] = anomalies.within(verdict, slices).anomalies
        return anomalies.encode(verdict)

    _update(lake, anomalies.KEY, change)
    _merge(lake, found, _broken_units(found, [*opened, *open_now]))


def _broken_units(found: Iterable[UnitStatus], opened: Iterable[OpenAnomaly]) -> frozenset[tuple[str, str]]:
    """An anomaly that names no cluster is about all of them."""
    named = {(name, one.cluster) for one in opened for name in one.slices}
    units = {(status.unit.slice.id, status.unit.cluster) for status in found}
    return frozenset((name, c) for name, c in units if {(name, c), (name, "")} & named)


def _merge(lake: Lake, found: Iterable[UnitStatus], broken: months.Broken | None) -> None:
    for name, new in months.by_month(found, broken).items():
        place = f"{lake.url}/{months.key_of(name)}"

        def change(data: bytes | None, new: Month = new, place: str = place) -> bytes:
            old = {} if data is None else months.decode(data, place)
            return months.encode(months.merged(old, new, looked=broken is not None))

        _update(lake, months.key_of(name), change)


def _update(lake: Lake, key: str, change: Callable[[bytes | None], bytes]) -> None:
    while True:
        stored = lake.read(key)
        data = change(None if stored is None else stored.data)
        if stored is None:
            if lake.create(key, data):
                return
        elif data == stored.data or lake.replace(key, data, stored.version):
            return


def _read(lake: Lake, name: str, seen: Seen | None) -> StoredMonth:
    key = months.key_of(name)
    stored = lake.read(key)
    if stored is None:
        return StoredMonth(name, "", b"{}", f"{lake.url}/{key}")
    known = (seen or {}).get(name)
    if known is not None and known.version == stored.version:
        return known
    month = StoredMonth(name, stored.version, stored.data, f"{lake.url}/{key}")
    if seen is not None:
        seen[name] = month
        for old in sorted(seen)[:-_SEEN]:
            seen.pop(old, None)
    return month
