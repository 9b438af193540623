"""How old records were when their table's hour was first committed and verified.

`_summary/fresh-2026-11.json` keeps for each unit when its records were stamped, in parts of the slice, and
when it was first verified in each table. It is a copy for people, never evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from sluice.clients.lake.base import Lake
from sluice.slices import Slice
from sluice.state.notes import MonthlyNotes
from sluice.state.status import UnitStatus
from sluice.stored_json import Second, Whole


class FreshUnit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`times` are the manifest's; `verified` by table, in seconds since the epoch."""

    times: tuple[Whole, ...]
    verified: dict[str, Second]


FreshMonth = dict[str, dict[str, FreshUnit]]
"""By slice id and cluster."""
FRESH = MonthlyNotes[dict[str, FreshUnit]](
    "_summary/fresh-", FreshMonth, "holds no times", "delete it, later hours write it again"
)


@dataclass(frozen=True, order=True)
class Delay:
    """So many records that were so old, in seconds, when they were verified in a table."""

    seconds: float
    records: int


@dataclass(frozen=True)
class FreshTable:
    """One unit in one table: when it was verified, and its records by age."""

    slice: Slice
    table: str
    verified: int
    delays: tuple[Delay, ...]


def delays_of(slice_: Slice, times: Sequence[int], verified: int) -> tuple[Delay, ...]:
    """Returns the records of each part of the slice, taken for stamped in its middle."""
    start, part = slice_.start.timestamp(), slice_.length.total_seconds() / max(len(times), 1)
    return tuple(Delay(verified - start - (n + 0.5) * part, count) for n, count in enumerate(times) if count)


def quantile(delays: Iterable[Delay], share: float) -> float | None:
    """Returns the age that `share` of the records had at most; None without records."""
    ordered = sorted(delays)
    threshold, counted = share * sum(delay.records for delay in ordered), 0
    for delay in ordered:
        counted += delay.records
        if counted >= threshold:
            return delay.seconds
    return None


def tables_of(slices: Iterable[Slice], months: FreshMonth) -> Iterator[FreshTable]:
    for slice_ in slices:
        for unit in months.get(slice_.id, {}).values():
            for table, at in unit.verified.items():
                yield FreshTable(slice_, table, at, delays_of(slice_, unit.times, at))


def fresh_of(
    statuses: Iterable[UnitStatus], broken: Collection[tuple[str, str, str]], since: datetime, now: datetime
) -> FreshMonth:
    """Returns the units that ended after `since`, with the tables in which they are committed and in order.

    `broken` names (slice, cluster, table) of what is not; an empty cluster or table stands for all.
    """
    at, units = int(now.timestamp()), FreshMonth()
    for status in statuses:
        manifest, unit = status.manifest, status.unit
        if manifest is None or not manifest.times or unit.slice.end <= since:
            continue
        tables = {
            table: at
            for table, row in status.tables.items()
            if row.manifest == manifest.id and not row.lacking and not _is_broken(broken, status, table)
        }
        if tables:
            units.setdefault(unit.slice.id, {})[unit.cluster] = FreshUnit(manifest.times, tables)
    return units


def _is_broken(broken: Collection[tuple[str, str, str]], status: UnitStatus, table: str) -> bool:
    name, cluster = status.unit.slice.id, status.unit.cluster
    return any((name, c, t) in broken for c in (cluster, "") for t in (table, ""))


def first_ones(old: FreshMonth, new: FreshMonth) -> FreshMonth:
    """Returns the units of `new` with those of their tables that `old` does not have yet."""
    left: FreshMonth = {}
    for name, units in new.items():
        for cluster, unit in units.items():
            earlier = old.get(name, {}).get(cluster)
            tables = {
                t: at for t, at in unit.verified.items() if earlier is None or t not in earlier.verified
            }
            if tables:
                left.setdefault(name, {})[cluster] = FreshUnit(unit.times, tables)
    return left


def merged(old: FreshMonth, new: FreshMonth) -> FreshMonth:
    """Returns `old` with `new` added; a table keeps the first time that it was verified."""
    month = {name: dict(units) for name, units in old.items()}
    for name, units in first_ones(old, new).items():
        by_cluster = month.setdefault(name, {})
        for cluster, unit in units.items():
            earlier = by_cluster.get(cluster)
            by_cluster[cluster] = FreshUnit(
                earlier.times if earlier else unit.times,
                {**(earlier.verified if earlier else {}), **unit.verified},
            )
    return month


def note_fresh(lake: Lake, new: FreshMonth) -> FreshMonth:
    """Stores what is verified for the first time, and returns it. Raises LakeUnavailable."""
    return first_ones(FRESH.add(lake, new, merged), new)
