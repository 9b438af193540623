"""The table that a rollup is made from, on one server: what it still has, and its rows out of the lake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import expiring_columns, keeps_values, read_table
from sluice.clients.clickhouse.settings import READ_QUORUM
from sluice.clients.clickhouse.shards import Placement
from sluice.clients.clickhouse.sql import render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.load.casts.columns import Filling
from sluice.flow.load.rollups.decide import LedgerRows, SourceUnit
from sluice.flow.load.shard_filter import ShardFilter
from sluice.flow.load.staging import Staging
from sluice.flow.load.work import LoadWork, work_for
from sluice.flow.load.writer import Writer
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow, unit_of
from sluice.state.manifests import read_manifests

_KEEPING = "MergeTree ORDER BY tuple()"


class SourcePlace(Protocol):
    """A table of events or counts on one server (LoadPlace)."""

    @property
    def client(self) -> Client: ...
    @property
    def pipeline(self) -> Pipeline: ...
    @property
    def target(self) -> Target: ...
    @property
    def lake(self) -> Lake: ...
    @property
    def placement(self) -> Placement: ...

    def ledger(self) -> LedgerRows:
        """Reads what is committed now, by unit."""

    def by_rules(self, digest: str) -> Self:
        """Returns the place with its columns filled by the rules of an earlier load."""

    def inspect(self) -> tuple[TargetTable, Filling]:
        """Returns the table as it was by these rules, and how its columns are filled."""

    def staging(
        self,
        target_table: TargetTable,
        filling: Filling,
        works: Sequence[LoadWork],
        writer: Writer,
        shard_filter: ShardFilter,
    ) -> Staging:
        """Returns what stages rows of the lake as a load does."""


@dataclass(frozen=True)
class RollupSource:
    place: SourcePlace

    def ledger(self) -> LedgerRows:
        """Reads what is committed now, by unit."""
        return self.place.ledger()

    @property
    def replicated(self) -> bool:
        source_table = self._table()
        return source_table is not None and source_table.replicated

    def _table(self) -> TargetTable | None:
        return read_table(self.place.client, self.place.target.database, self.place.target.name)

    def units(self, due: Sequence[Unit], ledger: LedgerRows) -> dict[Unit, SourceUnit]:
        """Returns what there is to make each of the units from; `ledger` is the source's. Raises what the
        client and the lake raise."""
        if not due:
            return {}
        source_table = self._table()
        counted = self.counted(due)
        steady = source_table is not None and keeps_values(self.place.client, source_table)
        short = [unit for unit in due if not steady or counted.get(unit, 0) != ledger[unit].rows]
        manifests = read_manifests(self.place.lake, short)
        works = {unit: self._work(ledger[unit], manifests.get(unit)) for unit in short}
        return {unit: SourceUnit(ledger[unit], counted.get(unit, 0), steady, works.get(unit)) for unit in due}

    def counted(self, units: Collection[Unit]) -> dict[Unit, int]:
        """Returns how many rows the table has now, of these units at least; none of one without rows."""
        if not units:
            return {}
        starts = [int(unit.slice.start.timestamp()) for unit in units]
        rows = self.place.client.rows(
            render("rollups/count_source", source=table(self.place.target.table)),
            {"first": min(starts), "last": max(starts)},
            READ_QUORUM if self.replicated else {},
        )
        return {unit_of(self.place.pipeline, start, cluster): count for start, cluster, count in rows}

    def _work(self, row: LedgerRow, manifest: Manifest | None) -> LoadWork | None:
        """Returns how the rows of the commit are made again, by its own routes."""
        if manifest is None:  # it has to land again first: no commit is of this
            return LoadWork(row.unit, "", (), (), 0, replaces=False)
        if manifest.forgotten_on:
            return None
        place, routes = self.place, row.types if row.manifest == manifest.id else None
        stamp = place.placement.stamp
        return work_for(place.pipeline, place.target, row.unit, manifest, True, stamp, routes)

    def stagings(self, works: Sequence[LoadWork], writer: Writer) -> Iterator[Staging]:
        """Yields what stages `works` of the source in tables of the rollup's attempt, which `writer` fills:
        by the rules of each unit's commit, and columns that were added after it stay as empty as they are
        there."""
        for number, (rules, group) in enumerate(self._as_loaded(works).items()):
            place = self.place.by_rules(rules)
            target_table, filling = place.inspect()
            attempt = replace(writer.attempt, part=f"_source{number}")
            units = frozenset(work.unit for work in group)
            own_writer = replace(writer, attempt=attempt, units=units, statements=0, blocks=0)
            shard_filter = ShardFilter(place.placement, target_table, own_writer)
            yield place.staging(
                keeping_values(place.client, target_table), filling, group, own_writer, shard_filter
            )

    def _as_loaded(self, works: Sequence[LoadWork]) -> dict[str, list[LoadWork]]:
        """Groups works by the rules of their commits."""
        ledger = self.ledger() if works else {}
        groups: dict[str, list[LoadWork]] = defaultdict(list)
        for work in works:
            row = ledger.get(work.unit)  # None: it is being loaded, which is seen once all is staged
            groups[row.rules if row is not None else ""].append(work)
        return groups


def keeping_values(client: Client, target_table: TargetTable) -> TargetTable:
    """Returns the table without its views, and whose temporary copy loses nothing: a TTL of a column takes
    values away as soon as they are inserted."""
    expiring = expiring_columns(client, target_table)
    return replace(target_table, view_tables=(), engine_full=_KEEPING, expiring=expiring)
