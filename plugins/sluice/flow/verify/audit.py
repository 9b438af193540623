"""verify: reads everything, judges, and deletes only superseded files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import pendulum
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.clickhouse.client import READ_QUORUM, Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.shards import Servers, connect_shards
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import check_new, delete_own, open_lake
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Newest
from sluice.errors import Busy
from sluice.flow.verify.anomaly import QUIET_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.check import check
from sluice.flow.verify.check_files import dead
from sluice.flow.verify.facts import LeftRows, TableFacts, VerifyFacts, lacking, narrowed, targets_of
from sluice.flow.verify.notes import notes, with_what_works
from sluice.flow.verify.read_lake import LoadWatch, leases_of, list_files, own, read_all, read_lake, unmoved
from sluice.flow.verify.read_tables import RowsByOffsets, SliceSpan, offsets_of, read_left, read_shards
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Manifest
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.departed_tables import DepartedTable, departed_tables
from sluice.state.erasures import unerased
from sluice.state.held import still_held
from sluice.state.ledger import LedgerRow
from sluice.state.shard_ledgers import answered, ledgers_by_shard, merge
from sluice.state.status import UnitStatus, statuses
from sluice.state.system_tables import check_owner, check_system_tables_visible
from sluice.state.units import units_of


@dataclass(frozen=True)
class AuditScope:
    """What verify reads. `everywhere`: lists the slices' files in every folder, not only in those that their
    manifests name and in the range's own days. `whole`: reads all that the lake and the tables hold, of
    whatever slice. `checksums`: reads every file's bytes.
    `contents` are compared, too: notes on what counts and sums leave out are omitted. `tables`: only these
    are read, and what others lack is no anomaly. `cheap`: no more than manifests, listings and counts by hour
    are read (`CHEAP_KINDS`). `patient`: what is being loaded is waited for."""

    everywhere: bool = False
    whole: bool = False
    checksums: bool = False
    contents: bool = False
    tables: Collection[str] | None = None
    cheap: bool = False
    patient: bool = True


class Findings(NamedTuple):
    """What an audit has seen: the states of the units that stood still, the anomalies, lines about what could
    not be compared, and the units, as (slice id, cluster), that were changing until its patience was over."""

    statuses: list[UnitStatus]
    anomalies: list[Anomaly]
    notes: list[str]
    pending: frozenset[tuple[str, str]] = frozenset()


def audit(
    pipeline: Pipeline, slices: SliceRange, scope: AuditScope = AuditScope(), say: Say = lambda _: None
) -> Findings:
    """Returns every anomaly of the range, and the state of its units. Files of generations that a `reland`
    has replaced are removed.

    A landing or load may run meanwhile: what it explains is read again until it is unchanged between two
    reads, and is no anomaly before.

    Raises: Busy when nothing else is broken and it changes for ten terms of the lease; LakeTaken and
        TargetRefused where what is missing is another pipeline's; and what the lake and ClickHouse raise.
    """
    lake, repairs = open_lake(pipeline), Repairs.of(pipeline)
    facts = read_facts(pipeline, lake, slices, scope, say)
    anomalies = check(facts, repairs)
    moving: list[str] = []
    pending: frozenset[tuple[str, str]] = frozenset()
    if anomalies:
        with connect_shards(pipeline, READ_QUORUM) as servers:
            refuse_foreign(pipeline, lake, [server.reached for server in servers], scope.tables)
        facts, settled, moving = _settled(pipeline, lake, scope, say, facts, repairs)
        anomalies = list(settled.sure)
        pending = frozenset((anomaly.slice, anomaly.cluster) for anomaly in settled.pending)
    remove(lake, dead(facts), say)
    with connect_shards(pipeline, READ_QUORUM) as servers:
        clients = [server.reached for server in servers]
        located = locate(facts, clients, lake, anomalies, say)
        located = with_what_works(facts, servers, lake, located)
    unit_statuses = [s for s in facts.statuses if (s.unit.slice.id, s.unit.cluster) not in pending]
    lines = [*notes(facts), *(f"not verified: {line}" for line in moving)]
    return Findings(unit_statuses, located, lines, pending)


def _settled(
    pipeline: Pipeline, lake: Lake, scope: AuditScope, say: Say, facts: VerifyFacts, repairs: Repairs
) -> tuple[VerifyFacts, Settled, list[str]]:
    """Returns the facts of the last read, what it settled, and lines about what was still changing."""
    with connect_shards(pipeline, READ_QUORUM) as servers:
        names = leases_of(servers, pipeline)
    watch = LoadWatch(lake, names, pipeline.clickhouse.lease.total_seconds())
    while True:
        idle = watch.read()
        second_facts = read_facts(pipeline, lake, facts.slices, scope, say)
        reads = TwoReads(facts, second_facts, unmoved(idle, watch.read()))
        settled = reads.settle(check(facts, repairs), check(second_facts, repairs))
        facts = second_facts
        if not settled.pending:
            return facts, settled, []
        moving = watch.busy(names) or [f"{pipeline.name} {facts.slices} is being landed or loaded"]
        if not scope.patient:
            break
        say(f"{'; '.join(moving)}: reading again")
        if not watch.wait():
            break
    if all(anomaly.kind in QUIET_KINDS for anomaly in settled.sure):
        raise Busy(f"{'; '.join(moving)}: verify {facts.slices} when that is done")
    return facts, settled, moving


def clean(pipeline: Pipeline, anomalies: Sequence[Anomaly], scope: AuditScope, say: Say) -> int:
    """Removes files that no manifest lists, and says how many: of a range only those its slices brought."""
    kinds = (AnomalyKind.FILE_UNKNOWN, AnomalyKind.ATTEMPT)
    files = [a for a in anomalies if a.kind in kinds and a.command.endswith("--clean")]
    keys = [a.file for a in files if scope.whole or a.slice]
    remove(open_lake(pipeline), keys, say)
    return len(keys)


def remove(lake: Lake, keys: Sequence[str], say: Say) -> None:
    for key in keys:
        say(f"removing {key}, which no manifest lists")
    if keys:
        delete_own(lake, keys)


def _listing(lake: Lake, slices: SliceRange, scope: AuditScope, say: Say) -> dict[str, int] | None:
    """Returns None where only the slices' own folders are to be listed."""
    if not (scope.whole or scope.everywhere):
        return None
    say("listing the lake")
    return list_files(lake) if scope.whole else own(list_files(lake), slices)


def read_facts(
    pipeline: Pipeline,
    lake: Lake,
    slices: SliceRange,
    scope: AuditScope,
    say: Say,
    connected: Servers | None = None,
) -> VerifyFacts:
    """Reads everything that verify judges by, from servers that are `connected`, or for this once. Raises
    what the lake and ClickHouse raise."""
    boundaries = BoundaryLog(lake).read()
    units = units_of(pipeline, slices, boundaries)
    listing = _listing(lake, slices, scope, say)
    say(f"reading {len(units):,} manifests")
    manifests, unreadable = read_all(lake, units)
    with nullcontext(connected) if connected else connect_shards(pipeline, READ_QUORUM) as servers:
        for server in servers:
            _ = server.reached
        shard_ledgers = answered(
            ledgers_by_shard(servers, pipeline, lake.url, slices if scope.cheap else None)
        )
        for server in servers:
            check_system_tables_visible(server.reached)
        ledgers = {table: merge(pipeline.clickhouse, table, parts) for table, parts in shard_ledgers.items()}
        now = pendulum.now("UTC")
        unit_statuses = statuses(pipeline, units, boundaries, manifests, ledgers, now)
        files = sum(len(m.files) + len(m.rejected) for m in manifests.values())
        say(f"comparing {files:,} files with the lake" + (", byte by byte" if scope.checksums else ""))
        lake_facts = read_lake(pipeline, lake, slices, manifests, listing, scope.whole, scope.checksums)
        span = SliceSpan() if scope.whole else SliceSpan.of(slices)
        counted: list[tuple[TableFacts, tuple[TableFacts, ...]]] = []
        for target in pipeline.chosen(scope.tables):
            say(f"counting {target.table}")
            ledger = shard_ledgers[target.table]
            counted.append(read_shards(servers, pipeline, target, ledger, span, cheap=scope.cheap))
        left: tuple[LeftRows, ...] = ()
        departed: tuple[DepartedTable, ...] = ()
        if not scope.cheap:
            left = tuple(read_left(servers, pipeline, lake, ledgers, say, scope.tables))
            departed = departed_tables([server.reached for server in servers], pipeline, lake.url)
    return VerifyFacts(
        pipeline,
        slices,
        now,
        boundaries,
        tuple(narrowed(pipeline, unit_statuses, scope.tables)),
        unreadable,
        scope.whole,
        lake_facts,
        tuple(table for table, _ in counted),
        tuple(part for _, parts in counted for part in parts),
        left,
        {} if scope.cheap else unerased(lake, manifests),
        departed,
        tuple(still_held(pipeline, lake, slices, unit_statuses)),
    )


# Refuses a verify whose repairs could not work: what it would fill is another pipeline's.
def refuse_foreign(
    pipeline: Pipeline, lake: Lake, clients: Iterable[Client], tables: Collection[str] | None
) -> None:
    """Raises LakeTaken and TargetRefused as a run does."""
    check_new(pipeline, lake)
    for client in clients:
        for target in pipeline.chosen(tables):
            try:
                check_owner(client, pipeline, lake.url, target)
            except ServerError as error:
                if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
                    raise


# Decides which anomalies stand while loads go on. Pure.
#
# A load revokes a unit's ledger row before it touches its rows, and commits it with a higher generation. So
# rows of a unit that is committed alike in two reads did not change between them. A unit without a row in
# both may be under way: then only a lease that was not held, or that is unchanged for its term, says that it
# is not.
@dataclass(frozen=True)
class Settled:
    """`sure`: found by both reads while nothing of it changed. `pending` has to be read again."""

    sure: tuple[Anomaly, ...] = ()
    pending: tuple[Anomaly, ...] = ()


@dataclass(frozen=True)
class TwoReads:
    """Two reads of the same range; `quiet` are targets that no attempt loaded during the second one."""

    first: VerifyFacts
    second: VerifyFacts
    quiet: Collection[str]

    def settle(self, before: Iterable[Anomaly], after: Sequence[Anomaly]) -> Settled:
        """Judges the anomalies of both reads, `before` and `after`."""
        keys_before = {anomaly.key for anomaly in before}
        sure = [a for a in after if a.key in keys_before and self._stood_still(a)]
        sure_ids = {id(anomaly) for anomaly in sure}
        return Settled(tuple(sure), tuple(a for a in after if id(a) not in sure_ids))

    def _stood_still(self, anomaly: Anomaly) -> bool:
        unit = self._unit(anomaly)
        if not self._same_manifests(unit):
            return False
        return all(self._table_stood_still(anomaly, unit, name) for name in self._tables(anomaly, unit))

    def _unit(self, anomaly: Anomaly) -> Unit | None:
        """Returns None for an anomaly of no unit that is known."""
        return self._units.get((anomaly.slice, anomaly.cluster))

    @cached_property
    def _units(self) -> Mapping[tuple[str, str], Unit]:
        reads = (self.first, self.second)
        status_units = (status.unit for facts in reads for status in facts.statuses)
        ledger_units = (unit for facts in reads for table in facts.tables for unit in table.ledger)
        return {(unit.slice.id, unit.cluster): unit for unit in (*ledger_units, *status_units)}

    def _same_manifests(self, unit: Unit | None) -> bool:
        first, second = self._manifests
        return first == second if unit is None else first.get(unit) == second.get(unit)

    @cached_property
    def _manifests(self) -> tuple[Mapping[Unit, str], Mapping[Unit, str]]:
        first, second = (
            {status.unit: manifest.id for status, manifest in facts.landed} | dict(facts.unreadable)
            for facts in (self.first, self.second)
        )
        return first, second

    def _tables(self, anomaly: Anomaly, unit: Unit | None) -> Collection[str]:
        """Returns the targets whose load could explain the anomaly."""
        if not anomaly.table:
            return self._lacking(unit) if anomaly.slice else ()
        owners = {
            table.table
            for table in self.second.tables
            if anomaly.table in (table.table, *(view_table.called for view_table in table.view_tables))
        }
        return owners or {table.table for table in self.second.tables}

    def _lacking(self, unit: Unit | None) -> Collection[str]:
        status = None if unit is None else self._landed.get(unit)
        return () if status is None else lacking(self.second.pipeline, self._targets, status)

    @cached_property
    def _landed(self) -> Mapping[Unit, UnitStatus]:
        return {status.unit: status for status, _ in self.second.landed}

    @cached_property
    def _targets(self) -> Mapping[str, Target]:
        return targets_of(self.second.pipeline)

    def _table_stood_still(self, anomaly: Anomaly, unit: Unit | None, table: str) -> bool:
        first, second = (_row(facts, anomaly.shard, table, unit) for facts in (self.first, self.second))
        # A load of one hour takes newest rows of others away, until it has put them back.
        shared = isinstance(self.second.pipeline.derived.get(table), Newest)
        if shared or (first is None and second is None):
            return first == second and table in self.quiet
        return first == second


def _row(facts: VerifyFacts, shard: str, table: str, unit: Unit | None) -> LedgerRow | None:
    """Returns what is committed of the unit in the table, or in its part; None also where a shard lacks
    it."""
    parts: Iterable[TableFacts] = facts.shards if shard else facts.tables
    for part in parts:
        if part.table == table and part.shard == shard and unit is not None:
            row = part.ledger.get(unit)
            return None if row is None or row.lacking else row
    return None


# Which records a table lacks or has twice: located only for the few units whose counts are wrong.

MOST_UNITS = 20
MOST_ROWS = 2_000_000
_SOUGHT = (AnomalyKind.ROWS_MISSING, AnomalyKind.ROWS_DUPLICATE)
_COLUMNS = ["_type", "_topic", "_partition", "_offset", "_row"]
Places = dict[tuple[str, int], list[int]]
"""Offsets by (topic, partition)."""


def locate(
    facts: VerifyFacts, clients: Sequence[Client], lake: Lake, anomalies: Sequence[Anomaly], say: Say
) -> list[Anomaly]:
    """Returns the anomalies, with partition and offsets where those can be found out. `clients`: of all
    shards."""
    by_row_by_table = {table.table: table.identities[0].by_row for table in facts.tables if table.identities}
    units = {(s.unit.slice.id, s.unit.cluster): (s.unit, m) for s, m in facts.landed}
    placed: list[Anomaly] = []
    located: dict[tuple[str, str, str], tuple[Places, Places]] = {}
    for anomaly in anomalies:
        key = (anomaly.slice, anomaly.cluster, anomaly.table)
        if anomaly.kind not in _SOUGHT or anomaly.table not in by_row_by_table or key[:2] not in units:
            placed.append(anomaly)
            continue
        unit, manifest = units[key[:2]]
        if key not in located and (len(located) >= MOST_UNITS or manifest.landed > MOST_ROWS):
            placed.append(anomaly)
            continue
        if key not in located:
            say(f"locating the records of {anomaly.place}")
            target = next(t for t in facts.pipeline.targets if t.table == anomaly.table)
            by_row = by_row_by_table[target.table]
            located[key] = _locate(facts, clients, lake, target, unit, manifest, by_row)
        placed += _placed(anomaly, located[key][anomaly.kind is AnomalyKind.ROWS_DUPLICATE])
    return placed


def _locate(
    facts: VerifyFacts,
    clients: Sequence[Client],
    lake: Lake,
    target: Target,
    unit: Unit,
    manifest: Manifest,
    by_row: bool,
) -> tuple[Places, Places]:
    """Returns (records of which a row is missing, records of which one is there more than once)."""
    held, rejected = _held_offsets(clients, target.table, unit, by_row)
    duplicates = {place: sorted({o for (o, _), n in c.items() if n > 1}) for place, c in held.items()}
    if manifest.rows is not None and not by_row:
        duplicates = {}  # nothing tells one row of a record from another
    types = set(facts.pipeline.routed(target, manifest.rows_by_type()))
    missing: Places = {}
    for file in manifest.held_events:
        if types & set(file.types()) and facts.lake.sizes.get(file.key) == file.bytes:
            for place, offset, number in _records(lake, file, types):
                key = (offset, number if by_row else 0)
                if key not in held.get(place, {}) and key not in rejected.get(place, {}):
                    missing.setdefault(place, []).append(offset)
    return missing, {place: offsets for place, offsets in duplicates.items() if offsets}


def _held_offsets(
    clients: Sequence[Client], target: str, unit: Unit, by_row: bool
) -> tuple[RowsByOffsets, RowsByOffsets]:
    """`offsets_of` of all shards together."""
    held: tuple[RowsByOffsets, RowsByOffsets] = ({}, {})
    for client in clients:
        for summed, part in zip(held, offsets_of(client, target, unit, by_row), strict=True):
            for place, counts in part.items():
                totals = summed.setdefault(place, {})
                for key, count in counts.items():
                    totals[key] = totals.get(key, 0) + count
    return held


def _records(
    lake: Lake, file: LandedFile, types: Collection[str]
) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Yields ((topic, partition), offset, row)."""
    try:
        with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
            columns = [name for name in _COLUMNS if name in parquet.schema_arrow.names]
            for row in parquet.read(columns=columns).to_pylist():
                if row["_type"] in types:
                    yield (row["_topic"], row["_partition"]), row["_offset"], row.get("_row", 0)
    except (OSError, pa.ArrowException):
        return  # missing or damaged: the file is an anomaly of its own, and the rows' counts stand


def _placed(anomaly: Anomaly, places: Mapping[tuple[str, int], Sequence[int]]) -> list[Anomaly]:
    """Returns one for each partition; the anomaly as it was when nothing was found."""
    mine = {
        place: sorted(offsets)
        for place, offsets in places.items()
        if anomaly.partition is None or place == (anomaly.topic, anomaly.partition)
    }
    return [
        replace(anomaly, topic=topic, partition=partition, offsets=(offsets[0], offsets[-1] + 1))
        for (topic, partition), offsets in sorted(mine.items())
    ] or [anomaly]
