"""The table that a rollup is made from, on one server: what it still has, and its rows out of the lake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import keeps_values, read_table
from sluice.clients.clickhouse.settings import READ_QUORUM
from sluice.clients.clickhouse.sharding import Placement
from sluice.clients.clickhouse.sql import render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.load.casts.columns import Filling, fill
from sluice.flow.load.rollups.decide import LedgerRows, SourceUnit
from sluice.flow.load.shard_filter import ShardFilter
from sluice.flow.load.staging import Staging
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.load.work import LoadWork, work_for
from sluice.flow.load.writer import Writer
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.additions import read_additions, since
from sluice.state.later_columns import added_after
from sluice.state.ledger import unit_of
from sluice.state.manifests import read_manifests

MakeStaging = Callable[[TargetTable, Filling, Sequence[LoadWork], Writer, ShardFilter], Staging]


@dataclass(frozen=True)
class RollupSource:
    """`ledger` reads what is committed now; `staging` makes what stages rows of the lake as a load does."""

    client: Client
    pipeline: Pipeline
    target: Target
    lake: Lake
    placement: Placement
    ledger: Callable[[], LedgerRows]
    staging: MakeStaging

    @property
    def replicated(self) -> bool:
        source_table = self._table()
        return source_table is not None and source_table.replicated

    def _table(self) -> TargetTable | None:
        return read_table(self.client, self.target.database, self.target.name)

    def units(self, due: Sequence[Unit], ledger: LedgerRows) -> dict[Unit, SourceUnit]:
        """Returns what there is to make each of the units from; `ledger` is the source's. Raises what the
        client and the lake raise."""
        if not due:
            return {}
        source_table = self._table()
        counted = self.counted(due)
        steady = source_table is not None and keeps_values(self.client, source_table)
        short = [unit for unit in due if not steady or counted.get(unit, 0) != ledger[unit].rows]
        manifests = read_manifests(self.lake, short)
        works = {unit: self._work(unit, manifests.get(unit)) for unit in short}
        return {unit: SourceUnit(ledger[unit], counted.get(unit, 0), steady, works.get(unit)) for unit in due}

    def counted(self, units: Collection[Unit]) -> dict[Unit, int]:
        """Returns how many rows the table has now, of these units at least; none of one without rows."""
        if not units:
            return {}
        starts = [int(unit.slice.start.timestamp()) for unit in units]
        rows = self.client.rows(
            render("rollups/count_source", source=table(self.target.table)),
            {"first": min(starts), "last": max(starts)},
            READ_QUORUM if self.replicated else {},
        )
        return {unit_of(self.pipeline, start, cluster): count for start, cluster, count in rows}

    def _work(self, unit: Unit, manifest: Manifest | None) -> LoadWork | None:
        if manifest is None:  # it has to land again first: no commit is of this
            return LoadWork(unit, "", (), (), 0, replaces=False)
        if manifest.forgotten_on:
            return None
        return work_for(self.pipeline, self.target, unit, manifest, True, self.placement.stamp)

    def stagings(self, works: Sequence[LoadWork], writer: Writer) -> Iterator[Staging]:
        """Yields what stages `works` of the source in tables of the rollup's attempt, which `writer` fills.
        Columns that were added after a unit's commit stay as empty as they are there."""
        if not works:
            return
        target_table, filling = inspect_target(self.client, self.pipeline, self.target)
        target_table = replace(target_table, view_tables=())
        for number, (without, group) in enumerate(self._by_later_columns(works).items()):
            if without:
                columns = [column for column in target_table.columns if column.name not in without]
                paths = {name: at for name, at in self.target.columns.items() if name not in without}
                filling = fill(columns, paths)
            attempt = replace(writer.attempt, part=f"_source{number}")
            units = frozenset(work.unit for work in group)
            own_writer = replace(writer, attempt=attempt, units=units, statements=0, blocks=0)
            sieve = ShardFilter(self.placement, target_table, own_writer)
            yield self.staging(target_table, filling, group, own_writer, sieve)

    def _by_later_columns(self, works: Sequence[LoadWork]) -> dict[frozenset[str], list[LoadWork]]:
        columns, ledger = since(read_additions(self.lake)), self.ledger()
        groups: dict[frozenset[str], list[LoadWork]] = defaultdict(list)
        for work in works:
            row = ledger.get(work.unit)
            shard, name = self.placement.shard, self.target.table
            groups[frozenset() if row is None else added_after(columns, name, row, shard)].append(work)
        return groups
