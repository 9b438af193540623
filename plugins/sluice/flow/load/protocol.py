"""The temporary-table protocol for one run of units. docs/design/load.md has the reason for each step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from sluice import crash_points
from sluice.clients.clickhouse.hidden_rows import check_visible
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, listed, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable, view_stamps
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Newest
from sluice.crash_points import TableLoad
from sluice.errors import Changed, Conservation, SluiceError
from sluice.flow.load.changes import Changes, Rehearsal
from sluice.flow.load.fencing import own_tables_of
from sluice.flow.load.kept_rows import KeepRows
from sluice.flow.load.row_checks import Released, held_units, rows_held
from sluice.flow.load.staging import Staging, Tally, create_rejected_rows
from sluice.flow.load.work import LoadWork, UnitLoad
from sluice.flow.load.writer import Destination, UnitCounts, Writer, destinations
from sluice.slices import Unit


@dataclass(frozen=True)
class LoadRun:
    """One attempt at loading `works` into one target; every method is a step, in the order of `execute`.
    `target_table` is as it was by the rules of the load, and `present` as it is."""

    pipeline: Pipeline
    target: Target
    target_table: TargetTable
    present: TargetTable
    works: Sequence[LoadWork]
    staging: Staging
    writer: Writer
    lake_root: str
    token: str
    rules: str = ""  # the digest of those that it loads by
    released: Released = field(default_factory=dict)
    marks: bool = False  # as `Abilities` has it

    def execute(self) -> list[UnitLoad]:
        """Raises Fenced, Conservation (a count that must hold does not), Changed, and what the client
        raises."""
        try:
            rows, rejected_rows, view_rows, tallies = self._prepare()
        except SluiceError as error:
            if not error.retryable:
                with suppress(SluiceError):  # else the next attempt does
                    self._abandon()
            raise
        self._revoke()
        crash_points.reached(TableLoad.REVOKED)
        self._delete()
        crash_points.reached(TableLoad.DELETED)
        self._reject(rejected_rows)
        crash_points.reached(TableLoad.REJECTED)
        Move(self.target_table, self._destinations, self.writer).execute()
        crash_points.reached(TableLoad.MOVED)
        self._compare(rows, rejected_rows, view_rows)
        crash_points.reached(TableLoad.COUNTED)
        self._expect_unchanged()
        self._changes.commit(self.writer.rows_by_unit(self.writer.attempt.staging))
        crash_points.reached(TableLoad.COMMITTED)
        self._drop()
        crash_points.reached(TableLoad.DROPPED)
        return [self._loaded(work.unit, work.manifest, rows, rejected_rows, tallies) for work in self.works]

    @staticmethod
    def _loaded(
        unit: Unit,
        manifest: str,
        rows: UnitCounts,
        rejected_rows: UnitCounts,
        tallies: Mapping[Unit, Tally],
    ) -> UnitLoad:
        counts, tally = (rows.get(unit, 0), rejected_rows.get(unit, 0)), tallies.get(unit, Tally())
        return UnitLoad(unit, manifest, *counts, loaded=True, defaulted=tally.defaulted, failed=tally.failed)

    def freeze(self) -> list[UnitLoad]:
        """Commits what a rollup has of `works` as it is: nothing has all of their input any more."""
        self._create_fence()
        rows = Sql(f"SELECT slice, cluster, landed AS rows FROM {self._fence}")  # noqa: S608 - quoted
        replace(self._changes, views=self._view_rows({})).commit(rows)
        self._drop()
        return [UnitLoad(w.unit, w.manifest, w.landed, 0, loaded=False) for w in self.works]

    def _prepare(self) -> tuple[UnitCounts, UnitCounts, dict[str, UnitCounts], dict[Unit, Tally]]:
        """Stages all rows and tries all that follows; what it makes is the attempt's own.

        Returns the staged rows, the rejected rows, of each view's table its staged rows, and what the rows
        lack and fail.
        """
        self._create_fence()
        crash_points.reached(TableLoad.FENCED)
        self.staging.stage()
        crash_points.reached(TableLoad.STAGED)
        rows, rejected_rows = self.staging.review()
        self._keep_rows(rows)
        tallies = self.staging.tallies()
        self._hold(tallies)
        crash_points.reached(TableLoad.REVIEWED)
        view_rows = self._rehearsal.execute()
        self._expect_unchanged()
        crash_points.reached(TableLoad.REHEARSED)
        return rows, rejected_rows, view_rows, tallies

    @property
    def _rehearsal(self) -> Rehearsal:
        attached, changes = self.target_table.attachable, self._changes.rehearsal()
        return Rehearsal(self._destinations, self.staging, self.writer, attached, changes)

    @property
    def _changes(self) -> Changes:
        shard_filter = self.staging.shard_filter
        return Changes(
            works=self.works,
            writer=self.writer,
            marks=self.marks,
            ledger_values=self._ledger_values(),
            views=self._view_rows(view_stamps(self.target_table)),
            lacking=shard_filter.lacking,
            counted=bool(shard_filter.lacks),
        )

    def _view_rows(self, stamps: Mapping[str, str]) -> Sql:
        """Returns the SELECT of the staged rows of the views' tables, as they are once all is merged."""
        view_tables = {view_table.table: view_table for view_table in self.target_table.stored}
        each = []
        for destination in self._destinations:
            if destination.table in stamps:
                rows = self.writer.rows_by_unit(view_tables[destination.table].as_merged(destination.staged))
                stamp = literal(stamps[destination.table])
                each.append(f"UNION ALL SELECT slice, cluster, {stamp}, rows FROM ({rows})")  # noqa: S608
        return render(
            "load/view_rows",
            fence=self._fence,
            stamps=listed(map(literal, stamps.values())),
            each=Sql(" ".join(each)),
        )

    @property
    def _destinations(self) -> tuple[Destination, ...]:
        return destinations(self.target_table, self.writer.attempt)

    @property
    def _fence(self) -> Sql:
        return self.writer.attempt.fence

    @property
    def _rejected_rows(self) -> Sql:
        return self.writer.attempt.rejected_rows

    def _create_fence(self) -> None:
        create_fence(self.writer, self.works)

    def _expect_unchanged(self) -> None:
        """Raises Changed: rows of a view that was created meanwhile have not been computed."""
        if read_table(self.writer.client, self.target.database, self.target.name) != self.present:
            raise Changed(
                f"table {self.target.table}: it or its materialized views were changed while it was loaded: "
                "load it again"
            )

    def _keep_rows(self, staged: UnitCounts) -> None:
        rejected = partial(self.staging.count_rejected_rows, identifier("sluice", "rejected"))
        KeepRows(self.target_table, self.works, self.writer, self.staging.pipeline, rejected).check(staged)

    def _hold(self, tallies: Mapping[Unit, Tally]) -> None:
        failed = {unit: tally.failed for unit, tally in tallies.items()}
        if held := held_units(self.target.checks, failed, self.released):
            raise rows_held(self.pipeline, self.target, held)

    def _revoke(self) -> None:
        if any(work.replaces for work in self.works):
            self._changes.revoke()

    def _delete(self) -> None:
        """Deletes the units' rows from target, views' tables and sluice.rejected; expects none after that."""
        for destination in self._destinations:
            if self.writer.count_rows(table(destination.table)):
                self._changes.delete(destination, table(destination.table))
                self._expect_nothing(destination.table, self.writer.count_rows(table(destination.table)))
        if self.staging.count_rejected_rows(identifier("sluice", "rejected")):
            self._changes.delete_rejected_rows()
            self._expect_nothing(
                "sluice.rejected", self.staging.count_rejected_rows(identifier("sluice", "rejected"))
            )

    def _expect_nothing(self, name: str, left: UnitCounts) -> None:
        for unit, rows in left.items():
            raise Conservation(
                f"table {name}, slice {unit}: {rows:,} rows are left after their deletion: does another "
                "program write to the table? Load the slice again when none does"
            )

    def _reject(self, rejected_rows: UnitCounts) -> None:
        if rejected_rows:
            self._changes.reject()

    def _compare(
        self, rows: UnitCounts, rejected_rows: UnitCounts, view_rows: Mapping[str, UnitCounts]
    ) -> None:
        """Compares what the tables hold with what was moved; a table that merges rows is not compared.
        `view_rows` are the staged rows of the views' tables."""
        moved = {self.target_table.table: rows, **view_rows}
        for destination in self._destinations:
            if destination.counted or destination.table == self.target_table.table:
                present = self.writer.count_rows(table(destination.table))
                self._expect(
                    destination.table, moved[destination.table], present, expiring=not destination.counted
                )
        rejected = self.staging.count_rejected_rows(identifier("sluice", "rejected"))
        self._expect("sluice.rejected", rejected_rows, rejected)

    def _expect(self, name: str, moved: UnitCounts, present: UnitCounts, expiring: bool = False) -> None:
        for work in self.works:
            expected, counted = moved.get(work.unit, 0), present.get(work.unit, 0)
            # Rows that are older than the table's TTL may be gone by now.
            if counted != expected and not (expiring and counted < expected):
                check_visible(self.writer.client, [name])
                raise _uneven(name, work, expected, counted)

    def _drop(self) -> None:
        for name in (self._fence, *self.staging.tables):
            self.writer.run("drop", render("clickhouse/drop_table", table=name))

    def _abandon(self) -> None:
        """Drops whatever the attempt has made."""
        for name in own_tables_of(self.writer.client, self.writer.attempt):
            self.writer.run("drop", render("clickhouse/drop_table", table=identifier(SYSTEM, name)))

    def _ledger_values(self) -> dict[str, object]:
        return {
            "pipeline": self.pipeline.name,
            "lake": self.lake_root,
            "target": self.target.table,
            "table_uuid": self.target_table.uuid,
            "generation": self.writer.attempt.generation,
            "attempt": self.writer.attempt.number,
            "token": self.token,
            "sharding": self.staging.shard_filter.placement.stamp,
            "rules": self.rules,
            "columns": self._columns,
        }

    @property
    def _columns(self) -> list[str]:
        """Those that decide what rows a unit has: of other tables than a log's newest rows, the rules do."""
        newest = isinstance(self.target.rollup, Newest)
        return sorted(self.staging.filling.columns) if newest else []


def create_fence(writer: Writer, works: Sequence[LoadWork]) -> None:
    """Creates the fence of an attempt, with a row for each unit, and its table of rejected rows."""
    writer.run("fence", render("load/create_fence", fence=writer.attempt.fence))
    lines = "\n".join(json.dumps(_fence_row(work)) for work in works)
    writer.run("fence", render("load/fill_fence", fence=writer.attempt.fence), body=lines.encode())
    create_rejected_rows(writer)


def _fence_row(work: LoadWork) -> dict[str, object]:
    return {
        "slice": int(work.unit.slice.start.timestamp()),
        "cluster": work.unit.cluster,
        "landed": work.landed,
        "manifest": work.manifest,
        "types": list(work.types),
        "replaces": work.replaces,
    }


def _uneven(name: str, work: LoadWork, expected: int, counted: int) -> Conservation:
    return Conservation(
        f"table {name}, slice {work.unit}: {expected:,} rows were moved, {counted:,} are there: does "
        "another program write to the table? Load the slice again when none does"
    )


# Moves staged rows into the tables in which they stay.
_PARTITIONS_AT_ONCE = 1000  # of one statement


@dataclass(frozen=True)
class Move:
    target_table: TargetTable
    destinations: Sequence[Destination]
    writer: Writer

    def execute(self) -> None:
        """Attaches the staged parts; where a quorum has to have the rows first, inserts them."""
        if not self.target_table.attachable:
            self._insert()
            return
        for destination in self.destinations:
            self._attach(destination)

    def _attach(self, destination: Destination) -> None:
        keys = self._partitions(destination)
        for start in range(0, len(keys), _PARTITIONS_AT_ONCE):
            some = keys[start : start + _PARTITIONS_AT_ONCE]
            commands = [Sql(f"ATTACH PARTITION ID {literal(key)} FROM {destination.staged}") for key in some]
            sql = render(
                "load/attach_partitions", target=table(destination.table), partitions=listed(commands)
            )
            self.writer.run("move", sql, blocks=len(commands))

    def _insert(self) -> None:
        """The target's views fire, as they have with the staged rows."""
        target = self.destinations[0]
        sql = render(
            "load/move_rows",
            target=table(target.table),
            columns=listed(map(identifier, self.target_table.filled)),
            staging=target.staged,
            fence=self.writer.attempt.fence,
        )
        self.writer.run("move", sql, blocks=len(self._partitions(target)))

    def _partitions(self, destination: Destination) -> list[str]:
        rows = self.writer.rows(render("load/staged_partitions"), {"name": destination.staged_name})
        return [key for (key,) in rows]
