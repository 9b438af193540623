"""One object per month with a line per unit: enough to show a year of hours without a listing.

`_summary/2026-11.json` is a copy, never evidence: manifests and the ledger decide. The steps write it from
what they have just read, so it is as old as the last step over the hour.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import msgspec

from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.manifest import Manifest
from sluice.slices import SliceRange
from sluice.state.notes import MonthlyNotes, months_of
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.stored_json import Whole

BEGUN = "begun"


class UnitSummary(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One unit as it was when a step last read it; counts are records, `rows` and `rejected_rows` of all
    tables.

    `verified` is the seal under which its equations were last seen to hold, or empty. `forgotten`: which
    files the lake has forgotten and deleted, "lake" for all of them, "rejected" for those of `_rejected/`,
    "begun" where some may be left, or empty. `topics` are those that have landed.
    """

    state: UnitState
    seal: str = ""
    verified: str = ""
    offsets: Whole = 0
    read: Whole = 0
    rejected_records: Whole = 0
    late: Whole = 0
    lost: Whole = 0
    rows: Whole = 0
    rejected_rows: Whole = 0
    files: Whole = 0
    bytes: Whole = 0
    forgotten: str = ""
    topics: tuple[str, ...] = ()


Month = dict[str, dict[str, UnitSummary]]
"""By slice id and cluster."""

SUMMARIES = MonthlyNotes[dict[str, UnitSummary]](
    "_summary/", Month, "is no summary", "delete it, the next verify writes it again"
)


Units = Mapping[str, UnitSummary]
"""One slice's, by cluster."""
_NOBODY: Units = {}


@dataclass
class StoredMonth:
    """A month as the lake had it in some `version` (empty: nobody has summarised it), decoded when somebody
    asks for it."""

    name: str
    version: str
    data: bytes
    place: str

    @cached_property
    def units(self) -> Month:
        """Raises SluiceError naming the place, and what to do."""
        return SUMMARIES.decode(self.data, self.place)


class Summaries:
    """The summaries of some months, by slice id."""

    def __init__(self, months: Iterable[StoredMonth] = ()) -> None:
        self.months = tuple(sorted(months, key=lambda month: month.name))
        self._by_name = {month.name: month for month in self.months}

    def of(self, slice_id: str) -> Units:
        month = self._by_name.get(slice_id[:7])
        return _NOBODY if month is None else month.units.get(slice_id, _NOBODY)

    def all(self) -> Iterator[tuple[str, Units]]:
        """Yields every slice's id and units."""
        for month in self.months:
            yield from month.units.items()

    def of_day(self, slice_ids: list[str]) -> list[Units]:
        """Returns those of slices of one day."""
        month = self._by_name.get(slice_ids[0][:7])
        units_by_slice = {} if month is None else month.units
        return [units_by_slice.get(slice_id, _NOBODY) for slice_id in slice_ids]


Broken = frozenset[tuple[str, str]]
"""Units (slice id, cluster) of which verify has found an equation broken."""


def summary_of(status: UnitStatus, verified: bool = False) -> UnitSummary:
    manifest, seal = status.manifest, seal_of(status)
    if manifest is None:
        return UnitSummary(status.state, offsets=status.offsets)
    files = manifest.held_files
    return UnitSummary(
        state=status.state,
        seal=seal,
        verified=seal if verified and status.state.done else "",
        offsets=status.offsets,
        read=manifest.read,
        rejected_records=manifest.refused,
        late=manifest.late,
        lost=sum(loss.until - loss.start for loss in manifest.lost),
        rows=status.loaded[0],
        rejected_rows=status.loaded[1],
        files=len(files),
        bytes=sum(file.bytes for file in files),
        forgotten=_forgotten(manifest),
        topics=tuple(sorted(manifest.topics)),
    )


def _forgotten(manifest: Manifest) -> str:
    if manifest.forgotten is None:
        return "rejected" if manifest.without_bytes and not manifest.rejected else ""
    if manifest.half_forgotten:
        return BEGUN
    return "lake" if manifest.forgotten.lake else "rejected"


def seal_of(status: UnitStatus) -> str:
    """Stands for what is landed and committed: it changes with every landing and every load of the unit."""
    manifest = status.manifest.id if status.manifest else ""
    commits = (f"{table}={row.generation}" for table, row in sorted(status.tables.items()))
    return hashlib.sha256("\n".join((manifest, *commits)).encode()).hexdigest()[:12]


def merged(old: Month, new: Month, verified: bool) -> Month:
    """Merges `new` over `old`. Unless it was verified just now (`verified`), a unit that still has the seal
    under which it was verified stays verified."""
    month = {name: dict(units) for name, units in old.items()}
    for name, units in new.items():
        by_cluster = month.setdefault(name, {})
        for cluster, unit in units.items():
            by_cluster[cluster] = unit if verified else _kept(by_cluster.get(cluster), unit)
    return month


def _kept(old: UnitSummary | None, new: UnitSummary) -> UnitSummary:
    if old is None or not new.seal or old.verified != new.seal:
        return new
    return msgspec.structs.replace(new, verified=old.verified)


CachedMonths = dict[str, StoredMonth]
"""Months that were read before, by name."""

_SEEN = 3


def read_summaries(lake: Lake, slices: SliceRange, seen: CachedMonths | None = None) -> Summaries:
    """Returns the summaries of every month that the range touches; a month without summaries is empty.

    `seen`, of one lake, saves decoding a month again that has not changed; it keeps the last few, since a
    year's would take its room in a server's memory for good.
    """
    return Summaries(each_if_slow(lambda month: _read(lake, month, seen), months_of(slices)))


def note(lake: Lake, statuses: Iterable[UnitStatus]) -> None:
    """Stores the summaries of units that a step has just read."""
    merge_months(lake, statuses, None)


def merge_months(lake: Lake, statuses: Iterable[UnitStatus], broken: Broken | None) -> None:
    """Merges the summaries of these units into their months; `broken` are units that an anomaly names, None
    where they were not verified."""
    new: Month = {}
    for status in statuses:
        unit = status.unit
        sound = broken is not None and (unit.slice.id, unit.cluster) not in broken
        new.setdefault(unit.slice.id, {})[unit.cluster] = summary_of(status, sound)
    SUMMARIES.add(lake, new, partial(merged, verified=broken is not None))


def _read(lake: Lake, name: str, seen: CachedMonths | None) -> StoredMonth:
    key = SUMMARIES.key(name)
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
