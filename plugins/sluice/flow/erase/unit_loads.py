"""The loads after an erasure: of units whose tables may have rows of the files before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pendulum

from sluice import crash_points
from sluice.clients.clickhouse.settings import READ_QUORUM
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import SYSTEM
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Erase
from sluice.errors import Busy
from sluice.flow.batch_loop import landed_before, run_batches, verify_chosen
from sluice.flow.erase.search import Tables
from sluice.flow.land.erased_meanwhile import erase_owed
from sluice.manifest import Manifest
from sluice.plan.plan import work_of
from sluice.safe_text import Remark, Say
from sluice.slices import SliceRange, Unit
from sluice.state.additions import read_additions
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.ledger import Ledger, is_of_another
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState


@dataclass(frozen=True)
class UnitLoads:
    """What ClickHouse holds of some units, and has to load of them."""

    pipeline: Pipeline
    lake: Lake
    say: Say

    def due(self, manifests: Mapping[Unit, Manifest], holding: Collection[Unit]) -> DueUnits:
        if not manifests:
            return DueUnits()
        boundaries = BoundaryLog(self.lake).read()
        facts = (manifests, boundaries, manifests, self.ledgers(manifests), pendulum.now("UTC"))
        unit_statuses = statuses(self.pipeline, *facts, additions=read_additions(self.lake))
        tables = [target.table for target in self.pipeline.targets]
        return due_units(unit_statuses, holding, tables)

    def rewrite(self, units: Sequence[Unit]) -> None:
        """Takes everyone on the list out of these units: also who came onto it meanwhile."""
        for number, unit in enumerate(units, start=1):
            self.say(f"rewriting {unit}, {number:,} of {len(units):,}")
            erase_owed(self.lake, [unit])
        crash_points.reached(Erase.REWRITTEN)

    def load(self, token: str, due: Sequence[UnitStatus]) -> list[str]:
        """Loads units by their own rules. Returns what verify finds wrong of their slices: the receipt says
        it. Raises what loads raise."""
        wrong: list[str] = []
        if due:
            units, work = [status.unit for status in due], work_of(due, "amend")
            run_batches(self.pipeline, work, "amend", token, landed_before, self.say, only=units)
            for error in verify_chosen(self.pipeline, units, self.say):
                if isinstance(error, Busy):  # a fill has to follow the pipeline file, as before the erasure
                    self.say(Remark(error))
                else:
                    wrong.append(str(error))
        crash_points.reached(Erase.LOADED)
        return wrong

    def tables(self, manifests: Mapping[Unit, Manifest]) -> Tables:
        """Returns the rows committed now, by table: rejected rows are rows of sluice.rejected."""
        ledgers = self.ledgers(manifests)
        rows = {name: {unit: row.rows for unit, row in ledger.items()} for name, ledger in ledgers.items()}
        rejected_rows = Counter[Unit]()
        for ledger in ledgers.values():
            rejected_rows.update({unit: row.rejected_rows for unit, row in ledger.items()})
        return {**rows, f"{SYSTEM}.rejected": dict(rejected_rows)}

    def ledgers(self, manifests: Mapping[Unit, Manifest]) -> Mapping[str, Ledger]:
        if not manifests:
            return {}
        with connect_shards(self.pipeline, READ_QUORUM) as servers:
            return ledgers_of(servers, self.pipeline, self.lake.url, self._span(manifests))

    def _span(self, manifests: Mapping[Unit, Manifest]) -> SliceRange:
        starts = [unit.slice for unit in manifests]
        return SliceRange(min(starts).start, max(starts).end, self.pipeline.slice)


# Which units an erasure rewrites, and which it loads. Pure.
@dataclass(frozen=True)
class DueUnits:
    """`rewrite`: their files hold the person. `load`: their files do not, and tables may have rows of the
    files before."""

    rewrite: tuple[UnitStatus, ...] = ()
    load: tuple[UnitStatus, ...] = ()


def due_units(
    statuses: Iterable[UnitStatus],
    holding: Collection[Unit],
    tables: Collection[str],
) -> DueUnits:
    """`statuses`: of all units that the entry covers. `holding`: those whose files hold the person. `tables`:
    what is loaded by the pipeline file."""
    covered, holding = sorted(statuses, key=lambda status: status.unit), frozenset(holding)
    rewrite = [status for status in covered if status.unit in holding]
    load = [s for s in covered if s.unit not in holding and _behind(s, tables)]
    return DueUnits(tuple(rewrite), tuple(load))


def _behind(status: UnitStatus, tables: Collection[str]) -> bool:
    """Returns whether tables may have rows of an older generation.

    A commit of another manifest says so. A load that was killed may have revoked it: one of `tables` without
    a commit may have such rows, too. Without its files nothing is loaded: the receipt names such a unit.
    """
    manifest = status.manifest
    if manifest is None or manifest.forgotten_on or status.state not in (UnitState.LANDED, UnitState.STALE):
        return False
    rows = status.tables
    if any(is_of_another(row, manifest.id) for row in rows.values()):
        return True
    return manifest.generation > 1 and any(name not in rows or rows[name].lacking for name in tables)
