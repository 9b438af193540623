"""What verify knows when it judges: values only, read by `sluice.flow.verify.audit`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from sluice.clients.clickhouse.tables import called
from sluice.config.pipeline import Pipeline, Target
from sluice.manifest import Manifest
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import DepartedTable
from sluice.state.held import Held
from sluice.state.ledger import LedgerRow, rollups_wanted
from sluice.state.status import UnitStatus
from sluice.state.unit_state import Commit, UnitState

ByType = Mapping[str, int]
ByColumn = Mapping[str, int]


@dataclass(frozen=True)
class RowIdentities:
    """Rows of one unit and partition in a table, the different records among them, and the offsets `[first,
    last]`. `by_row`: the table has `_row`, and different rows of a record count as different."""

    unit: Unit
    topic: str
    partition: int
    rows: int
    different: int
    first: int
    last: int
    by_row: bool = False


@dataclass(frozen=True)
class NewestRows:
    """What is wrong with a unit in a table of newest rows: `outdated` keys, of which the log has a newer row,
    and `foreign` rows, which the log lacks."""

    outdated: int = 0
    foreign: int = 0

    def __add__(self, other: NewestRows) -> NewestRows:
        return NewestRows(self.outdated + other.outdated, self.foreign + other.foreign)


@dataclass(frozen=True)
class ViewTableRows:
    """A table that materialized views fill: its `rows` by unit, and those that the commits of units put there
    which were loaded with the views as they are. `expiring`: a TTL deletes rows. `projections`: it has some.
    """

    table: str
    view: str
    rows: Mapping[Unit, int]
    committed: Mapping[Unit, int]
    expiring: bool = False
    projections: bool = False

    @property
    def called(self) -> str:
        return called(self.table, self.view)


@dataclass(frozen=True)
class TableFacts:
    """A target: what it and sluice.rejected hold of each unit, by type (`""`: the table has no `_type`).

    `missing`: the table is not there; the text says how to create it. `expiring`: a TTL deletes rows, but
    none of `lasting` units yet. `ledger` holds what is committed, also outside the range. `counted`: the sum
    of the counts in a table of traffic counts, rejected rows included, by event type. On a `shard` all of it
    is its own part, and `misplaced` are rows that belong on another. `projections`: the table has some.
    `rejected_columns`: by unit and type the column that rejected most, and its rows.
    `viewed`: the readers' view shows its committed slices. `lost_views`: those that its last load knew and
    that are gone, with what creates each. `aged`: of hours that began until then it may lack
    rows, as `keep.tables` says; None where the file does not. `steady`: no TTL takes values of rows away that
    stay. `newest`: the units with wrong rows of a table of newest rows."""

    table: str
    missing: str = ""
    expiring: bool = False
    lasting: frozenset[Unit] = frozenset()
    rows: Mapping[Unit, ByType] = field(default_factory=dict)
    rejected_rows: Mapping[Unit, ByType] = field(default_factory=dict)
    identities: tuple[RowIdentities, ...] = ()
    view_tables: tuple[ViewTableRows, ...] = ()
    ledger: Mapping[Unit, LedgerRow] = field(default_factory=dict)
    counted: Mapping[Unit, ByType] = field(default_factory=dict)
    shard: str = ""
    misplaced: Mapping[Unit, int] = field(default_factory=dict)
    viewed: bool = True
    lost_views: Mapping[str, str] = field(default_factory=dict)
    projections: bool = False
    aged: datetime | None = None
    steady: bool = True
    rejected_columns: Mapping[Unit, Mapping[str, ByColumn]] = field(default_factory=dict)
    newest: Mapping[Unit, NewestRows] = field(default_factory=dict)

    def may_lack(self, unit: Unit) -> bool:
        """Returns whether some of the unit's rows may be deleted for their age: as `keep.tables` says, else
        by the TTL."""
        if self.aged is not None:
            return unit.slice.start <= self.aged
        return self.expiring and unit not in self.lasting


@dataclass(frozen=True)
class LeftRows:
    """Rows that a shard still holds of a table, although it has left the pipeline file's list. `only`: how
    many of them are of units that the listed shards have not all committed: no other server may have them."""

    shard: str
    connection: str
    table: str
    rows: int
    only: int = 0


@dataclass(frozen=True)
class LakeFacts:
    """`sizes`: bytes of each file, by key. `named`: manifests by (slice id, cluster) of all files' names,
    None where there is none. `unmoved` are keys that are still in their attempt. `checksums` by key, where
    they were asked for. `attempts`: keys of old attempts that no manifest names."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    named: Mapping[tuple[str, str], Manifest | None] = field(default_factory=dict)
    unmoved: frozenset[str] = frozenset()
    checksums: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifyFacts:
    """`unreadable`: what is wrong with the manifests that cannot be read. `whole`: not only the range, but
    all that the lake and the tables hold. `tables` are each target as a whole, `shards` its parts.
    `unerased`: units that an entry of the erasure list may still concern, and its number. `departed`: tables
    that the pipeline file no longer names, and that hold rows of it. `held`: what checks keep out of
    tables."""

    pipeline: Pipeline
    slices: SliceRange
    now: datetime
    boundaries: Boundaries
    statuses: tuple[UnitStatus, ...]
    unreadable: Mapping[Unit, str] = field(default_factory=dict)
    whole: bool = False
    lake: LakeFacts = LakeFacts()
    tables: tuple[TableFacts, ...] = ()
    shards: tuple[TableFacts, ...] = ()
    left: tuple[LeftRows, ...] = ()
    unerased: Mapping[Unit, int] = field(default_factory=dict)
    departed: tuple[DepartedTable, ...] = ()
    held: tuple[Held, ...] = ()

    @property
    def landed(self) -> list[tuple[UnitStatus, Manifest]]:
        return [(status, status.manifest) for status in self.statuses if status.manifest is not None]

    @cached_property
    def forgotten(self) -> Mapping[tuple[str, str], UnitStatus]:
        """Returns the units whose files the lake has forgotten, by slice id and cluster."""
        return {(s.unit.slice.id, s.unit.cluster): s for s in self.statuses if s.forgotten_on}

    @cached_property
    def no_longer_awaited(self) -> frozenset[tuple[str, str]]:
        """Returns the units that the pipeline file no longer asks their cluster for, likewise."""
        return frozenset((s.unit.slice.id, s.unit.cluster) for s in self.statuses if s.gone)

    def beyond_kafka(self, place: tuple[str, str]) -> str:
        """Returns why Kafka no longer has the records of a unit, by slice id and cluster; empty if it may
        have them."""
        manifest = self._manifests.get(place)
        if manifest is None:
            return ""
        for r in manifest.ranges:
            if r.offsets and self.boundaries.uuid(place[1], r.topic) not in (None, r.uuid):
                return f"topic {r.topic} was recreated"
            lost = [
                loss.until for loss in manifest.lost if (loss.topic, loss.partition) == (r.topic, r.partition)
            ]
            start = max(r.start, *lost) if lost else r.start
            until = min(r.until, self.boundaries.log_start(place[1], r.topic, r.partition))
            if start < until:
                return f"Kafka no longer has the offsets [{start}, {until}) of {r.topic}/{r.partition}"
        return ""

    @cached_property
    def _manifests(self) -> Mapping[tuple[str, str], Manifest]:
        return {(status.unit.slice.id, status.unit.cluster): manifest for status, manifest in self.landed}


# Which units a table holds as their manifests and the pipeline file say now.


def loaded(facts: VerifyFacts, table: str) -> list[tuple[UnitStatus, Manifest]]:
    """Returns the landed units that are committed in `table`, whatever other tables lack."""
    target = targets_of(facts.pipeline)[table]
    return [(status, m) for status, m in facts.landed if is_current(facts.pipeline, target, status)]


def committed(facts: VerifyFacts, table: str) -> list[tuple[UnitStatus, Manifest]]:
    """Returns the units of `loaded`, and those whose files the lake has forgotten and that `table` holds by
    the routes of then: nothing can move such rows to another table, so they are to be there as they were."""
    target = targets_of(facts.pipeline)[table]
    return [
        (status, m)
        for status, m in facts.landed
        if is_current(facts.pipeline, target, status) or _kept(target, status)
    ]


def _kept(target: Target, status: UnitStatus) -> bool:
    row, manifest = status.tables.get(target.table), status.manifest
    if row is None or row.lacking or manifest is None or target.rollup is not None:
        return False
    return bool(status.forgotten_on) and row.manifest == manifest.id


def units_of(facts: VerifyFacts, table: str) -> frozenset[Unit]:
    return frozenset(status.unit for status, _ in loaded(facts, table))


def targets_of(pipeline: Pipeline) -> dict[str, Target]:
    """Returns the targets by table, to be asked for once: the pipeline merges them anew each time."""
    return {target.table: target for target in pipeline.targets}


def lacking(pipeline: Pipeline, targets: Mapping[str, Target], status: UnitStatus) -> frozenset[str]:
    """Returns the tables that lack the unit, or hold an older state of it that a load could replace."""
    return frozenset(
        name
        for name, target in targets.items()
        if not is_current(pipeline, target, status) and not _kept(target, status)
    )


def lacking_landed(pipeline: Pipeline, targets: Mapping[str, Target], status: UnitStatus) -> frozenset[str]:
    """Returns the tables that lack a landed unit, or hold an older state of it; none of one that is done."""
    if status.manifest is None or status.state.done:
        return frozenset()
    return lacking(pipeline, targets, status)


def narrowed(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], tables: Collection[str] | None
) -> list[UnitStatus]:
    """Returns the states that the units have in these tables alone; without a choice as they are."""
    if tables is None:
        return [*statuses]
    targets = {target.table: target for target in pipeline.chosen(tables)}
    return [_narrowed(pipeline, targets, status) for status in statuses]


def _narrowed(pipeline: Pipeline, targets: Mapping[str, Target], status: UnitStatus) -> UnitStatus:
    status = replace(status, later={table: of for table, of in status.later.items() if table in targets})
    loadable = status.state in (UnitState.LANDED, UnitState.STALE)
    if not loadable or lacking(pipeline, targets, status) or status.manifest is None:
        return status
    if status.forgotten_on:
        return replace(status, state=UnitState.FORGOTTEN)
    lost = bool(status.manifest.lost)
    return replace(status, state=UnitState.COMPLETE_WITH_LOSS if lost else UnitState.COMPLETE)


def is_current(pipeline: Pipeline, target: Target, status: UnitStatus) -> bool:
    if status.state.done and not status.forgotten_on:
        return True
    row, manifest = status.tables.get(target.table), status.manifest
    if row is None or row.lacking or manifest is None or status.state is UnitState.NOT_OVER:
        return False
    return Commit(row.manifest, row.types, row.sharding) == _wanted(pipeline, target, status, manifest)


def _wanted(pipeline: Pipeline, target: Target, status: UnitStatus, manifest: Manifest) -> Commit | None:
    if target.rollup is not None:
        return rollups_wanted(pipeline, status.tables).get(target.table)
    types = pipeline.routed(target, manifest.rows_by_type())
    return Commit(manifest.id, types, pipeline.clickhouse.sharding(target.table))
