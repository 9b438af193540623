"""`sluice erase`: writes the entry, then rewrites the units that hold the person until none is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pendulum

from sluice import crash_points
from sluice.clients.clickhouse.client import READ_QUORUM
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import SYSTEM
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Erase
from sluice.errors import Busy, Relanded
from sluice.flow.batch_loop import landed_before, run_batches, verify_chosen
from sluice.flow.erase.search import (
    ErasureRequest,
    Tables,
    UnitSearch,
    covered,
    not_applied_lines,
    search,
    unsearched_lines,
)
from sluice.flow.erase.what_is_left import forgotten_lines
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.land.task.erasing import RowErasing
from sluice.manifest import STAMP, Manifest
from sluice.plan.plan import work_of
from sluice.safe_text import Remark, Say
from sluice.slices import SliceRange, Unit
from sluice.state.additions import read_additions
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.erasures import (
    Erasure,
    ErasureList,
    ErasureProgress,
    add_erasure,
    has_receipt,
    left_of,
    note_progress,
    read_progress,
    salted,
    unerased,
)
from sluice.state.file_moves import finish_moves
from sluice.state.ledger import Ledger, LedgerRow, is_of_another
from sluice.state.manifests import landed_units, read_manifests
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState

# The loads after an erasure: of units whose tables may have rows of the files before.


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


_ROUNDS = 10
_NOTED_AT_ONCE = 50  # units


@dataclass(frozen=True)
class ErasurePlan:
    """What an erasure would do: units, rows by type and by table, rejected records. `behind`: units without
    the person that are only loaded, since tables may have rows of their files before."""

    units: int
    of_units: int
    rows: Mapping[str, int]
    rejected: int
    tables: Mapping[str, int]
    unsearched: tuple[str, ...] = ()
    unsearchable: tuple[str, ...] = ()
    behind: int = 0


@dataclass(frozen=True)
class Eraser:
    """One erasure of a pipeline."""

    pipeline: Pipeline
    lake: Lake
    request: ErasureRequest
    say: Say

    @property
    def loads(self) -> UnitLoads:
        return UnitLoads(self.pipeline, self.lake, self.say)

    def plan(self) -> tuple[ErasurePlan, ErasureProgress]:
        """Searches, and changes nothing but the list's salt. Raises CannotErase."""
        erasures = salted(self.lake)
        entry = self.request.entry(erasures, pendulum.now("UTC"))
        manifests = covered(self.pipeline, self.lake, entry)
        rows, tables = Counter[str](), Counter[str]()
        rejected, progress = 0, ErasureProgress()
        ledgers, units = self.loads.ledgers(manifests), {str(unit): unit for unit in manifests}
        unit_search = self._search(erasures, entry)
        for searched in search(manifests, unit_search, progress, self.loads.tables(manifests), self.say):
            progress = progress.with_more(searched.progress)
            rows += searched.rows
            for unit in searched.progress.found:
                own = {name: ledger[units[unit]] for name, ledger in ledgers.items() if units[unit] in ledger}
                tables += by_table(self.pipeline, searched.rows, own)
            rejected += searched.rejected
        lines = (*unsearched_lines(self.lake, manifests), *forgotten_lines(manifests.values()))
        due = self.loads.due(manifests, [unit for unit in manifests if str(unit) in progress.found])
        counts = (len(progress.found), len(manifests))
        hidden = tuple(self.request.unsearchable(manifests))
        return ErasurePlan(*counts, rows, rejected, tables, lines, hidden, len(due.load)), progress

    def ask(self) -> tuple[int, ErasureList]:
        """Writes the entry, or finds one that has not ended: in the same words, or in fewer. A mask that came
        since adds hashes to the words."""
        erasures = salted(self.lake)
        entry = self.request.entry(erasures, pendulum.now("UTC"))
        for number, before in enumerate(erasures.entries):
            if entry.includes(before) and before.words != entry.words and not has_receipt(self.lake, number):
                return number, erasures

        def again(number: int, before: Erasure) -> bool:
            return self.goes_on(before) and has_receipt(self.lake, number)

        asked = add_erasure(self.lake, entry, again)
        crash_points.reached(Erase.ASKED)
        return asked

    def goes_on(self, entry: Erasure) -> bool:
        """Returns whether the request asks for more than an entry: for other words, or later slices."""
        later = not entry.asked_until and entry.until < self.request.slices.end.strftime(STAMP)
        return later or not self._asked_by(entry)

    def _asked_by(self, entry: Erasure) -> bool:
        own = self.request.entry(salted(self.lake), pendulum.now("UTC"))
        return own.words == entry.words

    def erase(self, number: int, erasures: ErasureList, searched: ErasureProgress) -> list[str]:
        """Rewrites units until none holds the person, and loads them; repeatable at any time.

        Returns what verify finds wrong of them afterwards. Raises Relanded where others land the same units
        again and again, and what searching, rewriting and loading raise.
        """
        entry = erasures.entries[number]
        if self._asked_by(entry):  # else what was searched for is more
            note_progress(self.lake, number, self._still(searched, entry))
        wrong, rewritten = list[str](), dict[Unit, str]()
        for _ in range(_ROUNDS):
            progress = self._search_all(number, erasures)
            crash_points.reached(Erase.SEARCHED)
            manifests = covered(self.pipeline, self.lake, entry)
            left = left_of(progress, number, manifests)
            # Of files that the lake forgets nothing can be taken out: the receipt says that.
            holding = [unit for unit in left if rewritten.get(unit) != manifests[unit].id]
            rewritten |= {unit: manifests[unit].id for unit in holding}
            due = self.loads.due(manifests, holding)
            if not due.rewrite and not due.load:
                return wrong
            self.loads.rewrite([status.unit for status in due.rewrite])
            wrong += self.loads.load(f"erasure-{number}", due.load)
        raise Relanded("units are landed again while they are erased: run it again when no run replaces them")

    def _still(self, searched: ErasureProgress, entry: Erasure) -> ErasureProgress:
        """Returns the earlier search's progress, of units whose manifests are still the same."""
        stand = {str(unit): m.id for unit, m in covered(self.pipeline, self.lake, entry).items()}
        clean = {
            unit: manifest_id
            for unit, manifest_id in searched.clean.items()
            if stand.get(unit) == manifest_id
        }
        found = {unit: one for unit, one in searched.found.items() if stand.get(unit) == one.manifest}
        return ErasureProgress(clean, found)

    def _search_all(self, number: int, erasures: ErasureList) -> ErasureProgress:
        """Searches the units that landed without the entry, and notes the progress in the lake."""
        entry, progress = erasures.entries[number], read_progress(self.lake, number)
        manifests = covered(self.pipeline, self.lake, entry)
        holding = {str(unit) for unit in left_of(progress, number, manifests)}
        todo = {u: m for u, m in manifests.items() if m.erasures <= number and str(u) not in holding}
        tables, more, new = self.loads.tables(todo), ErasureProgress(), 0
        for searched in search(todo, self._search(erasures, entry), progress, tables, self.say):
            more, new = more.with_more(searched.progress), new + 1
            if new % _NOTED_AT_ONCE == 0:
                note_progress(self.lake, number, more)
        return note_progress(self.lake, number, more)

    def _search(self, erasures: ErasureList, entry: Erasure) -> UnitSearch:
        return UnitSearch(self.lake, RowErasing(erasures, [entry]), self.request.wheres)


def by_table(pipeline: Pipeline, rows: Mapping[str, int], own: Mapping[str, LedgerRow]) -> Counter[str]:
    """Counts a unit's rows, given by type, by the tables that have them: by its `own` newest ledger rows, and
    what none of them has where the pipeline file says. Pure."""
    loaded = {kind for row in own.values() for kind in row.types}
    found = Counter[str]()
    for target in pipeline.targets:
        if not target.counted and target.rollup is None:
            row = own.get(target.table)
            types = set(pipeline.routed(target, rows)) - loaded if row is None else set(row.types)
            found[target.table] += sum(rows.get(kind, 0) for kind in types)
    return found


# `sluice erase --pending`: applies the erasure list to units that landed without some of its entries.
@dataclass(frozen=True)
class Applied:
    """`units` that landed without an entry, `records` that were taken out of them, what verify says, and to
    which units an entry cannot be applied."""

    units: int
    records: int
    wrong: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()


def apply_list(pipeline: Pipeline, lake: Lake, say: Say) -> Applied:
    """Repeatable at any time. Raises what rewriting and loading raise."""
    manifests = finish_moves(lake, landed_units(lake, pipeline.slice))
    owing: list[Unit] = sorted(unerased(lake, manifests))
    if not owing:
        return Applied(0, 0)
    loads = UnitLoads(pipeline, lake, say)
    loads.due({unit: manifests[unit] for unit in owing}, owing)
    loads.rewrite(owing)
    now = read_manifests(lake, owing)
    wrong = loads.load("erasure-list", loads.due(now, []).load)
    erased = sum(now[unit].erased_rows - manifests[unit].erased_rows for unit in owing)
    unsearched = not_applied_lines(lake, now, unerased(lake, now))
    return Applied(len(owing), erased, tuple(wrong), tuple(unsearched))
