"""A target's values against those that a load of the lake gives now, unit by unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import Sql, identifier, own_prefix, render, table
from sluice.config.target import Rollup
from sluice.errors import Conservation, TargetRefused
from sluice.flow.contents.comparable_columns import (
    ALL_ROWS,
    Comparison,
    RowFilter,
    RowSums,
    columns_that_differ,
    compare,
    sums_of,
    sums_of_rejected_rows,
    units_that_differ,
)
from sluice.flow.contents.compare_floats import ParsedFloats
from sluice.flow.contents.derived_tables import DerivedTables
from sluice.flow.contents.sampling import Sample
from sluice.flow.contents.staged_load import Stage, Staged
from sluice.flow.load.work import LoadWork, by_rules, cut
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs, is_repair
from sluice.safe_text import visible
from sluice.slices import SliceRange, Unit
from sluice.state.additions import LaterValues, latest, maybe_lost, read_additions
from sluice.state.ledger import LedgerRow
from sluice.state.manifests import read_manifests


# Columns that a table has got since units were loaded: their rows are compared with the DEFAULT.
@dataclass
class LaterColumns:
    """By column the units that lack it and may have its field, each with how many rows have it; None: the
    manifest has not counted them."""

    units: dict[str, dict[Unit, int | None]] = field(default_factory=lambda: defaultdict(dict))
    evolved: set[str] = field(default_factory=set)

    def add(self, stage: Stage, works: Sequence[LoadWork], later: Collection[str]) -> None:
        """Adds units that were loaded before the table got the columns `later`.

        Raises what the lake raises."""
        if not later:
            return
        manifests = read_manifests(stage.lake, [work.unit for work in works])
        self.evolved |= set(latest(read_additions(stage.lake), stage.target.table))
        for work in works:
            if work.unit in manifests:
                lost = maybe_lost(stage.target, manifests[work.unit], work.types, later)
                for column, rows in lost.items():
                    self.units[column][work.unit] = rows

    def notes(self, stage: Stage) -> list[str]:
        """Returns a line for each column that units lack whose rows may have the field."""
        return [_note(stage, name, units, name in self.evolved) for name, units in sorted(self.units.items())]


def _note(stage: Stage, column: str, units: dict[Unit, int | None], evolved: bool) -> str:
    counted = sum(count or 0 for count in units.values())
    maybe = sum(count is None for count in units.values())
    parts = [f"{counted:,} rows have its field"] if counted else []
    parts += [f"of {maybe:,} its field was not counted in every row"] if maybe else []
    first, last = min(units).slice.start, max(units).slice.end
    slices = f"{len(units):,} loaded {'slice' if len(units) == 1 else 'slices'}"
    fills = ("--backfill",) if evolved else ("--mode", "reload")
    command = stage.pipeline.command("run", *SliceRange(first, last).words, *fills)
    how = f"`{command}` " + ("loads them again" if evolved else "fills it by the pipeline file as it is")
    return (
        f"table {stage.target.table}: column {visible(column)} was added later than {slices}, without "
        f"their values: {', '.join(parts)}; {how}"
    )


MOST_ROWS = 5_000_000  # that are staged at once
_MOST_UNITS = 1000
_MOST_LOCATED_ROWS = 2_000_000
_MOST_LOCATED = 20


@dataclass
class TableContents:
    """`rows` were compared; `notes` say what could not be, and `blocked` what cannot be before somebody has
    done what the line says; `moved` units were loaded meanwhile. `uncompared` are a unit and a table each,
    which another comparison may compare."""

    rows: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    moved: list[Unit] = field(default_factory=list)
    uncompared: list[tuple[Unit, str]] = field(default_factory=list)
    later: LaterColumns = field(default_factory=LaterColumns)


@dataclass(frozen=True)
class Comparing:
    """One target on one server. `views`: the tables of its materialized views are compared, too."""

    stage: Stage
    repairs: Repairs
    views: bool = True

    def check(self, works: Sequence[LoadWork]) -> TableContents:
        """Compares every row and rejected row of the units. Raises Busy, and what the client raises."""
        contents = TableContents()
        ledger = self.stage.ledger()
        groups = by_rules(_with_rules(work, ledger) for work in works)
        parts = [part for group in groups for part in cut(group, MOST_ROWS, _MOST_UNITS)]
        for number, staged_works in enumerate(parts):
            try:
                self._check_each(staged_works, contents)
            except TargetRefused as error:
                named = error.table == self.stage.target.table
                contents.blocked.append(str(error) if named else f"table {self.stage.target.table}: {error}")
                left = [work.unit for left_works in parts[number:] for work in left_works]
                contents.uncompared += product(left, self._tables())
                break
        contents.notes += contents.later.notes(self.stage)
        return contents

    def _check_each(self, works: Sequence[LoadWork], contents: TableContents) -> None:
        """Compares the units together. Where one of them cannot be staged it compares halves of them, so that
        all others are compared."""
        try:
            self._check(works, contents)
        except Conservation as error:
            if len(works) == 1:
                self._uneven(works[0], error, contents)
                return
            middle = len(works) // 2
            for half in (works[:middle], works[middle:]):
                self._check_each(half, contents)

    def _tables(self) -> list[str]:
        """Returns the target's name, and those of its views' tables."""
        target = self.stage.target
        target_table = read_table(self.stage.client, target.database, target.name)
        view_tables = () if target_table is None else target_table.stored
        return [target.table, *(view_table.called for view_table in view_tables)]

    def check_sample(self, work: LoadWork, sample: Sample) -> TableContents:
        """Compares some rows of one unit. Raises as `check`."""
        contents = TableContents()
        try:
            self._check([_with_rules(work, self.stage.ledger())], contents, sample)
        except Conservation as error:
            self._uneven(work, error, contents)
        return contents

    def _uneven(self, work: LoadWork, error: Conservation, contents: TableContents) -> None:
        """Adds that the lake's files do not give what landed, but for a unit that a `reland` has replaced."""
        now = read_manifests(self.stage.lake, [work.unit]).get(work.unit)
        if now is None or now.id != work.manifest or now.forgotten_on:
            contents.moved.append(work.unit)
        else:
            contents.anomalies.append(self._lake_changed(work, error))

    def _check(
        self,
        works: Sequence[LoadWork],
        contents: TableContents,
        sample: Sample | None = None,
    ) -> None:
        client = self.stage.client
        reading, where, rows = sample or (None, ALL_ROWS, None)
        before = self.stage.ledger()
        with self.stage.staged(works, reading) as staged:
            rollup = self.stage.target.rollup
            comparison = compare(client, staged.target_table, isinstance(rollup, Rollup))
            if staged.renamed is not None:
                comparison = comparison.without(staged.later)
            staged_where = replace(where, condition=Sql(where.condition.replace("{staged}", staged.rows)))
            target_sums, lake_sums = self._sums(staged, comparison, staged_where)
            wrong = units_that_differ(target_sums, lake_sums)
            derived = DerivedTables(self.stage, works, staged, comparison.row, self.repairs, self._anomaly)
            if isinstance(rollup, Rollup) and wrong:
                comparison, wrong = derived.rollup(rollup, comparison)
                derived.leave_out_views(self.stage.target.table)
            elif reading is None and self.views:
                derived.views()
            anomalies = list(self._values(staged, comparison, staged_where, wrong))
            parsed = ParsedFloats(self.stage, staged, comparison)
            anomalies += parsed.check(works, rows, self._anomaly)
            if reading is None and rollup is None:
                anomalies += self._rejected_rows(staged)
            if staged.renamed is None:
                contents.later.add(self.stage, works, staged.later)
            else:
                self._note_renamed(works, staged.renamed, contents)
                anomalies = [_by_hand(anomaly, works, staged.renamed) for anomaly in anomalies]
                derived.anomalies = [_by_hand(one, works, staged.renamed) for one in derived.anomalies]
        after = self.stage.ledger()
        moved = [work.unit for work in works if not _stood_still(work, before, after)]
        names = {(unit.slice.id, unit.cluster) for unit in moved}
        contents.moved += moved
        contents.rows += sum(sums.rows for sums in lake_sums.values())
        anomalies += derived.anomalies
        contents.anomalies += [a for a in anomalies if (a.slice, a.cluster) not in names]
        contents.uncompared += derived.uncompared
        notes = (*self._notes(comparison), *derived.notes)
        contents.notes += [note for note in notes if note not in contents.notes]

    def _note_renamed(self, works: Sequence[LoadWork], renamed: LaterValues, contents: TableContents) -> None:
        """Says that values are not compared that may be those of a column by another name."""
        units = [work.unit for work in works]
        contents.blocked.append(str(renamed.refusal([unit.slice for unit in units])))
        contents.uncompared += [(unit, self.stage.target.table) for unit in units]

    def _sums(
        self, staged: Staged, comparison: Comparison, where: RowFilter = ALL_ROWS, by_column: bool = False
    ) -> tuple[Mapping[Unit, RowSums], Mapping[Unit, RowSums]]:
        """Returns what the target holds, and what the lake gives."""
        stage, name = self.stage, staged.target_table.as_merged(table(staged.target_table.table))
        shared = (stage.client, stage.pipeline, staged)
        target_sums = sums_of(*shared, name, comparison, where, by_column)
        return target_sums, sums_of(*shared, staged.rows, comparison, ALL_ROWS, by_column)

    def _values(
        self, staged: Staged, comparison: Comparison, where: RowFilter, wrong: Sequence[Unit]
    ) -> Iterator[Anomaly]:
        if not wrong:
            return
        target_sums, lake_sums = self._sums(staged, comparison, where, by_column=True)
        for number, unit in enumerate(wrong):
            mine, theirs = target_sums.get(unit, RowSums()), lake_sums.get(unit, RowSums())
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
            own=Sql(own_prefix([column.name for column in staged.target_table.columns])),
            row=comparison.row,
            table=staged.target_table.as_merged(table(staged.target_table.table)),
            staged=staged.rows,
            kept=comparison.kept,
        )
        where = {"slice": int(unit.slice.start.timestamp()), "cluster": unit.cluster}
        offsets_by_place: dict[tuple[str, int], list[int]] = {}
        for topic, partition, offset in self.stage.client.rows(sql, where):
            offsets_by_place.setdefault((topic, partition), []).append(offset)
        return [(topic, partition, offsets) for (topic, partition), offsets in offsets_by_place.items()]

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

    def _rejected_rows(self, staged: Staged) -> Iterator[Anomaly]:
        shared = (self.stage.client, self.stage.pipeline, staged)
        target_sums = sums_of_rejected_rows(*shared, identifier("sluice", "rejected"))
        lake_sums = sums_of_rejected_rows(*shared, staged.rejected_rows)
        for unit in units_that_differ(target_sums, lake_sums):
            mine, theirs = target_sums.get(unit, RowSums()), lake_sums.get(unit, RowSums())
            expected = (
                f"{theirs.rows:,} rejected rows with the records, columns and payloads that the lake gives"
            )
            seen = f"{mine.rows:,} in sluice.rejected" + (", other ones" if mine.rows == theirs.rows else "")
            yield self._anomaly(unit)(AnomalyKind.REJECTED_VALUES, expected=expected, seen=seen)

    def _anomaly(self, unit: Unit) -> partial[Anomaly]:
        return partial(
            Anomaly,
            command=self.repairs.repair(unit.slice, self.stage.target.table),
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


def _with_rules(work: LoadWork, ledger: Mapping[Unit, LedgerRow]) -> LoadWork:
    """Returns the work by the rules of the unit's last load."""
    row = ledger.get(work.unit)
    return work if row is None else replace(work, rules=row.rules)


def _by_hand(anomaly: Anomaly, works: Sequence[LoadWork], renamed: LaterValues) -> Anomaly:
    """Returns the anomaly with what works in place of a `repair`, which is refused."""
    slices = [work.unit.slice for work in works if work.unit.slice.id == anomaly.slice]
    if not is_repair(anomaly.command):
        return anomaly
    return replace(anomaly, command=renamed.command(slices), advice=renamed.remedy(slices))


def _stood_still(work: LoadWork, before: Mapping[Unit, LedgerRow], after: Mapping[Unit, LedgerRow]) -> bool:
    row = before.get(work.unit)
    return row is not None and row.manifest == work.manifest and after.get(work.unit) == row
