"""Tables that a SELECT fills, rollups and those of materialized views, against what the SELECT gives now.

If a table has other rows, the SELECT is evaluated again over the same rows: in other orders, and cut into
other blocks. Columns that come out otherwise say nothing of the table: they are named, and not compared. If
the number of rows comes out otherwise, each different row is compared once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import deterministic, read_table
from sluice.clients.clickhouse.query_tree import explained, functions, parse, pushed, tables
from sluice.clients.clickhouse.sql import Sql, table
from sluice.clients.clickhouse.tables import ViewTable, view_stamps
from sluice.config.target import Rollup
from sluice.flow.contents.comparable_columns import (
    ALL_ROWS,
    Comparison,
    RowSums,
    columns_that_differ,
    compare,
    sums_of,
    units_that_differ,
)
from sluice.flow.contents.staged_load import Again, Stage, Staged
from sluice.flow.load.work import LoadWork
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.read_tables import view_commits
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Unit
from sluice.state.departed_tables import everything

_BLOCKS = (1, 8, 1, 8)
"""Of each evaluation. What the order of rows decides (any, groupArray) may by chance be the same in one."""
_CHANGING = "another evaluation of its SELECT over the same rows gives other values"
_OFTEN = "how often a row is there is not compared: blocks of rows decide"
_KEYS = {"_slice", "_cluster"}


@dataclass(frozen=True)
class DerivedTable:
    """A table, or its rows as merges put them together, and what is compared of it in which units.

    `views` write to it; a rollup has none. `reads_more`: the SELECT reads more than its source's rows.
    `unlike`: each evaluation gives other rows.
    """

    called: str
    rows: Sql
    comparison: Comparison
    units: frozenset[Unit]
    reads_more: bool
    views: tuple[ViewTable, ...] = ()
    unlike: bool = False

    def staged_in(self, staged: Staged) -> Sql:
        if not self.views:
            return staged.rows
        view_table = self.views[0]
        return view_table.as_merged(staged.view_tables[view_table.table])


Sums = tuple[Mapping[Unit, RowSums], Mapping[Unit, RowSums]]
"""What the table holds, and what the SELECT has given."""


@dataclass
class DerivedTables:
    """Those of one target on one server. `row`: a tuple that tells its rows apart. `anomaly` returns what
    makes a unit's anomalies.

    `notes` say what is not compared, and `uncompared` are a unit and a table each that another comparison may
    compare."""

    stage: Stage
    works: Sequence[LoadWork]
    staged: Staged
    row: Sql
    repairs: Repairs
    anomaly: Callable[[Unit], Callable[..., Anomaly]]
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    uncompared: list[tuple[Unit, str]] = field(default_factory=list)

    @property
    def _client(self) -> Client:
        return self.stage.client

    @property
    def _units(self) -> list[Unit]:
        return [work.unit for work in self.works]

    def rollup(self, rollup: Rollup, comparison: Comparison) -> tuple[Comparison, list[Unit]]:
        """Returns what can be compared of the target itself, and the units that differ in it."""
        name = self.stage.target.table
        more = reads_more(self._client, everything(rollup), rollup.source)
        own = DerivedTable(name, table(name), comparison, frozenset(self._units), more)
        [(settled, wrong)] = self._settled([own])
        return settled.comparison, self._judged(settled, wrong, rollup.source)

    def leave_out_views(self, rollup: str) -> None:
        """Says of each view's table that it is not compared, because the rows of its source are others by
        now."""
        for view_table in self.staged.target_table.stored:
            self.notes.append(f"table {view_table.called} is not compared: {rollup} differs")
            self.uncompared += [(unit, view_table.called) for unit in self._units]

    def views(self) -> None:
        """Finds the anomalies of the views' tables. Raises what the client raises."""
        derived_tables = [derived for name in self._view_tables() if (derived := self._view_table(name))]
        for derived, wrong in self._settled(derived_tables):
            for column, why in derived.comparison.left_out:
                self._note(derived.called, why, column)
            if derived.comparison.distinct and not derived.unlike:
                self.notes.append(f"table {derived.called}: {_OFTEN}")
            if judged := self._judged(derived, wrong, "its source"):
                self.anomalies += self._view_anomalies(derived, judged)
        for called in self._later_tables():
            self._note_older(called, self._units)

    def _view_tables(self) -> list[str]:
        return [view_table.table for view_table in self.staged.target_table.stored]

    def _view_table(self, name: str) -> DerivedTable | None:
        """Returns what is compared of a view's table; None, and a note, where nothing is."""
        target_table = self.staged.target_table
        views = tuple(view_table for view_table in target_table.view_tables if view_table.table == name)
        view_table, stamp = views[0], view_stamps(target_table)[name]
        commits = view_commits(self._client, self.stage.pipeline, target_table)
        covered = frozenset(unit for unit in self._units if stamp in commits.get(unit, {}))
        if older := [unit for unit in self._units if unit not in covered]:
            self._note_older(view_table.called, older)
        if not covered:
            return None
        engine = view_table.storage
        if not engine.certain:
            self._note(
                view_table.called,
                f"rows of a {engine.kind} cannot be told apart from those that merges have removed",
            )
            return None
        ordered = engine.merges or self.stage.target.rollup is not None
        comparison = compare(self._client, view_table, ordered)
        if engine.merges and comparison.kept != "1":
            self._note(view_table.called, "its TTL deletes rows, and merges put them together before")
            return None
        rows = view_table.as_merged(table(name))
        return DerivedTable(view_table.called, rows, comparison, covered, self._reads_more(views), views)

    def _reads_more(self, views: Collection[ViewTable]) -> bool:
        """Returns whether a view reads more than its source, or one through which its rows have come."""
        waiting, seen = list(views), set()
        while waiting:
            view = waiting.pop()
            if view.view in seen:
                continue
            seen.add(view.view)
            if reads_more(self._client, Sql(view.select), view.source):
                return True
            waiting += [above for above in self.staged.target_table.view_tables if above.table == view.source]
        return False

    def _later_tables(self) -> list[str]:
        """Returns the tables that no view of the units' rules writes to, but a view of today does."""
        target = self.staged.target
        now = read_table(self._client, target.database, target.name)
        view_tables = () if now is None else now.stored
        later = [one.called for one in view_tables if one.table not in self.staged.view_tables]
        return list(dict.fromkeys(later))

    def _note_older(self, called: str, units: Sequence[Unit]) -> None:
        self.uncompared += [(unit, called) for unit in units]
        self.notes.append(
            f"table {called}: {len(units):,} slices are not compared: they were loaded before its views "
            "last changed"
        )

    def _note(self, called: str, why: str, column: str = "") -> None:
        what = f": column {column} is not compared" if column else " is not compared"
        self.notes.append(f"table {called}{what}: {why}")

    def _settled(self, tables: Sequence[DerivedTable]) -> list[tuple[DerivedTable, list[Unit]]]:
        """Returns the tables with what comes out alike each time, and the units that differ in it."""
        wrong = {derived.called: self._wrong(derived) for derived in tables}
        by_name = {derived.called: derived for derived in tables}
        for blocks in _BLOCKS:
            suspects = [by_name[name] for name, units in wrong.items() if units]
            if not suspects:
                break
            with self.stage.staged(self.works, again=Again(self.staged.rows, self.row, blocks)) as again:
                for suspect in suspects:
                    by_name[suspect.called] = self._alike(suspect, again)
                    wrong[suspect.called] = self._wrong(by_name[suspect.called])
        return [(by_name[derived.called], wrong[derived.called]) for derived in tables]

    def _wrong(self, derived: DerivedTable) -> list[Unit]:
        if derived.unlike:
            return []
        return [unit for unit in units_that_differ(*self._sums(derived)) if unit in derived.units]

    def _sums(self, derived: DerivedTable, by_column: bool = False) -> Sums:
        comparison, given = derived.comparison, derived.staged_in(self.staged)
        return (
            self._sums_of(self.staged, derived.rows, comparison, by_column),
            self._sums_of(self.staged, given, comparison, by_column),
        )

    def _sums_of(
        self, staged: Staged, rows: Sql, comparison: Comparison, by_column: bool
    ) -> Mapping[Unit, RowSums]:
        return sums_of(self._client, self.stage.pipeline, staged, rows, comparison, ALL_ROWS, by_column)

    def _alike(self, derived: DerivedTable, again: Staged) -> DerivedTable:
        """Returns the table without the columns to which the other evaluation gives other values."""
        comparison = derived.comparison

        def evaluations(compared: Comparison) -> tuple[Mapping[Unit, RowSums], ...]:
            staged = (self.staged, again)
            return tuple(self._sums_of(one, derived.staged_in(one), compared, True) for one in staged)

        first, second = evaluations(comparison)
        if not comparison.distinct and _rows(first) != _rows(second):
            comparison = comparison.of_different_rows()
            first, second = evaluations(comparison)
        if first.keys() != second.keys():
            return replace(derived, comparison=comparison, unlike=True)
        changing = {
            column for unit in first for column in columns_that_differ(comparison, first[unit], second[unit])
        }
        comparison = comparison.leaving_out(changing, _CHANGING)
        empty = {column.name for column in comparison.columns} <= _KEYS
        unlike = comparison.distinct and (empty or units_that_differ(*evaluations(comparison)) != [])
        return replace(derived, comparison=comparison, unlike=unlike)

    def _judged(self, derived: DerivedTable, wrong: list[Unit], source: str) -> list[Unit]:
        """Returns the units whose difference is an anomaly; else it adds a note."""
        if derived.unlike:
            self._note(derived.called, "its SELECT gives other rows each time")
            return []
        if wrong and derived.reads_more:
            command = self.repairs.run([unit.slice for unit in wrong], "reload", self.stage.target.table)
            self.notes.append(
                f"table {derived.called}: its SELECT gives other rows of {len(wrong):,} slices now: it reads "
                f"more than {source}; if that has changed: {command}"
            )
            return []
        return wrong

    def _view_anomalies(self, derived: DerivedTable, wrong: Sequence[Unit]) -> Iterator[Anomaly]:
        stored, given = self._sums(derived, by_column=True)
        views = ", ".join(dict.fromkeys(view.view for view in derived.views))
        for unit in wrong:
            mine, theirs = stored.get(unit, RowSums()), given.get(unit, RowSums())
            columns = ""
            if mine.rows == theirs.rows and mine.columns and theirs.columns:
                differing = columns_that_differ(derived.comparison, mine, theirs)
                columns = f", other values in {', '.join(differing)}"
            expected = f"{theirs.rows:,} rows with the values that {views} gives of the lake's"
            seen = f"{mine.rows:,} rows{columns}"
            yield replace(
                self.anomaly(unit)(AnomalyKind.VALUES, expected=expected, seen=seen), table=derived.called
            )


def _rows(sums: Mapping[Unit, RowSums]) -> dict[Unit, int]:
    return {unit: one.rows for unit, one in sums.items()}


def reads_more(client: Client, select: Sql, source: str) -> bool:
    """Returns whether a SELECT may read more than the rows of `source`: other tables, the clock, chance.

    Raises what the client raises; a SELECT that the server does not understand reads it knows not what."""
    try:
        tree = pushed(parse(explained(client, select)))
    except ServerError as error:
        if error.retryable:
            raise
        return True
    called = functions(tree)
    return tables(tree) != {source} or not called <= deterministic(client, sorted(called)) | {"arrayJoin"}
