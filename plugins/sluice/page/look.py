"""Looks at a short range exactly, as `sluice.survey` does, and remembers what cannot have changed.

Boundary entries are never changed, and a manifest that the lake lists with the same time and size is the
same. So a look costs one listing per day, one look for a new boundary entry, and one query per table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

import pendulum

from sluice.boundaries.log import BoundaryLog
from sluice.boundaries.model import Boundaries
from sluice.clickhouse.client import Client
from sluice.clickhouse.connect import open_client
from sluice.connections import Connection, find
from sluice.lake import layout
from sluice.lake.base import Item, Lake
from sluice.lake.open import open_lake
from sluice.load.ledger import LedgerRow, committed
from sluice.manifest import Manifest
from sluice.manifests import read_manifest
from sluice.pipeline import Pipeline
from sluice.slices import SliceRange, Unit
from sluice.status import UnitStatus, statuses, units_of

_SIDE_BY_SIDE = 16
# Manifests list their files: of a wide hour they are large, and a week of ten pipelines has 1,680.
_REMEMBERED = 4000

Stamp = tuple[datetime, int]


@dataclass(frozen=True)
class Sight:
    """What a look has found: `statuses` slice by slice, and the boundaries it went by."""

    statuses: list[UnitStatus]
    boundaries: Boundaries


@dataclass
class Eyes:
    """One pipeline's memory. Threads may look side by side; at worst both read the same."""

    pipeline: Pipeline
    boundaries: Boundaries | None = None
    manifests: dict[Unit, tuple[Stamp, Manifest]] = field(default_factory=dict)

    def look(self, slices: SliceRange, client: Client, now: datetime) -> Sight:
        lake, units = open_lake(self.pipeline), units_of(self.pipeline, slices)
        self.boundaries = boundaries = BoundaryLog(lake).read(self.boundaries)
        manifests = self._manifests(lake, slices, units)
        ledgers = ledgers_of(self.pipeline, lake, client, slices)
        return Sight(statuses(self.pipeline, units, boundaries, manifests, ledgers, now), boundaries)

    def _manifests(self, lake: Lake, slices: SliceRange, units: list[Unit]) -> dict[Unit, Manifest]:
        stamps = dict(_stamps(lake, slices))
        keys = {unit: layout.manifest(unit.slice.id, unit.cluster) for unit in units}
        there = {unit: stamps[key] for unit, key in keys.items() if key in stamps}
        known = {unit: self.manifests.get(unit) for unit in there}
        fresh = [unit for unit, stamp in there.items() if (known[unit] or (None,))[0] != stamp]
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            for unit, manifest in zip(fresh, pool.map(lambda u: read_manifest(lake, u), fresh), strict=True):
                if manifest is not None:
                    known[unit] = self.manifests[unit] = (there[unit], manifest)
        while len(self.manifests) > _REMEMBERED:
            self.manifests.pop(next(iter(self.manifests)), None)
        return {unit: found[1] for unit, found in known.items() if found is not None}


def ledgers_of(
    pipeline: Pipeline, lake: Lake, client: Client, slices: SliceRange
) -> dict[str, Mapping[Unit, LedgerRow]]:
    """What is committed of the range, by table."""
    return {
        target.table: committed(client, pipeline, lake.url, target, slices) for target in pipeline.targets
    }


def _stamps(lake: Lake, slices: SliceRange) -> Iterator[tuple[str, Stamp]]:
    """(key, (modified, size)) of what lies in the range's `_slices/` folders, a listing per day."""
    days = _days(slices)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        for items in pool.map(lambda day: list(lake.list(f"{layout.SLICES}{day}T")), days):
            yield from _manifest_stamps(items)


def _manifest_stamps(items: Iterable[Item]) -> Iterator[tuple[str, Stamp]]:
    return ((i.key, (i.modified, i.size)) for i in items if i.key.endswith("/manifest.json"))


def _days(slices: SliceRange) -> list[str]:
    first, found = slices.start.start_of("day"), []
    while first < slices.end:
        found.append(f"{first:%Y-%m-%d}")
        first = first.add(days=1)
    return found


class Memory:
    """Everything that this process remembers, by pipeline; a changed pipeline file begins anew.

    It keeps one client for each ClickHouse connection, as long as the connection is the same: making one
    costs more than a look.
    """

    def __init__(self) -> None:
        self._eyes: dict[str, Eyes] = {}
        self._clients: dict[str, tuple[Connection, Client]] = {}
        self._lock = threading.Lock()

    def of(self, pipeline: Pipeline) -> Eyes:
        with self._lock:
            found = self._eyes.get(pipeline.name)
            if found is None or found.pipeline != pipeline:
                found = self._eyes[pipeline.name] = Eyes(pipeline)
            return found

    def look(self, pipeline: Pipeline, slices: SliceRange) -> Sight:
        """As `sluice.survey.survey`. Raises what the lake and ClickHouse raise."""
        return self.of(pipeline).look(slices, self._client(pipeline), pendulum.now("UTC"))

    def _client(self, pipeline: Pipeline) -> Client:
        name = pipeline.clickhouse.connection
        connection = find(name)
        known = self._clients.get(name)
        if known is None or known[0] != connection:
            known = self._clients[name] = (connection, open_client(connection))
        return known[1]
