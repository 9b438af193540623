"""What verify knows when it judges: values only, read by `sluice.flow.verify.audit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from sluice.clients.clickhouse.tables import called
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import DepartedTable
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus

ByType = Mapping[str, int]


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
    `viewed`: the readers' view shows its committed slices. `aged`: of hours that began until then it may lack
    rows, as `keep.tables` says; None where the file does not. `steady`: no TTL takes values of rows away that
    stay."""

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
    projections: bool = False
    aged: datetime | None = None
    steady: bool = True

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
    that the pipeline file no longer names, and that hold rows of it."""

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
