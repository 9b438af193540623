"""A target's values against those that a load of the lake gives now, unit by unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sluice.clients.clickhouse.sql import Sql, identifier, render, table
from sluice.errors import Conservation, TargetRefused
from sluice.flow.contents.comparable_columns import Comparison, compare
from sluice.flow.contents.compare_views import ViewContents
from sluice.flow.contents.later_columns import by_later_columns, notes_of
from sluice.flow.contents.staged_load import Stage, Staged
from sluice.flow.contents.sums import (
    ALL_ROWS,
    RowFilter,
    RowSums,
    columns_that_differ,
    sums_of,
    sums_of_misfits,
)
from sluice.flow.load.source.pull_or_push import Reading
from sluice.flow.load.work import LoadWork, cut
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.manifests import read_manifests

MOST_ROWS = 5_000_000  # that are staged at once
_MOST_UNITS = 1000
_MOST_LOCATED_ROWS = 2_000_000
_MOST_LOCATED = 20


@dataclass
class TableContents:
    """`rows` were compared; `notes` say what could not be; `moved` units were loaded meanwhile."""

    rows: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    moved: list[Unit] = field(default_factory=list)


@dataclass(frozen=True)
class Comparing:
    """One target on one server. `views`: the tables of its materialized views are compared, too."""

    stage: Stage
    repairs: Repairs
    views: bool = True

    def check(self, works: Sequence[LoadWork]) -> TableContents:
        """Compares every row and misfit of the units. Raises Busy, and what the client raises."""
        found = TableContents()
        groups = by_later_columns(self.stage, works, self.stage.ledger())
        found.notes += notes_of(self.stage.lake, self.stage, groups)
        for without, some in [
            (k, part) for k, v in groups.items() for part in cut(v, MOST_ROWS, _MOST_UNITS)
        ]:
            try:
                self._check(some, None, ALL_ROWS, found, without)
            except TargetRefused as error:
                found.notes.append(f"table {self.stage.target.table} is not compared: {error}")
                return found
            except Conservation as error:
                self._uneven(some, error, found)
        return found

    def check_sample(self, work: LoadWork, reading: Reading, where: RowFilter) -> TableContents:
        """Compares the rows of one unit that `reading` gives; `where` finds them in the target. Raises as
        `check`."""
        found = TableContents()
        try:
            [without] = by_later_columns(self.stage, [work], self.stage.ledger())
            self._check([work], reading, where, found, without)
        except Conservation as error:
            self._uneven([work], error, found)
        return found

    def _uneven(self, works: Sequence[LoadWork], error: Conservation, found: TableContents) -> None:
        """The lake's files do not give what landed; unless a `reland` has replaced them meanwhile."""
        now = read_manifests(self.stage.lake, [work.unit for work in works])
        there = [
            work
            for work in works
            if work.unit in now and now[work.unit].id == work.manifest and not now[work.unit].forgotten_on
        ]
        found.anomalies += [self._lake_changed(work, error) for work in there]
        found.moved += [work.unit for work in works if work not in there]

    def _check(
        self,
        works: Sequence[LoadWork],
        reading: Reading | None,
        where: RowFilter,
        found: TableContents,
        without: frozenset[str],
    ) -> None:
        client = self.stage.client
        before = self.stage.ledger()
        with self.stage.staged(works, reading, without) as staged:
            comparison = compare(client, staged.found, self.stage.target.rollup is not None)
            own = replace(where, condition=Sql(where.condition.replace("{staged}", staged.rows)))
            here, given = self._sums(staged, comparison, own, by_column=False)
            wrong = sorted(unit for unit in {*here, *given} if here.get(unit) != given.get(unit))
            anomalies = list(self._values(staged, comparison, own, wrong))
            if reading is None and self.stage.target.rollup is None:
                anomalies += self._misfits(staged)
            views = ViewContents(client, self.stage.pipeline, staged, self._anomaly)
            if reading is None and self.views:
                views.check([work.unit for work in works], self.stage.target.rollup is not None)
        after = self.stage.ledger()
        moved = [work.unit for work in works if not _stood_still(work, before, after)]
        names = {(unit.slice.id, unit.cluster) for unit in moved}
        found.moved += moved
        found.rows += sum(sums.rows for sums in given.values())
        found.anomalies += [a for a in (*anomalies, *views.anomalies) if (a.slice, a.cluster) not in names]
        notes = (*self._notes(comparison), *views.notes)
        found.notes += [note for note in notes if note not in found.notes]

    def _sums(
        self, staged: Staged, comparison: Comparison, where: RowFilter, by_column: bool
    ) -> tuple[Mapping[Unit, RowSums], Mapping[Unit, RowSums]]:
        """Returns what the target holds, and what the lake gives."""
        stage, name = self.stage, table(staged.found.table)
        known = (stage.client, stage.pipeline, staged)
        here = sums_of(*known, name, comparison, where, by_column)
        return here, sums_of(*known, staged.rows, comparison, ALL_ROWS, by_column)

    def _values(
        self, staged: Staged, comparison: Comparison, where: RowFilter, wrong: Sequence[Unit]
    ) -> Iterator[Anomaly]:
        if not wrong:
            return
        here, given = self._sums(staged, comparison, where, by_column=True)
        for number, unit in enumerate(wrong):
            mine, theirs = here.get(unit, RowSums()), given.get(unit, RowSums())
            located = []
            small = max(mine.rows, theirs.rows) <= _MOST_LOCATED_ROWS and number < _MOST_LOCATED
            if comparison.identity and small and where == ALL_ROWS:
                located = self._located(staged, comparison, unit)
            yield from self._of_unit(unit, comparison, mine, theirs, located)

    def _located(
        self, staged: Staged, comparison: Comparison, unit: Unit
    ) -> list[tuple[str, int | None, list[int]]]:
        """Returns (topic, partition, offsets) of the records that differ, at most a thousand."""
        sql = render(
            "verify/differing",
            row=comparison.row,
            table=table(staged.found.table),
            staged=staged.rows,
            kept=comparison.kept,
        )
        where = {"slice": int(unit.slice.start.timestamp()), "cluster": unit.cluster}
        offsets: dict[tuple[str, int], list[int]] = {}
        for topic, partition, offset in self.stage.client.rows(sql, where):
            offsets.setdefault((topic, partition), []).append(offset)
        return [(topic, partition, found) for (topic, partition), found in offsets.items()]

    def _of_unit(
        self,
        unit: Unit,
        comparison: Comparison,
        mine: RowSums,
        theirs: RowSums,
        located: Sequence[tuple[str, int | None, list[int]]],
    ) -> Iterator[Anomaly]:
        columns = columns_that_differ(comparison, mine, theirs) if mine.columns and theirs.columns else []
        named = f", other values in {', '.join(columns)}" if columns and mine.rows == theirs.rows else ""
        fault = (f"{theirs.rows:,} rows with the values that the lake gives", f"{mine.rows:,} rows{named}")
        for topic, partition, offsets in located or [("", None, [])]:
            records = f"; records {', '.join(map(str, offsets[:10]))}" if offsets else ""
            more = f" and {len(offsets) - 10:,} more" if len(offsets) > 10 else ""
            yield self._anomaly(unit)(
                AnomalyKind.VALUES,
                expected=fault[0],
                seen=f"{fault[1]}{records}{more}",
                topic=topic,
                partition=partition,
                offsets=(offsets[0], offsets[-1] + 1) if offsets else None,
            )

    def _misfits(self, staged: Staged) -> Iterator[Anomaly]:
        known = (self.stage.client, self.stage.pipeline, staged)
        here = sums_of_misfits(*known, identifier("sluice", "rejected"))
        given = sums_of_misfits(*known, staged.misfits)
        for unit in sorted(unit for unit in {*here, *given} if here.get(unit) != given.get(unit)):
            mine, theirs = here.get(unit, RowSums()), given.get(unit, RowSums())
            expected = f"{theirs.rows:,} misfits with the records, columns and payloads that the lake gives"
            seen = f"{mine.rows:,} in sluice.rejected" + (", other ones" if mine.rows == theirs.rows else "")
            yield self._anomaly(unit)(AnomalyKind.MISFITS, expected=expected, seen=seen)

    def _anomaly(self, unit: Unit) -> partial[Anomaly]:
        hour = not unit.cluster  # of a rollup by event hour: the slices of its rows are not the unit's
        return partial(
            Anomaly,
            command="" if hour else self.repairs.reload(unit.slice),
            advice="reload the slices that brought rows of this event hour" if hour else "",
            slice=unit.slice.id,
            cluster=unit.cluster,
            table=self.stage.target.table,
            shard=self.stage.placement.shard,
        )

    def _lake_changed(self, work: LoadWork, error: Conservation) -> Anomaly:
        command = self.repairs.reland(work.unit.slice)
        anomaly = self._anomaly(work.unit)
        return anomaly(AnomalyKind.VALUES, "the lake's files give what landed", str(error), command=command)

    def _notes(self, comparison: Comparison) -> Iterator[str]:
        for name, why in comparison.left_out:
            yield f"table {self.stage.target.table}: column {name} is not compared: {why}"


def _stood_still(work: LoadWork, before: Mapping[Unit, LedgerRow], after: Mapping[Unit, LedgerRow]) -> bool:
    row = before.get(work.unit)
    return row is not None and row.manifest == work.manifest and after.get(work.unit) == row
