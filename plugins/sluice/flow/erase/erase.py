"""`sluice erase`: the entry first, then the units that hold the person are made again until none is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pendulum

from sluice import crash_points
from sluice.clients.clickhouse.settings import READ_QUORUM
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Erase
from sluice.errors import Relanded
from sluice.flow.batch_loop import Landings, run_chosen
from sluice.flow.erase.erasure_request import ErasureRequest
from sluice.flow.erase.search import Tables, covered, search, unsearched_lines
from sluice.flow.erase.search_unit import UnitSearch
from sluice.flow.erase.what_is_left import forgotten_lines
from sluice.flow.land.task.erasing import ErasedValues
from sluice.manifest import STAMP, Manifest
from sluice.plan.plan import work_of
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit
from sluice.state.erasures.erasure_list import Erasure, ErasureList
from sluice.state.erasures.erasure_progress import ErasureProgress, left_of, note_progress, read_progress
from sluice.state.erasures.erasure_store import add_erasure, salted
from sluice.state.erasures.receipt_store import has_receipt
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import UnitStatus
from sluice.state.survey import survey

_ROUNDS = 10
_NOTED_AT_ONCE = 50  # units


@dataclass(frozen=True)
class ErasurePlan:
    """What an erasure would do: units, rows by type and by table, rejected records."""

    units: int
    of_units: int
    rows: Mapping[str, int]
    rejected: int
    tables: Mapping[str, int]
    unsearched: tuple[str, ...] = ()


@dataclass(frozen=True)
class Eraser:
    """One erasure of a pipeline. `landings` remakes batches of some units, by a token."""

    pipeline: Pipeline
    lake: Lake
    request: ErasureRequest
    landings: Callable[[Sequence[Unit], str], Landings]
    say: Say

    def plan(self) -> tuple[ErasurePlan, ErasureProgress]:
        """Searches, and changes nothing but the list's salt. Raises CannotErase."""
        known = salted(self.lake)
        entry = self.request.entry(known, pendulum.now("UTC"))
        manifests = covered(self.pipeline, self.lake, entry)
        rows: Counter[str] = Counter()
        rejected, progress = 0, ErasureProgress()
        one = self._search(known, entry)
        for part in search(manifests, one, progress, self.tables(manifests), self.say):
            progress = progress.with_more(part.progress)
            rows += part.rows
            rejected += part.rejected
        lines = (*unsearched_lines(manifests), *forgotten_lines(manifests.values()))
        tables = self._by_table(rows)
        return ErasurePlan(len(progress.found), len(manifests), rows, rejected, tables, lines), progress

    def ask(self) -> tuple[int, ErasureList]:
        """Writes the entry, or finds that of an erasure in the same words that has not ended."""
        entry = self.request.entry(salted(self.lake), pendulum.now("UTC"))

        def again(number: int, before: Erasure) -> bool:
            return self.goes_on(before) and has_receipt(self.lake, number)

        found = add_erasure(self.lake, entry, again)
        crash_points.reached(Erase.ASKED)
        return found

    def goes_on(self, entry: Erasure) -> bool:
        """Returns whether the request covers later slices than an entry of the same words."""
        return not entry.asked_until and entry.until < self.request.slices.end.strftime(STAMP)

    def erase(self, number: int, known: ErasureList, searched: ErasureProgress) -> int:
        """Makes units again until none holds the person, and loads them; repeatable at any time.

        Returns 0, or the exit code of a landing that failed and has said why. Raises Relanded where others
        land the same units again and again, and what searching, loading and verifying raise.
        """
        entry = known.entries[number]
        note_progress(self.lake, number, self._still(searched, entry))
        for _ in range(_ROUNDS):
            progress = self._search_all(number, known)
            crash_points.reached(Erase.SEARCHED)
            todo = self._again(number, entry, progress)
            if not todo:
                return 0
            code = self._make_again(number, todo)
            if code:
                return code
        raise Relanded("units are landed again while they are erased: run it again when no run replaces them")

    def _still(self, searched: ErasureProgress, entry: Erasure) -> ErasureProgress:
        """Returns what of a search before the entry was written is true of the manifests that stand."""
        stand = {str(unit): m.id for unit, m in covered(self.pipeline, self.lake, entry).items()}
        clean = {unit: known for unit, known in searched.clean.items() if stand.get(unit) == known}
        return replace(searched, clean=clean)

    def _search_all(self, number: int, known: ErasureList) -> ErasureProgress:
        """Searches what the entry's landings have not left out already, and notes it in the lake."""
        entry, progress = known.entries[number], read_progress(self.lake, number)
        manifests = covered(self.pipeline, self.lake, entry)
        left = {str(unit) for unit in left_of(progress, number, manifests)}
        todo = {u: m for u, m in manifests.items() if m.erasures <= number and str(u) not in left}
        more, new = ErasureProgress(), 0
        for part in search(todo, self._search(known, entry), progress, self.tables(todo), self.say):
            more, new = more.with_more(part.progress), new + 1
            if new % _NOTED_AT_ONCE == 0:
                note_progress(self.lake, number, more)
        return note_progress(self.lake, number, more)

    def _search(self, known: ErasureList, entry: Erasure) -> UnitSearch:
        return UnitSearch(self.lake, ErasedValues(known, [entry]), self.request.wheres, entry.type)

    def _again(self, number: int, entry: Erasure, progress: ErasureProgress) -> list[UnitStatus]:
        """Returns what is to be remade, or has been and is not loaded."""
        manifests = covered(self.pipeline, self.lake, entry)
        left = set(left_of(progress, number, manifests))
        found = [unit for unit in manifests if str(unit) in progress.found]
        if not found:
            return []
        first, last = min(unit.slice for unit in found), max(unit.slice for unit in found)
        span = SliceRange(first.start, last.end, self.pipeline.slice)
        own = [s for s in survey(self.pipeline, span) if str(s.unit) in progress.found]
        return [replace(s, gone=False) for s in own if s.unit in left or not s.state.done]

    def _make_again(self, number: int, todo: Sequence[UnitStatus]) -> int:
        units = [status.unit for status in todo]
        work, token = work_of(todo, "remake"), f"erasure-{number}"
        code = run_chosen(self.pipeline, units, work, "remake", token, self.landings(units, token), self.say)
        crash_points.reached(Erase.REMADE)
        return code

    def tables(self, manifests: Mapping[Unit, Manifest]) -> Tables:
        """Returns what is committed now, by table. A rollup by event hour has no rows of a slice: it is left
        out."""
        if not manifests:
            return {}
        starts = [unit.slice for unit in manifests]
        span = SliceRange(min(starts).start, max(starts).end, self.pipeline.slice)
        with connect_shards(self.pipeline, READ_QUORUM) as servers:
            ledgers = ledgers_of(servers, self.pipeline, self.lake.url, span)
        by_hour = {t.table for t in self.pipeline.targets if t.rollup and t.rollup.grain == "hour"}
        return {
            name: {unit: row.rows + row.misfits for unit, row in own.items()}
            for name, own in ledgers.items()
            if name not in by_hour
        }

    def _by_table(self, rows: Mapping[str, int]) -> dict[str, int]:
        events = [t for t in self.pipeline.targets if not t.counted and t.rollup is None]
        return {t.table: sum(rows[kind] for kind in self.pipeline.routed(t, rows)) for t in events}
