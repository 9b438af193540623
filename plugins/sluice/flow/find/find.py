"""`sluice find`: reads the facts about records; outcome.py decides what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.engine import engine_of
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Servers, connect_shards
from sluice.clients.clickhouse.sql import render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.kafka.topic_facts import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Cluster, Pipeline, Target
from sluice.errors import SluiceError, Unavailable, WrongUse
from sluice.flow.find.outcome import (
    LakeRow,
    OffsetLocation,
    PartitionEdges,
    RecordFacts,
    RecordPlace,
    TableRecord,
    locations_of,
)
from sluice.flow.find.search_files import FileSearch, RowMatch
from sluice.manifest import Manifest
from sluice.runtime import deeper
from sluice.safe_text import Say
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.ledger import LedgerRow
from sluice.state.manifests import read_manifest, read_manifests, units_in
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.system_tables import own_tables, read_rejected_rows

_MOST_ROWS = 10_000  # of a slice, held until they are sorted


@dataclass(frozen=True)
class RecordFinder:
    """Finds records of one pipeline."""

    pipeline: Pipeline
    lake: Lake
    topics_of: TopicsOf = open_topics

    def at(self, topic: str, partition: int, offset: int, cluster: str | None = None) -> list[RecordFacts]:
        """Returns the facts for each cluster that the offset may be of, and each topic id. Nothing is
        scanned: boundaries name the slice, statistics the row group. Raises WrongUse."""
        boundaries = BoundaryLog(self.lake).read()
        clusters = self._clusters(
            topic, cluster, {name for name, read_topic in boundaries.eras if read_topic == topic}
        )
        facts: list[RecordFacts] = []
        for name in clusters:
            place = RecordPlace(name, topic, partition, offset)
            locations: Iterable[OffsetLocation | None] = locations_of(boundaries, place) or [None]
            facts += [self._facts(place, location) for location in locations]
        return facts

    def matching(self, slices: SliceRange, match: RowMatch, most: int, say: Say) -> Iterator[RecordFacts]:
        """Yields at most `most` records of the slices that match: a scan of their files, oldest first."""
        count = 0
        manifests = read_manifests(self.lake, units_in(self.lake, slices))
        for unit, manifest in manifests.items():
            for facts in self._scanned(unit, manifest, match, say):
                yield facts
                count += 1
                if count == most:
                    return

    def _clusters(self, topic: str, cluster: str | None, in_boundaries: set[str]) -> list[str]:
        having = {c.cluster for c in self.pipeline.kafka if c.reads(topic)} | in_boundaries
        if cluster is not None:
            having &= {cluster}
        if not having:
            sought = f"{cluster}/{topic}" if cluster else f"topic {topic!r}"
            raise WrongUse(f"pipeline {self.pipeline.name} has never read {sought}: name one that it reads")
        return sorted(having)

    def _facts(self, place: RecordPlace, location: OffsetLocation | None) -> RecordFacts:
        if location is None or location.slice is None:
            return RecordFacts(place, location, kafka=self._kafka(place))
        if location.left:
            return RecordFacts(place, location)
        unit = Unit(location.slice, place.cluster)
        manifest = read_manifest(self.lake, unit)
        if manifest is None:
            return RecordFacts(place, location, kafka=self._kafka(place))
        search = FileSearch(self.lake, manifest)
        rows = search.at(place)
        return self._landed(place, location, unit, manifest, rows, rows, search.unreadable)

    def _landed(
        self,
        place: RecordPlace,
        location: OffsetLocation,
        unit: Unit,
        manifest: Manifest,
        record_rows: Iterable[LakeRow],
        sought_rows: Sequence[LakeRow],
        unreadable: Iterable[str] = (),
    ) -> RecordFacts:
        """Compares all rows of the record with those of the tables that take the sought ones."""
        types = Counter(row.type for row in record_rows if row.type is not None)
        sought_types = {row.type for row in sought_rows if row.type is not None}
        if not sought_rows and manifest.forgotten_on:  # its type is not known any more
            sought_types = set(manifest.rows_by_type())
        tables = TableReader(self.pipeline, self.lake.url, unit, manifest).read(place, types, sought_types)
        return RecordFacts(place, location, manifest, tuple(sought_rows), tuple(unreadable), tables)

    def _scanned(self, unit: Unit, manifest: Manifest, match: RowMatch, say: Say) -> Iterator[RecordFacts]:
        search = FileSearch(self.lake, manifest)
        rows: list[LakeRow] = []
        if manifest.forgotten_on:
            say(f"slice {unit}: files that were forgotten on {manifest.forgotten_on} are not searched")
        for forgotten in manifest.forgotten_records:
            gone = sum(forgotten.rejected_records.values())
            say(
                f"slice {unit}: {gone:,} rejected records were forgotten on {forgotten.on}, and are not "
                "searched"
            )
        files = (*manifest.held_events, *manifest.held_rejected)
        say(f"slice {unit}: {len(files):,} files of {sum(file.rows for file in files):,} rows")
        for file in files:
            with deeper():
                rows += search.matching(file, match, _MOST_ROWS - len(rows))
            if len(rows) >= _MOST_ROWS:
                say(f"slice {unit}: more than {_MOST_ROWS:,} rows match; the others are not shown")
                break
        for line in search.unreadable:
            say(f"slice {unit}: not readable: {line}")
        rows.sort(key=lambda row: (row.place, row.number or 0))
        for place, matching_rows in groupby(rows, key=lambda row: row.place):
            yield self._matched(place, unit, manifest, list(matching_rows))

    def _matched(
        self, place: RecordPlace, unit: Unit, manifest: Manifest, rows: Sequence[LakeRow]
    ) -> RecordFacts:
        """Of an array more rows may have landed than those that match."""
        location = _location_of(unit.slice, manifest, place)
        if manifest.rows is None:
            return self._landed(place, location, unit, manifest, rows, rows)
        search = FileSearch(self.lake, manifest)
        return self._landed(place, location, unit, manifest, search.at(place), rows, search.unreadable)

    def _kafka(self, place: RecordPlace) -> PartitionEdges:
        try:
            return _edges(self.topics_of, self.pipeline.cluster(place.cluster), place)
        except SluiceError as error:
            return PartitionEdges(error=str(error))


def _edges(topics_of: TopicsOf, cluster: Cluster, place: RecordPlace) -> PartitionEdges:
    """Raises what the cluster raises."""
    with topics_of(cluster) as reader:
        state = reader.describe(place.topic)
        if place.partition not in state.ends:
            return PartitionEdges(error=f"topic {place.topic} has no partition {place.partition}")
        high = reader.high_watermarks(place.topic, [place.partition])
        stable = state.ends[place.partition]
        end = max(stable, high.get(place.partition, stable))
        return PartitionEdges(state.log_starts[place.partition], stable, end)


def _location_of(slice_: Slice, manifest: Manifest, place: RecordPlace) -> OffsetLocation:
    """Returns the location by the manifest alone."""
    uuids = [r.uuid for r in manifest.ranges if (r.topic, r.partition) == (place.topic, place.partition)]
    return OffsetLocation(uuids[0] if uuids else "", slice_, None, None)


# Asks ClickHouse what each table that takes a record's type has of it.
_IDENTIFYING = {"_topic", "_partition", "_offset"}


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
        rejected_rows = [
            tuple(unfit)
            for client in clients
            for unfit in read_rejected_rows(
                client, "find/rejected_rows", self.pipeline, [target.table], parameters
            )
        ]
        unfit_rows = sum(
            count
            for client in clients
            for (count,) in read_rejected_rows(
                client, "find/unfit_rows", self.pipeline, [target.table], parameters
            )
        )
        tables = [(client, read_table(client, target.database, target.name)) for client in clients]
        return TableRecord(
            target.table,
            self._commit(row),
            datetime.fromtimestamp(max(times) / 1000, UTC) if times else None,
            _counted([_rows(client, target_table, parameters) for client, target_table in tables]),
            tuple(rejected_rows),
            int(unfit_rows),
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
    return engine_of(target_table.engine).keeps and not target_table.ttl


def _rows(client: Client, target_table: TargetTable | None, parameters: dict[str, Any]) -> int | None:
    """Returns how many rows of the record the table has; None where nothing tells its rows apart."""
    if target_table is None or not {column.name for column in target_table.columns} >= _IDENTIFYING:
        return None
    ((count,),) = client.rows(render("find/rows", table=table(target_table.table)), parameters)
    return int(count)


def _counted(counts: Sequence[int | None]) -> int | None:
    counted = [count for count in counts if count is not None]
    return sum(counted) if len(counted) == len(counts) else None
