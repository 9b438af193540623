"""Looks at a short range exactly, as `sluice.survey` does, and remembers what cannot have changed.

Boundary entries are never changed, and a manifest that the lake lists with the same time and size is the
same. So a look costs a listing, one look for a new boundary entry, and one query; a unit of which all
three say what they said before has the status that it had.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pendulum

from sluice.boundaries.log import BoundaryLog
from sluice.boundaries.model import Boundaries
from sluice.clusters import spans, units_of
from sluice.lake import layout
from sluice.lake.base import Lake
from sluice.lake.open import open_lake
from sluice.load.ledger import LedgerRow
from sluice.load.shares import ledgers_of
from sluice.manifest import Manifest
from sluice.manifests import read_manifests
from sluice.page.clients import Clients
from sluice.page.days import Seen as SeenDays
from sluice.page.ledgers import Answer, Ledgers
from sluice.page.sight import Sight
from sluice.pipeline import Pipeline
from sluice.slices import SliceRange, Unit
from sluice.state import State
from sluice.status import UnitStatus, statuses
from sluice.summary.months import UnitSummary, summary_of
from sluice.summary.store import Seen

# Manifests list their files: of a wide hour they are large, and a week of ten pipelines has 1,680.
_REMEMBERED = 4000

Stamp = tuple[datetime, int]


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
    days: SeenDays = field(default_factory=dict)

    def look(self, slices: SliceRange, ledgers: Answer, now: datetime | None = None) -> Sight:
        """`ledgers` are the same slices'. Raises what they and the lake raise."""
        lake = open_lake(self.pipeline)
        self.boundaries = boundaries = BoundaryLog(lake).read(self.boundaries)
        units = units_of(self.pipeline, slices, boundaries)
        manifests = self._manifests(lake, units)
        found = self._statuses(units, boundaries, manifests, ledgers(), now or pendulum.now("UTC"))
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
        ledgers: Ledgers,
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

    def _manifests(self, lake: Lake, units: list[Unit]) -> dict[Unit, Manifest]:
        keys = {layout.manifest(unit.slice.id, unit.cluster): unit for unit in units}
        there = {keys[item.key]: (item.modified, item.size) for item in lake.present(keys)}
        known = {unit: self.manifests.get(unit) for unit in there}
        fresh = [unit for unit, stamp in there.items() if (known[unit] or (None,))[0] != stamp]
        for unit, manifest in read_manifests(lake, fresh).items():
            known[unit] = self.manifests[unit] = (there[unit], manifest)
        _forget(self.manifests)
        return {unit: found[1] for unit, found in known.items() if found is not None}


def _by_unit(ledgers: Ledgers) -> dict[Unit, dict[str, LedgerRow]]:
    rows: dict[Unit, dict[str, LedgerRow]] = {}
    for table, ledger in ledgers.items():
        for unit, row in ledger.items():
            rows.setdefault(unit, {})[table] = row
    return rows


def _forget(oldest_first: dict[Unit, Any]) -> None:
    for unit in list(oldest_first)[:-_REMEMBERED]:
        oldest_first.pop(unit, None)


class Memory:
    """Everything that this process remembers, by pipeline; a changed pipeline file begins anew."""

    def __init__(self) -> None:
        self.clients = Clients()
        self._eyes: dict[str, Eyes] = {}
        self._lock = threading.Lock()

    def of(self, pipeline: Pipeline) -> Eyes:
        with self._lock:
            found = self._eyes.get(pipeline.name)
            if found is None or found.pipeline != pipeline:
                found = self._eyes[pipeline.name] = Eyes(pipeline)
            return found

    def look(self, pipeline: Pipeline, slices: SliceRange) -> Sight:
        """As `sluice.survey.survey`. Raises what the lake and ClickHouse raise."""
        servers, url = self.clients.servers(pipeline), open_lake(pipeline).url
        return self.of(pipeline).look(slices, lambda: ledgers_of(servers, pipeline, url, slices))
