"""Asks ClickHouse what each table that takes a record's type has of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Servers, connect_shards
from sluice.clients.clickhouse.sql import render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Unavailable
from sluice.flow.find.record_facts import TableRecord
from sluice.flow.find.record_place import RecordPlace
from sluice.manifest import Manifest
from sluice.slices import SliceRange, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.system_tables import own_tables, read_misfits

_IDENTIFYING = {"_topic", "_partition", "_offset"}
_PLAIN = ("MergeTree", "ReplicatedMergeTree")


def targets_of(pipeline: Pipeline, types: Collection[str]) -> list[Target]:
    """Returns the tables that take rows of any of the types; those of counts and rollups hold no records."""
    plain = [target for target in pipeline.targets if not target.counted and target.rollup is None]
    return [target for target in plain if pipeline.routed(target, types)]


@dataclass(frozen=True)
class TableReader:
    """Reads what tables have of records of one unit."""

    pipeline: Pipeline
    lake: str
    unit: Unit
    manifest: Manifest

    def read(
        self, place: RecordPlace, types: Mapping[str, int], sought_types: Collection[str]
    ) -> tuple[TableRecord, ...]:
        """Reads the tables that take rows of any of the sought types; `types` counts all of the record's
        rows. A table whose server does not answer is "unavailable". Raises TargetTaken for another pipeline's
        table, and ServerError where a server refuses."""
        targets = targets_of(self.pipeline, sought_types)
        if not targets:
            return ()
        try:
            with connect_shards(self.pipeline) as servers:
                slices = SliceRange(self.unit.slice.start, self.unit.slice.end, self.unit.slice.length)
                names = [target.table for target in targets]
                for server in servers:
                    own_tables(server.reached, self.pipeline, self.lake, names)
                ledgers = ledgers_of(servers, self.pipeline, self.lake, slices)
                rows = {target.table: ledgers[target.table].get(self.unit) for target in targets}
                return tuple(
                    replace(
                        self._table(servers, target, place, rows[target.table]),
                        landed=sum(types[name] for name in self.pipeline.routed(target, types)),
                    )
                    for target in targets
                )
        except Unavailable as error:
            return tuple(TableRecord(target.table, "unavailable", error=str(error)) for target in targets)

    def _table(
        self, servers: Servers, target: Target, place: RecordPlace, row: LedgerRow | None
    ) -> TableRecord:
        clients = [server.reached for server in servers]
        parameters = self._parameters(target, place)
        times = [
            when for client in clients for (when,) in _sluice_rows(client, "find/commit_time", parameters)
        ]
        misfits = [
            tuple(misfit)
            for client in clients
            for misfit in read_misfits(client, "find/misfits", self.pipeline, [target.table], parameters)
        ]
        misfit_rows = sum(
            count
            for client in clients
            for (count,) in read_misfits(
                client, "find/misfit_rows", self.pipeline, [target.table], parameters
            )
        )
        tables = [(client, read_table(client, target.database, target.name)) for client in clients]
        return TableRecord(
            target.table,
            self._commit(row),
            datetime.fromtimestamp(max(times) / 1000, UTC) if times else None,
            _counted([_rows(client, target_table, parameters) for client, target_table in tables]),
            tuple(misfits),
            int(misfit_rows),
            lasting=not self._aged(target)
            and all(target_table is not None and _keeps(target_table) for _, target_table in tables),
        )

    def _aged(self, target: Target) -> bool:
        return self.pipeline.keep.may_lack(target.table, self.unit.slice.start, datetime.now(UTC))

    def _commit(self, row: LedgerRow | None) -> str:
        if row is None or row.lacking:
            return "not loaded"
        return "committed" if row.manifest == self.manifest.id else "stale"

    def _parameters(self, target: Target, place: RecordPlace) -> dict[str, Any]:
        return {
            "target": target.table,
            "database": target.database,
            "name": target.name,
            "slice": int(self.unit.slice.start.timestamp()),
            "cluster": place.cluster,
            "topic": place.topic,
            "partition": place.partition,
            "offset": place.offset,
        }


def _sluice_rows(client: Client, statement: str, parameters: dict[str, Any]) -> Sequence[Any]:
    """Reads a table of Sluice's own; returns nothing where ClickHouse does not have it yet."""
    try:
        return client.rows(render(statement), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


def _keeps(target_table: TargetTable) -> bool:
    """Returns whether the table keeps every row: no merge and no TTL removes any."""
    return target_table.engine in _PLAIN and not target_table.ttl


def _rows(client: Client, target_table: TargetTable | None, parameters: dict[str, Any]) -> int | None:
    """Returns how many rows of the record the table has; None where nothing tells its rows apart."""
    if target_table is None or not {column.name for column in target_table.columns} >= _IDENTIFYING:
        return None
    ((count,),) = client.rows(render("find/rows", table=table(target_table.table)), parameters)
    return int(count)


def _counted(counts: Sequence[int | None]) -> int | None:
    counted = [count for count in counts if count is not None]
    return sum(counted) if len(counted) == len(counts) else None
