"""The temporary-table protocol for one run of units. docs/design/load.md has the reason for each step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sluice import crash_points
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Pipeline, Target
from sluice.crash_points import TableLoad
from sluice.errors import Conservation, TargetChanged
from sluice.flow.load.destinations import Destination, destinations
from sluice.flow.load.keep_rows import KeepRows, TakesRowsOut
from sluice.flow.load.move_rows import Move
from sluice.flow.load.rehearsal import Rehearsal
from sluice.flow.load.staging import Staging
from sluice.flow.load.work import LoadWork, UnitLoad
from sluice.flow.load.writer import UnitCounts, Writer
from sluice.slices import Unit
from sluice.state.view_stamps import view_stamps


@dataclass(frozen=True)
class LoadRun:
    """One attempt at loading `works` into one target; every method is a step, in the order of `execute`."""

    pipeline: Pipeline
    target: Target
    target_table: TargetTable
    works: Sequence[LoadWork]
    staging: Staging
    writer: Writer
    lake_root: str
    token: str
    replicated: bool = False  # Sluice's own tables are

    def execute(self) -> list[UnitLoad]:
        """Raises Fenced, Conservation (a count that must hold does not), TargetChanged, and what the client
        raises."""
        self._create_fence()
        crash_points.reached(TableLoad.FENCED)
        self.staging.stage()
        crash_points.reached(TableLoad.STAGED)
        rows, misfits = self.staging.review()
        defaulted = self.staging.defaulted()
        self._keep_rows(rows)
        crash_points.reached(TableLoad.REVIEWED)
        view_rows = Rehearsal(
            self._destinations, self.staging, self.writer, self.target_table.attachable
        ).execute()
        self._expect_unchanged()
        crash_points.reached(TableLoad.REHEARSED)
        self._revoke()
        crash_points.reached(TableLoad.REVOKED)
        self._delete()
        crash_points.reached(TableLoad.DELETED)
        self._reject(misfits)
        crash_points.reached(TableLoad.REJECTED)
        Move(self.target_table, self._destinations, self.writer).execute()
        crash_points.reached(TableLoad.MOVED)
        self._compare(rows, misfits, view_rows)
        crash_points.reached(TableLoad.COUNTED)
        self._expect_unchanged()
        self._commit()
        crash_points.reached(TableLoad.COMMITTED)
        self._drop()
        crash_points.reached(TableLoad.DROPPED)
        return [self._loaded(work.unit, work.manifest, rows, misfits, defaulted) for work in self.works]

    @staticmethod
    def _loaded(
        unit: Unit,
        manifest: str,
        rows: UnitCounts,
        misfits: UnitCounts,
        defaulted: Mapping[Unit, Mapping[str, int]],
    ) -> UnitLoad:
        counts = rows.get(unit, 0), misfits.get(unit, 0)
        return UnitLoad(unit, manifest, *counts, loaded=True, defaulted=defaulted.get(unit, {}))

    @property
    def _destinations(self) -> tuple[Destination, ...]:
        return destinations(self.target_table, self.writer.attempt)

    @property
    def _fence(self) -> Sql:
        return self.writer.attempt.fence

    @property
    def _staging(self) -> Sql:
        return self.writer.attempt.staging

    @property
    def _misfits(self) -> Sql:
        return self.writer.attempt.misfits

    def _create_fence(self) -> None:
        self.writer.run("fence", render("load/create_fence", fence=self._fence))
        lines = "\n".join(json.dumps(_fence_row(work)) for work in self.works)
        self.writer.run("fence", render("load/fill_fence", fence=self._fence), body=lines.encode())
        self.writer.run("fence", render("load/create_staged_misfits", misfits=self._misfits))

    def _expect_unchanged(self) -> None:
        """Raises TargetChanged: rows of a view that was created meanwhile have not been computed."""
        if read_table(self.writer.client, self.target.database, self.target.name) != self.target_table:
            raise TargetChanged(
                f"table {self.target.table}: it or its materialized views were changed while it was loaded: "
                "load it again"
            )

    def _keep_rows(self, staged: UnitCounts) -> None:
        rejected = partial(self.staging.count_misfits, identifier("sluice", "rejected"))
        try:
            KeepRows(self.target_table, self.works, self.writer, rejected).check(staged)
        except TakesRowsOut:
            self._drop()
            raise

    def _revoke(self) -> None:
        if any(work.replaces for work in self.works):
            self.writer.run("revoke", render("load/revoke", fence=self._fence), self._ledger_values())

    def _delete(self) -> None:
        """Deletes the units' rows from target, views' tables and sluice.rejected; expects none after that."""
        for destination in self._destinations:
            if self.writer.count_rows(table(destination.table)):
                self.writer.run("delete", self._deletion(destination))
                self._expect_nothing(destination.table, self.writer.count_rows(table(destination.table)))
        if self.staging.count_misfits(identifier("sluice", "rejected")):
            sql = render("load/delete_misfits", fence=self._fence)
            if self.replicated:
                parts = {**self._marked, "target_name": literal(self.target.table)}
                sql = render("load/delete_misfits_replicated", fence=self._fence, **parts)
            self.writer.run("delete", sql, {"target": self.target.table})
            self._expect_nothing(
                "sluice.rejected", self.staging.count_misfits(identifier("sluice", "rejected"))
            )

    def _deletion(self, destination: Destination) -> Sql:
        name = table(destination.table)
        if destination.replicated:
            statement = (
                "load/delete_rows_rewriting_replicated"
                if destination.projections
                else "load/delete_rows_replicated"
            )
            return render(statement, table=name, fence=self._fence, **self._marked)
        statement = "load/delete_rows_rewriting" if destination.projections else "load/delete_rows"
        return render(statement, table=name, fence=self._fence)

    @property
    def _marked(self) -> dict[str, Sql]:
        """The units as values, and what tells the mutation from others: the fence's name."""
        units = (
            f"(toDateTime({int(w.unit.slice.start.timestamp())}, 'UTC'), {literal(w.unit.cluster)})"
            for w in self.works
        )
        return {"units": listed(units), "marker": literal(self.writer.attempt.fence_name)}

    def _expect_nothing(self, name: str, left: UnitCounts) -> None:
        for unit, rows in left.items():
            raise Conservation(
                f"table {name}, slice {unit}: {rows:,} rows are left after their deletion: does another "
                "program write to the table? Load the slice again when none does"
            )

    def _reject(self, misfits: UnitCounts) -> None:
        if misfits:
            sql = render("load/insert_misfits", misfits=self._misfits, fence=self._fence)
            self.writer.run("reject", sql, blocks=1)

    def _compare(self, rows: UnitCounts, misfits: UnitCounts, view_rows: Mapping[str, UnitCounts]) -> None:
        """Compares what the tables hold with what was moved; a table that merges rows is not compared.
        `view_rows` are the staged rows of the views' tables."""
        moved = {self.target_table.table: rows, **view_rows}
        for destination in self._destinations:
            if destination.counted or destination.table == self.target_table.table:
                present = self.writer.count_rows(table(destination.table))
                self._expect(
                    destination.table, moved[destination.table], present, expiring=not destination.counted
                )
        rejected = self.staging.count_misfits(identifier("sluice", "rejected"))
        self._expect("sluice.rejected", misfits, rejected)

    def _expect(self, name: str, moved: UnitCounts, present: UnitCounts, expiring: bool = False) -> None:
        for work in self.works:
            expected, counted = moved.get(work.unit, 0), present.get(work.unit, 0)
            # Rows that are older than the table's TTL may be gone by now.
            if counted != expected and not (expiring and counted < expected):
                raise _uneven(name, work, expected, counted)

    def _commit(self) -> None:
        staged = self.writer.rows_by_unit(self._staging)
        lacking = self.staging.sieve.lacking
        sql = render("load/commit", fence=self._fence, staged=staged, misfits=self._misfits, lacking=lacking)
        views = list(view_stamps(self.target_table).values())
        values = {**self._ledger_values(), "views": views, "counted": bool(self.staging.sieve.lacks)}
        self.writer.run("commit", sql, values, blocks=1)

    def _drop(self) -> None:
        for name in (self._fence, *self.staging.tables):
            self.writer.run("drop", render("clickhouse/drop_table", table=name))

    def _ledger_values(self) -> dict[str, object]:
        return {
            "pipeline": self.pipeline.name,
            "lake": self.lake_root,
            "target": self.target.table,
            "table_uuid": self.target_table.uuid,
            "generation": self.writer.attempt.generation,
            "attempt": self.writer.attempt.number,
            "token": self.token,
            "sharding": self.staging.sieve.placement.stamp,
        }


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
