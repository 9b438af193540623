"""Reads a short range exactly, as `sluice.state.survey` does, and caches what cannot have changed.

Boundary entries are never changed, and a manifest that the lake lists with the same time and size is the
same. So a snapshot costs a listing, one read for a new boundary entry, and one query; a unit of which all
three are unchanged has its cached status. A manifest lists its files, and of a wide hour it has megabytes:
a status is cached without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from operator import itemgetter
from threading import Condition
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import cachetools
import pendulum
from cachetools import LRUCache, TLRUCache

from sluice.clients.clickhouse.client import Client, Silence
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.shards import Server, Servers
from sluice.clients.connections import Connection, find
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import brief_lake, open_lake
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, Unavailable
from sluice.flow.verify.facts import lacking_landed, targets_of
from sluice.manifest import Manifest
from sluice.page.history import CachedDays
from sluice.page.odd import UsualRows
from sluice.page.overview import OverviewSnapshot
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import gone
from sluice.state.ledger import Ledger, LedgerQuestion, LedgerRow, ask_ledger
from sluice.state.manifests import read_manifests
from sluice.state.months import CachedMonths, UnitSummary, summary_of
from sluice.state.shard_ledgers import by_shard, ledgers_of, merged
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState
from sluice.state.units import spans, units_of

# The ClickHouse clients of a process that is asked again and again, and what ledgers they are asked for.
#
# A server that hangs, and doesn't refuse, would hold everybody who asks the page something for as long as
# they wait. It gets a short deadline, and after that it isn't asked again for a while.

# A server that works says so every 15 seconds, as the driver asks it to with this deadline.
ANSWER_SECONDS = 20
# For all of an answer, whatever it says meanwhile.
WHOLE_SECONDS = 30.0
SILENT_SECONDS = 15.0


class Clients:
    """One client for each ClickHouse connection, as long as the connection is the same: making one costs more
    than a snapshot. Threads may ask side by side; at worst both make one."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[Connection, Client]] = {}
        self._silent: dict[str, tuple[Connection, Silence]] = {}

    def servers(self, pipeline: Pipeline) -> Servers:
        """Returns the server of each shard, or its error: hours of an unavailable shard wait. Raises
        Unavailable for the only server of an unsharded pipeline."""
        return tuple(self._server(shard) for shard in pipeline.clickhouse.parts)

    def of(self, shard: Shard) -> Client:
        """Returns the first replica that answers. Raises what the first raised (Unavailable) when none
        does."""
        silent: Unavailable | None = None
        for connection in shard.connections:
            try:
                return self._client(connection)
            except Unavailable as error:
                silent = silent or error
        assert silent is not None, "a shard has a connection"  # noqa: S101 - narrows the type
        raise silent

    def gone(self, pipeline: Pipeline) -> frozenset[str]:
        """Returns target tables that a server does not have; one that does not answer is left out."""
        missing: set[str] = set()
        tables = [target.table for target in pipeline.targets]
        with suppress(Unavailable):
            for client in (server.client for server in self.servers(pipeline)):
                missing.update(gone(client, tables) if client else ())
        return frozenset(missing)

    def _server(self, shard: Shard) -> Server:
        try:
            return Server(shard, self.of(shard))
        except Unavailable as error:
            if not shard.name:
                raise
            return Server(shard, error=error)

    def _client(self, name: str) -> Client:
        connection = find(name)
        cached = self._cached.get(name)
        if cached is None or cached[0] != connection:
            silent = self._silent.get(name)
            if silent is None or silent[0] != connection:
                silent = self._silent[name] = (connection, Silence(SILENT_SECONDS))
            with silent[1].kept():
                client = open_client(connection, ANSWER_SECONDS, silent[1], WHOLE_SECONDS)
            cached = self._cached[name] = (connection, client)
        return cached[1]


# The ledgers of many pipelines for one answer: a statement for each ClickHouse server.
LedgersByTable = Mapping[str, Ledger]
PendingLedgers = Callable[[], LedgersByTable]
"""Waits for what is committed, by table. Raises what the lake's settings and ClickHouse raise, each time."""
_LedgersByPipeline = Mapping[str, Mapping[str, Ledger]]


def ask_together(
    clients: Clients, pool: Executor, ranges: Sequence[tuple[Pipeline, SliceRange]]
) -> list[PendingLedgers]:
    """Starts the statements, and returns an answer for each of the different pipelines.

    Each server gets one statement for all pipelines: one that does not answer costs one time-out.
    """
    questions = [_question(pipeline, slices) for pipeline, slices in ranges]
    by_server: dict[tuple[str, ...], tuple[Shard, list[LedgerQuestion]]] = {}
    for question in questions:
        if isinstance(question, LedgerQuestion):
            for shard in question.pipeline.clickhouse.parts:
                by_server.setdefault(shard.connections, (shard, []))[1].append(question)
    pending = {key: pool.submit(_ask, clients, *asking) for key, asking in by_server.items()}
    return [_answered(question, pending) for question in questions]


def _question(pipeline: Pipeline, slices: SliceRange) -> LedgerQuestion | SluiceError:
    try:
        return LedgerQuestion(pipeline, open_lake(pipeline).url, pipeline.targets, slices)
    except SluiceError as error:
        return error


def _ask(clients: Clients, shard: Shard, questions: Sequence[LedgerQuestion]) -> _LedgersByPipeline:
    """Returns the ledgers by pipeline and table."""
    names = [question.pipeline.name for question in questions]
    return dict(zip(names, ask_ledger(clients.of(shard), questions), strict=True))


def _answered(
    question: LedgerQuestion | SluiceError, pending: Mapping[tuple[str, ...], Future[_LedgersByPipeline]]
) -> PendingLedgers:
    def answer() -> LedgersByTable:
        if isinstance(question, SluiceError):
            raise question
        pipeline = question.pipeline
        shares = by_shard(
            pipeline.clickhouse.parts,
            question,
            lambda shard: pending[shard.connections].result()[pipeline.name],
        )
        return merged(pipeline, shares)

    return answer


# What a server keeps of what it has read: bounded in bytes, and what was used longest ago goes first.
ROOM = 128 << 20


class BoundedCache:
    """Values by key, each with the bytes that it is said to take. Threads may use it side by side."""

    def __init__(self, room: int = ROOM) -> None:
        self._lock = threading.Lock()
        self._held: LRUCache[Hashable, tuple[Any, int]] = LRUCache(room, getsizeof=itemgetter(1))

    def __len__(self) -> int:
        return len(self._held)

    @property
    def used(self) -> float:
        return self._held.currsize

    def get(self, key: Hashable) -> Any:
        """Returns the value, or None when it is not there, or not any more."""
        with self._lock:
            return self._held.get(key, (None, 0))[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """A value that is larger than the whole room is not kept."""
        with self._lock:
            self._held.pop(key, None)
            if size <= self._held.maxsize:
                self._held[key] = value, size


# Bytes of manifests, as they are in the lake, that an answer has in memory at once; one may be larger.
_AT_ONCE = 8 << 20
_NUMBERS = count()

Stamp = tuple[datetime, int]
"""When a manifest was written, and its bytes."""


@dataclass(frozen=True)
class CachedStatus:
    """A unit's status, computed when the boundary log had `entries` entries and its manifest this stamp;
    `lacking` are the tables that lack it."""

    entries: int
    stamp: Stamp | None
    status: UnitStatus
    summary: UnitSummary
    lacking: frozenset[str]

    def holds(self, entries: int, stamp: Stamp | None, rows: Mapping[str, LedgerRow]) -> bool:
        """Returns whether nothing has changed since. An hour that was not over then may be so now."""
        same = self.stamp == stamp and self.status.tables == rows
        return same and self.entries == entries and self.status.state is not UnitState.NOT_OVER


@dataclass(frozen=True)
class RangeFacts:
    """What the lake and ClickHouse say of a range now, without its manifests. `rows`: those of each unit."""

    lake: Lake
    boundaries: Boundaries
    units: Sequence[Unit]
    stamps: Mapping[Unit, Stamp]
    ledgers: LedgersByTable
    rows: Mapping[Unit, Mapping[str, LedgerRow]]
    now: datetime

    def groups(self, units: Sequence[Unit]) -> Iterator[list[Unit]]:
        """Yields neighbouring units whose manifests may be in memory together."""
        group: list[Unit] = []
        held = 0
        for unit in units:
            size = self.stamps[unit][1] if unit in self.stamps else 0
            if group and held + size > _AT_ONCE:
                yield group
                group, held = [], 0
            group.append(unit)
            held += size
        if group:
            yield group


@dataclass
class PipelineCache:
    """One pipeline's cache. Threads may use it side by side; at worst both read the same."""

    pipeline: Pipeline
    shelf: BoundedCache = field(default_factory=BoundedCache)
    months: CachedMonths = field(default_factory=dict)
    days: CachedDays = field(default_factory=dict)
    number: int = field(default_factory=lambda: next(_NUMBERS))
    gone: frozenset[str] = frozenset()  # target tables that were missing at the last check
    usual: tuple[object, UsualRows] = (None, MappingProxyType({}))  # and what they depend on

    def snapshot(
        self, slices: SliceRange, ledgers: PendingLedgers, now: datetime | None = None
    ) -> OverviewSnapshot:
        """Returns the statuses, without manifests. `ledgers` are the same slices'. Raises what they and the
        lake raise."""
        facts = self.facts(slices, ledgers, now)
        by_unit = {unit: self._cached(facts, unit) for unit in facts.units}
        for group in facts.groups([unit for unit, cached in by_unit.items() if cached is None]):
            by_unit.update(self._read(facts, group, self._manifests(facts, group)))
        # A unit of a cluster that the pipeline file no longer has may have no status.
        known = [cached for cached in by_unit.values() if cached is not None]
        return OverviewSnapshot(
            [cached.status for cached in known],
            [cached.summary for cached in known],
            facts.boundaries,
            [(cached.status.unit.slice, cached.lacking) for cached in known if cached.lacking],
        )

    def walk(self, facts: RangeFacts) -> Iterator[CachedStatus]:
        """Yields each unit with its manifest, in order, and keeps no manifest."""
        for group in facts.groups(facts.units):
            manifests = self._manifests(facts, group)
            by_unit = {unit: self._cached(facts, unit) for unit in group}
            fresh = [unit for unit, cached in by_unit.items() if cached is None]
            by_unit.update(self._read(facts, fresh, manifests))
            for unit, cached in by_unit.items():
                if cached is not None:
                    yield replace(cached, status=replace(cached.status, manifest=manifests.get(unit)))

    def facts(self, slices: SliceRange, ledgers: PendingLedgers, now: datetime | None = None) -> RangeFacts:
        lake = brief_lake(self.pipeline)
        boundaries = self.boundaries(lake)
        units = units_of(self.pipeline, slices, boundaries)
        keys = {layout.manifest(unit.slice.id, unit.cluster): unit for unit in units}
        stamps = {keys[item.key]: (item.modified, item.size) for item in lake.present(keys)}
        by_table = ledgers()
        return RangeFacts(
            lake, boundaries, units, stamps, by_table, _by_unit(by_table), now or pendulum.now("UTC")
        )

    def boundaries(self, lake: Lake) -> Boundaries:
        key = (self.number, "boundaries")
        cached = self.shelf.get(key)
        boundaries = BoundaryLog(lake).read(cached)
        if boundaries is not cached:
            self.shelf.put(key, boundaries, size_of_boundaries(boundaries))
        return boundaries

    def begins(self, lake: Lake) -> dict[str, datetime]:
        """Returns where the clusters that were added later begin; with one cluster nothing is read."""
        if len(self.pipeline.clusters) == 1:
            return {}
        begin_by_cluster = spans(self.pipeline, self.boundaries(lake)).begins
        return {cluster: begin for cluster, begin in begin_by_cluster.items() if begin is not None}

    def _cached(self, facts: RangeFacts, unit: Unit) -> CachedStatus | None:
        cached: CachedStatus | None = self.shelf.get((self.number, "status", unit))
        rows = facts.rows.get(unit, {})
        if cached and cached.holds(facts.boundaries.entries, facts.stamps.get(unit), rows):
            return cached
        return None

    def _read(
        self, facts: RangeFacts, units: Sequence[Unit], manifests: Mapping[Unit, Manifest]
    ) -> dict[Unit, CachedStatus]:
        by_unit: dict[Unit, CachedStatus] = {}
        evidence = (facts.boundaries, manifests, facts.ledgers, facts.now)
        targets = targets_of(self.pipeline)
        for status in statuses(self.pipeline, units, *evidence):
            # A manifest that has gone since the listing has no stamp.
            stamp = facts.stamps.get(status.unit) if status.manifest is not None else None
            light = replace(status, manifest=None)
            lacking = lacking_landed(self.pipeline, targets, status)
            cached = CachedStatus(facts.boundaries.entries, stamp, light, summary_of(status), lacking)
            self.shelf.put((self.number, "status", status.unit), cached, size_of_status(light))
            by_unit[status.unit] = cached
        return by_unit

    def _manifests(self, facts: RangeFacts, units: Sequence[Unit]) -> dict[Unit, Manifest]:
        stamps = {unit: facts.stamps[unit] for unit in units if unit in facts.stamps}
        entries = {unit: self.shelf.get((self.number, "manifest", unit)) for unit in stamps}
        manifests = {
            unit: entry[1]
            for unit, entry in entries.items()
            if entry is not None and entry[0] == stamps[unit]
        }
        for unit, manifest in read_manifests(facts.lake, [u for u in stamps if u not in manifests]).items():
            manifests[unit] = manifest
            size = size_of_manifest(stamps[unit][1])
            self.shelf.put((self.number, "manifest", unit), (stamps[unit], manifest), size)
        return manifests


def _by_unit(ledgers: LedgersByTable) -> dict[Unit, dict[str, LedgerRow]]:
    rows: dict[Unit, dict[str, LedgerRow]] = {}
    for table, ledger in ledgers.items():
        for unit, row in ledger.items():
            rows.setdefault(unit, {})[table] = row
    return rows


class StatusCache:
    """Everything that this process has cached, by pipeline; a changed pipeline file begins anew."""

    def __init__(self) -> None:
        self.clients = Clients()
        self.shelf = BoundedCache()
        self._caches: dict[str, PipelineCache] = {}
        self._lock = threading.Lock()

    def of(self, pipeline: Pipeline) -> PipelineCache:
        with self._lock:
            cache = self._caches.get(pipeline.name)
            if cache is None or cache.pipeline != pipeline:
                cache = self._caches[pipeline.name] = PipelineCache(pipeline, self.shelf)
            return cache

    def snapshot(self, pipeline: Pipeline, slices: SliceRange) -> OverviewSnapshot:
        """Reads as `sluice.state.survey.survey` does, with all manifests: for a slice or two. Raises what the
        lake and ClickHouse raise."""
        facts = self._facts(pipeline, slices)
        walked = list(self.of(pipeline).walk(facts))
        return OverviewSnapshot(
            [cached.status for cached in walked], [cached.summary for cached in walked], facts.boundaries
        )

    def walk(self, pipeline: Pipeline, slices: SliceRange) -> Iterator[UnitStatus]:
        """Yields what `snapshot` returns, unit by unit: for a range whose manifests do not fit in memory."""
        return (one.status for one in self.of(pipeline).walk(self._facts(pipeline, slices)))

    def _facts(self, pipeline: Pipeline, slices: SliceRange) -> RangeFacts:
        servers, url = self.clients.servers(pipeline), brief_lake(pipeline).url
        return self.of(pipeline).facts(slices, lambda: ledgers_of(servers, pipeline, url, slices))


# Estimates the memory of cached values; they err upwards (a test measures them). Pure.
_FIXED = 4096
_RANGE, _TYPE, _ROW = 320, 160, 1024


def size_of_manifest(stored: int) -> int:
    """Returns the bytes of a manifest that has `stored` bytes in the lake. A field with a short name grows
    most."""
    return _FIXED + 7 * stored


def size_of_status(status: UnitStatus) -> int:
    """Returns the bytes of a status without its manifest."""
    rows = [share for row in status.tables.values() for share in (row, *(r for _, r in row.shares if r))]
    types = sum(_TYPE + len(name) for row in rows for name in row.types)
    return _FIXED + _RANGE * len(status.ranges or ()) + _ROW * len(rows) + types


def size_of_boundaries(boundaries: Boundaries) -> int:
    """Returns the bytes of boundaries: an instant is 8 bytes, and 25 in each partition's columns."""
    blocks = boundaries.blocks.values()
    return _FIXED + sum(len(b.instants) * (8 + 25 * len(b.columns)) + _ROW * len(b.columns) for b in blocks)


# Answers that are asked for again and again, each kept for some seconds: what they cost does not depend on
# how many people look at the page.
T = TypeVar("T")


class TimedCache(Generic[T]):
    """At most `most` answers; the one that was asked for longest ago goes first. For a key one thread asks at
    a time, and the others wait for its answer. A SluiceError is an answer, too, for
    `error_seconds` at most."""

    def __init__(
        self,
        seconds: float,
        most: int = 64,
        clock: Callable[[], float] = time.monotonic,
        error_seconds: float = 60,
    ) -> None:
        def until(_: Hashable, answer: T | SluiceError, now: float) -> float:
            return now + (min(seconds, error_seconds) if isinstance(answer, SluiceError) else seconds)

        self.kept: TLRUCache[Hashable, T | SluiceError] = TLRUCache(most, until, clock)
        self._answer = cachetools.cached(self.kept, key=lambda key, _: key, condition=Condition())(_answer)

    def get(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Returns what `ask` has answered at most `seconds` ago. Raises what it raised then."""
        answer: T | SluiceError = self._answer(key, ask)
        if isinstance(answer, SluiceError):
            raise answer.with_traceback(None)
        return answer


def _answer(_: Hashable, ask: Callable[[], T]) -> T | SluiceError:
    try:
        return ask()
    except SluiceError as error:
        return error
