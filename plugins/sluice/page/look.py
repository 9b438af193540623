"""Looks at a short range exactly, as `sluice.survey` does, and remembers what cannot have changed.

Boundary entries are never changed, and a manifest that the lake lists with the same time and size is the
same. So a look costs a listing or two, one look for a new boundary entry, and one query; a unit of which all
three say what they said before has the status that it had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pendulum

from sluice.boundaries.log import BoundaryLog
from sluice.boundaries.model import Boundaries
from sluice.clickhouse.client import Client
from sluice.clickhouse.connect import open_client
from sluice.clickhouse.settings import Shard
from sluice.clickhouse.shards import Server, Servers
from sluice.clusters import spans, units_of
from sluice.connections import Connection, find
from sluice.errors import OutOfReach
from sluice.lake import layout
from sluice.lake.base import Lake
from sluice.lake.open import open_lake
from sluice.load.ledger import LedgerRow
from sluice.load.shares import ledgers_of
from sluice.manifest import Manifest
from sluice.manifests import read_manifests
from sluice.pipeline import Pipeline
from sluice.side_by_side import each_if_slow
from sluice.slices import HOUR, SliceRange, Unit
from sluice.state import State
from sluice.status import UnitStatus, statuses
from sluice.summary.months import UnitSummary, summary_of
from sluice.summary.store import Seen

# Manifests list their files: of a wide hour they are large, and a week of ten pipelines has 1,680.
_REMEMBERED = 4000

Stamp = tuple[datetime, int]


@dataclass(frozen=True)
class Sight:
    """What a look has found: `statuses` slice by slice, each one's summary, and the boundaries it went by."""

    statuses: list[UnitStatus]
    summaries: list[UnitSummary]
    boundaries: Boundaries


@dataclass(frozen=True)
class Known:
    """What was said of a unit when the boundary log had so many entries."""

    entries: int
    status: UnitStatus
    summary: UnitSummary

    def holds(self, entries: int, manifest: Manifest | None, rows: Mapping[str, LedgerRow]) -> bool:
        """Whether nothing has changed since. An hour that was not over then may be so now."""
        same = self.status.manifest is manifest and self.status.tables == rows
        return same and self.entries == entries and self.status.state is not State.NOT_OVER


@dataclass
class Eyes:
    """One pipeline's memory. Threads may look side by side; at worst both read the same."""

    pipeline: Pipeline
    boundaries: Boundaries | None = None
    manifests: dict[Unit, tuple[Stamp, Manifest]] = field(default_factory=dict)
    known: dict[Unit, Known] = field(default_factory=dict)
    months: Seen = field(default_factory=dict)

    def look(self, slices: SliceRange, servers: Servers, now: datetime) -> Sight:
        lake = open_lake(self.pipeline)
        self.boundaries = boundaries = BoundaryLog(lake).read(self.boundaries)
        units = units_of(self.pipeline, slices, boundaries)
        manifests = self._manifests(lake, slices, units)
        ledgers = ledgers_of(servers, self.pipeline, lake.url, slices)
        found = self._statuses(units, boundaries, manifests, ledgers, now)
        return Sight([one.status for one in found], [one.summary for one in found], boundaries)

    def begins(self, lake: Lake) -> dict[str, datetime]:
        """Where the clusters that were added later begin; with one cluster nobody looks."""
        if len(self.pipeline.clusters) == 1:
            return {}
        self.boundaries = BoundaryLog(lake).read(self.boundaries)
        found = spans(self.pipeline, self.boundaries).begins
        return {cluster: begin for cluster, begin in found.items() if begin is not None}

    def _statuses(
        self,
        units: list[Unit],
        boundaries: Boundaries,
        manifests: Mapping[Unit, Manifest],
        ledgers: Mapping[str, Mapping[Unit, LedgerRow]],
        now: datetime,
    ) -> list[Known]:
        found: dict[Unit, Known] = {}
        rows = _by_unit(ledgers)
        for unit in units:
            known = self.known.get(unit)
            if known and known.holds(boundaries.entries, manifests.get(unit), rows.get(unit, {})):
                found[unit] = known
        fresh = [unit for unit in units if unit not in found]
        for status in statuses(self.pipeline, fresh, boundaries, manifests, ledgers, now):
            new = Known(boundaries.entries, status, summary_of(status))
            found[status.unit] = self.known[status.unit] = new
        _forget(self.known)
        return [found[unit] for unit in units if unit in found]  # without those of no cluster of the file

    def _manifests(self, lake: Lake, slices: SliceRange, units: list[Unit]) -> dict[Unit, Manifest]:
        stamps = dict(_stamps(lake, slices))
        keys = {unit: layout.manifest(unit.slice.id, unit.cluster) for unit in units}
        there = {unit: stamps[key] for unit, key in keys.items() if key in stamps}
        known = {unit: self.manifests.get(unit) for unit in there}
        fresh = [unit for unit, stamp in there.items() if (known[unit] or (None,))[0] != stamp]
        for unit, manifest in read_manifests(lake, fresh).items():
            known[unit] = self.manifests[unit] = (there[unit], manifest)
        _forget(self.manifests)
        return {unit: found[1] for unit, found in known.items() if found is not None}


def _by_unit(ledgers: Mapping[str, Mapping[Unit, LedgerRow]]) -> dict[Unit, dict[str, LedgerRow]]:
    rows: dict[Unit, dict[str, LedgerRow]] = {}
    for table, ledger in ledgers.items():
        for unit, row in ledger.items():
            rows.setdefault(unit, {})[table] = row
    return rows


def _forget(oldest_first: dict[Unit, Any]) -> None:
    while len(oldest_first) > _REMEMBERED:
        oldest_first.pop(next(iter(oldest_first)), None)


def _stamps(lake: Lake, slices: SliceRange) -> Iterator[tuple[str, Stamp]]:
    """(key, (modified, size)) of each manifest in the range's `_slices/` folders."""
    listed = each_if_slow(lambda start: list(lake.list(layout.SLICES + start)), _starts(slices))
    found = (item for items in listed for item in items)
    return ((i.key, (i.modified, i.size)) for i in found if i.key.endswith("/manifest.json"))


def _starts(slices: SliceRange) -> list[str]:
    """What the ids of the range's slices begin with, for a listing each: ten days of hours are a page of S3's
    and one look at a folder; of shorter slices a day is."""
    first, found = slices.start.start_of("day"), {}
    while first < slices.end:
        day = f"{first:%Y-%m-%d}"
        found[f"{day}T" if slices.length < HOUR else day[:-1]] = None
        first = first.add(days=1)
    return list(found)


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
        return self.of(pipeline).look(slices, self._servers(pipeline), pendulum.now("UTC"))

    def _servers(self, pipeline: Pipeline) -> Servers:
        """Of replicas the first that answers. A shard that is out of reach has its hours waiting."""
        return tuple(self._server(shard) for shard in pipeline.clickhouse.parts)

    def _server(self, shard: Shard) -> Server:
        silent: OutOfReach | None = None
        for connection in shard.connections:
            try:
                return Server(shard, self._client(connection))
            except OutOfReach as error:
                if not shard.name:
                    raise
                silent = silent or error
        return Server(shard, error=silent)

    def _client(self, name: str) -> Client:
        connection = find(name)
        known = self._clients.get(name)
        if known is None or known[0] != connection:
            known = self._clients[name] = (connection, open_client(connection))
        return known[1]
