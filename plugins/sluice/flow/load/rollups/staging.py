"""From all of the rows of a unit in the source to the attempt's own table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from sluice.clients.clickhouse.client import READ_QUORUM, Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import expiring_columns, keeps_values, read_table
from sluice.clients.clickhouse.shards import Placement, placement_in
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, own_prefix, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.clickhouse.types import parse, takes
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Derived, Rollup
from sluice.errors import Changed, TargetRefused
from sluice.flow.load.casts import event_paths
from sluice.flow.load.casts.columns import ALWAYS, Filling
from sluice.flow.load.failing_defaults import Failing
from sluice.flow.load.protocol import create_fence
from sluice.flow.load.rollups.decide import LedgerRows, SourceUnit, changed
from sluice.flow.load.shard_filter import ShardFilter
from sluice.flow.load.staging import Staging
from sluice.flow.load.work import LoadWork, work_for
from sluice.flow.load.writer import UnitCounts, Writer
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.departed_tables import columns_of, over
from sluice.state.ledger import LedgerRow, unit_of
from sluice.state.manifests import read_manifests

# The table of a rollup: whether it takes what the SELECT gives, as it is.


def check_rollup(
    client: Client, target_table: TargetTable, target: Target, rollup: Rollup, then: Mapping[str, str]
) -> Filling:
    """Returns how the columns are filled by what the SELECT gives.

    `then`: the types that the columns had when the SELECT was this one. Values that a column takes no more as
    they are, because its type was changed since, are brought into it as ALTER TABLE brings them.
    Raises TargetRefused: the SELECT does not work, or gives other types than the columns had.
    """
    database, _, name = rollup.source.partition(".")
    if read_table(client, database, name) is None:
        raise TargetRefused(target.table, f"its source {rollup.source} is not there", "create that first")
    try:
        select_columns = columns_of(client, rollup)
    except ServerError as error:
        if error.retryable:
            raise
        raise TargetRefused(
            target.table, f"its SELECT fails: {error.reason}", f"correct {rollup.sql}"
        ) from error
    kinds = {column.name: column.type for column in target_table.columns if column.filled}
    names, values = tuple(name for name, _ in select_columns), []
    for name, kind in select_columns:
        if name in ALWAYS:
            remedy = f"leave it out of {rollup.sql}: every row gets its own slice and cluster"
            raise TargetRefused(target.table, f"its SELECT gives {name}", remedy)
        if name not in kinds:
            columns, alias = [column.name for column in target_table.columns], f"rename it in {rollup.sql}"
            remedy = event_paths.remedy(target.table, name, kind, columns, alias)
            raise TargetRefused(target.table, f"it has no column {name}, which its SELECT gives", remedy)
        # The source's column may have changed with the rollup's, as it does before a retry.
        as_now = takes(parse(kinds[name]), parse(kind))
        if not as_now and not takes(parse(then.get(name, kinds[name])), parse(kind)):
            reason = f"its SELECT gives column {name} as {kind}, the table has {kinds[name]}"
            remedy = (
                f"let {rollup.sql} give that, or the column have the SELECT's type: a cast may cut values"
            )
            raise TargetRefused(target.table, reason, remedy)
        # Qualified: a column may be named like an alias.
        value = f"{given(names)}.{identifier(name)}"
        altered = f"CAST({value}, {literal(kinds[name])})"
        values.append(Sql(value if as_now else altered))
    return Filling(names, tuple(values), (), ())


def given(columns: Collection[str]) -> Sql:
    """Returns the name of what the SELECT gives in the statement that inserts it: of no column's."""
    return Sql(f"{own_prefix(columns)}given")


# The table that a rollup is made from, on one server: what it still has, and its rows out of the lake.

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

    @property
    def stamp(self) -> str:
        """What the source's ledger rows are stamped with if the pipeline file has placed the unit."""
        return self.place.placement.stamp

    def ledger(self) -> LedgerRows:
        """Reads what is committed now, by unit."""
        return self.place.ledger()

    @property
    def replicated(self) -> bool:
        source_table = self._table()
        return source_table is not None and source_table.storage.replicated

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
        """Returns how the rows of the commit are made again, by its own routes and placement."""
        if manifest is None:  # it has to land again first: no commit is of this
            return LoadWork(row.unit, "", (), (), 0, replaces=False)
        if manifest.forgotten_on:
            return None
        place, routes = self.place, row.types if row.manifest == manifest.id else None
        return work_for(place.pipeline, place.target, row.unit, manifest, True, row.sharding, routes)

    def stagings(self, works: Sequence[LoadWork], writer: Writer) -> Iterator[Staging]:
        """Yields what stages `works` of the source in tables of the rollup's attempt, which `writer` fills:
        by the rules of each unit's commit, and columns that were added after it stay as empty as they are
        there."""
        for number, ((rules, sharding), group) in enumerate(self._as_loaded(works).items()):
            place = self.place.by_rules(rules)
            target_table, filling = place.inspect()
            attempt = replace(writer.attempt, part=f"_source{number}")
            units = frozenset(work.unit for work in group)
            own_writer = replace(writer, attempt=attempt, units=units, statements=0, blocks=0)
            shard_filter = ShardFilter(placement_in(sharding), target_table, own_writer)
            yield place.staging(
                keeping_values(place.client, target_table), filling, group, own_writer, shard_filter
            )

    def _as_loaded(self, works: Sequence[LoadWork]) -> dict[tuple[str, str], list[LoadWork]]:
        """Groups works by the rules and the placement of their commits."""
        ledger = self.ledger() if works else {}
        groups: dict[tuple[str, str], list[LoadWork]] = defaultdict(list)
        for work in works:
            row = ledger.get(work.unit)  # None: it is being loaded, which is seen once all is staged
            groups[row.rules if row is not None else "", work.sharding].append(work)
        return groups


def keeping_values(client: Client, target_table: TargetTable) -> TargetTable:
    """Returns the table without its views, and whose temporary copy loses nothing: a TTL of a column takes
    values away as soon as they are inserted."""
    expiring = expiring_columns(client, target_table)
    return replace(target_table, view_tables=(), engine_full=_KEEPING, expiring=expiring)


# A replica that has just taken over may lack rows of the source that a quorum has.
SEQUENTIAL = "SETTINGS select_sequential_consistency = 1"


@dataclass(frozen=True)
class DerivedStaging(Staging):
    """Stages what is made of another table's rows.

    A load revokes a unit before it touches its rows: the same commit before and after the SELECT, and as many
    rows as it has, mean that the SELECT has read all of them.
    """

    rollup: Derived
    source: RollupSource

    def review(self) -> tuple[UnitCounts, UnitCounts]:
        """Counts rows by unit; none is rejected. Raises Changed, and TargetRefused where the
        types are others by now."""
        source = self.source.ledger()
        for unit in changed(self.rollup, self.works, source):
            raise self._changed(unit, "was loaded again")
        read = {work.unit: work.landed for work in self.works if work.source is None}
        counted = self.source.counted(read)
        for unit, rows in read.items():
            if counted.get(unit, 0) != rows:
                raise self._changed(unit, "lost rows")
        self._check_again()
        return self.writer.count_rows(self.writer.attempt.staging), {}

    def _check_again(self) -> None:
        """Raises TargetRefused where the types are others by now."""
        raise NotImplementedError

    def _changed(self, unit: Unit, what: str) -> Changed:
        return Changed(
            f"table {self.target_table.table}: {self.rollup.source} {what} in slice {unit} while it was "
            "read: make it again"
        )


@dataclass(frozen=True)
class RollupStaging(DerivedStaging):
    """`lake_rows` stage the source's rows of the units whose work says so. `shuffled`: the SELECT reads its
    rows in an order that chance decides. `then`: the types that the columns had by the rules of the load."""

    rollup: Rollup
    lake_rows: tuple[Staging, ...] = ()
    shuffled: bool = False
    then: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[Sql, ...]:
        own = super().tables
        return (
            *(name for part in self.lake_rows for name in (part.writer.attempt.fence, *part.tables)),
            *own,
        )

    def _insert_own(self, failing: Sequence[Failing] = ()) -> None:
        """Its rows are no events: none is left out as `failing`."""
        staged = self._stage_lake_rows()
        settings = Sql(SEQUENTIAL if self.target_table.storage.replicated or self.source.replicated else "")
        for work in self.works:
            rows = staged.get(work.unit, table(self.rollup.source))
            sql = render(
                "rollups/stage",
                staging=self.writer.attempt.staging,
                columns=listed(map(identifier, self.filling.columns)),
                values=listed(self.filling.values),
                slice=instant(work.unit),
                cluster=literal(work.unit.cluster),
                select=of_unit(self.rollup, work.unit, rows, self.shuffled),
                given=given(self.filling.columns),
                settings=settings,
            )
            self.writer.run("stage", sql)

    def _stage_lake_rows(self) -> dict[Unit, Sql]:
        """Returns the tables that have the source's rows of units, out of the lake.

        Raises Conservation where the files do not give what landed, and TargetRefused where they do not give
        the rows that the source's commit had.
        """
        landed, tables = {work.unit: work.landed for work in self.works}, {}
        for part in self.lake_rows:
            create_fence(part.writer, part.works)
            part.stage()
            counted, _ = part.review()
            for work in part.works:
                self._expect(work.unit, landed[work.unit], counted.get(work.unit, 0))
                tables[work.unit] = part.writer.attempt.staging
        return tables

    def _expect(self, unit: Unit, committed: int, given: int) -> None:
        if given != committed:
            raise TargetRefused(
                self.target_table.table,
                f"of slice {unit} the lake gives {given:,} rows of {self.rollup.source}, and its commit has "
                f"{committed:,}: other values fit its columns now",
                f"load that again first: `{self._reload(unit)}`",
            )

    def _reload(self, unit: Unit) -> str:
        words = (*unit.slice.words, "--table", self.rollup.source, "--mode", "reload")
        return self.pipeline.command("run", *words)

    def _check_again(self) -> None:
        check_rollup(self.writer.client, self.target_table, self.target, self.rollup, self.then)


# The SELECT of one unit. Pure.
#
# A unit's rows are derived from the source's rows of the unit and from nothing else of it, whatever else is
# in the batch: so they are the same however often and in whatever batches they are made.
def of_unit(rollup: Rollup, unit: Unit, rows: Sql, shuffled: bool = False) -> Sql:
    """`rows` is a table with the source's columns. `shuffled`: they come in an order that chance decides."""
    condition = f"_slice = {instant(unit)} AND _cluster = {literal(unit.cluster)}"
    order = " ORDER BY rand()" if shuffled else ""
    return over(rollup, Sql(f"(SELECT * FROM {rows} WHERE {condition}{order})"))  # noqa: S608 - quoted


def instant(unit: Unit) -> Sql:
    return Sql(f"toDateTime({int(unit.slice.start.timestamp())}, 'UTC')")
