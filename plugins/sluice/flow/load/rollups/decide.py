"""Which units of a rollup are made, and out of what. Pure.

A unit's rows are made where its source was committed anew since, and only of all the rows that the source's
commit has: of those in the source table while they are all there, else of the lake's files. Where neither has
them, the unit is frozen: its rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from sluice.config.target import Derived, Target
from sluice.flow.load.work import LoadWork
from sluice.plan.modes import LOADS_AGAIN, Mode
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow, commit_of, frozen_commit, settles

LedgerRows = Mapping[Unit, LedgerRow]


class Input(StrEnum):
    TABLE = "the source table's rows"
    LAKE = "the lake's files"
    NONE = "nothing has all of its rows any more"
    WAITS = "its source is to be loaded first"


@dataclass(frozen=True)
class SourceUnit:
    """One unit in the source table: its commit, how many of its rows are there now, and how a load would make
    them of the lake's files, None where the lake has forgotten these.

    `steady`: no TTL of columns takes values away.
    """

    row: LedgerRow
    counted: int
    steady: bool
    work: LoadWork | None

    @property
    def whole(self) -> bool:
        return self.steady and self.counted == self.row.rows

    @property
    def input(self) -> Input:
        if self.whole:
            return Input.TABLE
        if self.work is None:
            return Input.NONE
        row, work = self.row, self.work
        same = (row.manifest, row.types, row.sharding) == (work.manifest, work.types, work.sharding)
        return Input.LAKE if same else Input.WAITS


@dataclass(frozen=True)
class RollupChoice:
    """`todo` is made, `frozen` only noted in the ledger; `skipped` are the ledger's rows of the rest."""

    todo: list[LoadWork]
    frozen: list[LoadWork]
    skipped: list[LedgerRow]


@dataclass(frozen=True)
class RollupFacts:
    """What a choice goes by: what the ledger holds of the source and of the rollup. `rules`: the digest of an
    earlier load's, if the rollup is as it was then. `sharding` and `source_sharding`: the stamps by which the
    pipeline file places the rollup and its source. `present`: units of which the table has rows, whether or
    not it has committed them."""

    rollup: Derived
    source: LedgerRows
    ledger: LedgerRows
    mode: Mode
    token: str
    sharding: str = ""
    rules: str = ""
    source_sharding: str = ""
    present: Collection[Unit] = ()

    def due(self, units: Iterable[Unit]) -> list[Unit]:
        """Returns those whose rows are of another commit, in their order. A unit that the source does not
        hold waits for it."""
        return [unit for unit in sorted(units) if unit in self.source and not self._done(unit)]

    def choose(self, units: Iterable[Unit], source_units: Mapping[Unit, SourceUnit]) -> RollupChoice:
        """`source_units` has those that are due."""
        choice = RollupChoice([], [], [])
        for unit in sorted(unit for unit in units if unit in self.source):
            row, source = self.ledger.get(unit), source_units.get(unit)
            if source is None or source.input is Input.WAITS:
                choice.skipped.extend([row] if row else [])
            elif source.input is Input.NONE:
                choice.frozen.append(self._frozen(unit))
            else:
                files = source.work if source.input is Input.LAKE else None
                choice.todo.append(replace(self._work(unit), source=files))
        return choice

    def _done(self, unit: Unit) -> bool:
        row = self.ledger.get(unit)
        if row is None or row.added or row.sharding != self._sharding(unit):
            return False
        if not settles(row.manifest, self._commit(unit)):
            return False
        return self.mode not in LOADS_AGAIN or (self.token != "" and row.token == self.token)

    def _sharding(self, unit: Unit) -> str:
        """Its rows are where its source's are."""
        source, row = self.source[unit], self.ledger.get(unit)
        if source.sharding == self.source_sharding:
            return self.sharding
        return source.sharding if row is None else row.sharding

    def _commit(self, unit: Unit) -> str:
        return commit_of(self.rollup, self.source[unit])

    def _work(self, unit: Unit) -> LoadWork:
        landed, replaces = self.source[unit].rows, unit in self.ledger or unit in self.present
        commit = self._commit(unit)
        return LoadWork(unit, commit, (), (), landed, replaces, self._sharding(unit), rules=self.rules)

    def _frozen(self, unit: Unit) -> LoadWork:
        """Its rows are those that the ledger has. Of a load that was stopped it has none."""
        row = self.ledger.get(unit)
        manifest, rules = frozen_commit(row, self._commit(unit)), row.rules if row else ""
        rows = row.rows if row else 0
        return replace(self._work(unit), manifest=manifest, landed=rows, rules=rules, frozen=True)


def frozen_line(target: Target, works: Sequence[LoadWork]) -> str:
    """Says what is frozen now. A load says it once: the ledger has it then."""
    source = target.rollup.source if target.rollup else ""
    units = [work.unit for work in works]
    rows = sum(work.landed for work in works)
    stay = f"their {rows:,} rows stay as they are" if rows else "they get no rows"
    which = str(units[0]) if len(units) == 1 else f"{units[0]} to {units[-1]}"
    return (
        f"{target.table}: frozen: {len(units):,} slices ({which}): rows of {source} that they are made from "
        f"have expired there, and the lake has forgotten the files: {stay}"
    )


def changed(rollup: Derived, works: Sequence[LoadWork], source: LedgerRows) -> list[Unit]:
    """Returns the units whose source is not committed any more as it was when they were chosen."""
    return [
        work.unit
        for work in works
        if work.unit not in source or commit_of(rollup, source[work.unit]) != work.manifest
    ]
