"""Which units of a rollup have to be made: those whose source was committed anew since. Pure.

By event hour (`grain: hour`) an hour's unit has no cluster: its rows come from several slices, and its ledger
row names their commits in `types`. Each unit of the source has a ledger row of 0 rows besides: it says that
every hour which its commit touches has been made, so that a slice is judged alike with both grains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.config.rollups import Rollup
from sluice.flow.load.work import LoadWork, done
from sluice.plan.modes import Mode
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.rollup_commits import commit_of, is_hour

LedgerRows = Mapping[Unit, LedgerRow]
Choice = tuple[list[LoadWork], list[LedgerRow]]
"""What is to be made, and the ledger's rows of what is skipped."""


@dataclass(frozen=True)
class RollupFacts:
    """What a choice goes by: what the ledger holds of the source and of the rollup."""

    rollup: Rollup
    source: LedgerRows
    ledger: LedgerRows
    mode: Mode
    token: str
    sharding: str = ""

    def choose(self, units: Iterable[Unit]) -> Choice:
        """In the units' order. A unit that the source does not hold waits for it."""
        todo, skipped = [], []
        for unit in sorted(unit for unit in units if unit in self.source):
            commit = self.source[unit]
            work = self._work(unit, commit_of(self.rollup, commit), (), commit.rows)
            row = self.ledger.get(unit)
            if row is not None and done(work, row, self.mode, self.token):
                skipped.append(row)
            else:
                todo.append(work)
        return todo, skipped

    def hours_naming(self, units: Iterable[Unit]) -> set[Unit]:
        """Returns the event hours that were made of a commit of these units."""
        names = {str(unit) for unit in units}
        return {
            hour for hour, row in self.ledger.items() if names & {name.split("@")[0] for name in row.types}
        }

    def hour_works(self, hours: Mapping[Unit, Mapping[Unit, int]]) -> list[LoadWork]:
        """Returns those of `hours` that were made of other commits: by hour the rows of each unit in it
        now."""
        works = []
        for hour, rows in sorted(hours.items(), key=lambda item: item[0]):
            parts = tuple(sorted(name_of(self.source[unit]) for unit in rows if unit in self.source))
            digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
            landed = sum(count for unit, count in rows.items() if unit in self.source)
            hour_work = self._work(hour, f"{digest}#{self.rollup.digest}", parts, landed)
            # Revoked also before its first load: that row finds an hour whose load was stopped.
            work = replace(hour_work, replaces=True)
            if not done(work, self.ledger.get(hour), self.mode, self.token):
                works.append(work)
        return works

    def _work(self, unit: Unit, manifest: str, types: tuple[str, ...], landed: int) -> LoadWork:
        return LoadWork(unit, manifest, types, (), landed, unit in self.ledger, self.sharding)


def name_of(row: LedgerRow) -> str:
    """Returns a source's commit in the `types` of an hour."""
    return f"{row.unit}@{row.generation}:{row.manifest}"


def changed(rollup: Rollup, works: Sequence[LoadWork], source: LedgerRows) -> list[Unit]:
    """Returns the units whose source is not committed any more as it was when they were chosen."""
    names = {name_of(row) for row in source.values()}
    return [
        work.unit
        for work in works
        if (not set(work.types) <= names if is_hour(work.unit) else not _stands(rollup, work, source))
    ]


def _stands(rollup: Rollup, work: LoadWork, source: LedgerRows) -> bool:
    return work.unit in source and commit_of(rollup, source[work.unit]) == work.manifest
