"""Which units hold the person: reads the files of each unit that was not searched since it landed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sluice.clients.lake.base import Lake, OfPipeline
from sluice.config.pipeline import Pipeline
from sluice.errors import CannotErase
from sluice.flow.erase.search_unit import UnitMatches, UnitSearch
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.erasures.erasure_list import Erasure
from sluice.state.erasures.erasure_progress import ErasureProgress, FoundUnit
from sluice.state.file_moves import finish_moves
from sluice.state.manifests import landed_units

Tables = Mapping[str, Mapping[Unit, int]]
"""Rows committed, by table and unit; misfits are those of sluice.rejected."""


@dataclass
class Searched:
    """Counts what one pass over the units found: the person's `rows` by type, and `rejected` records."""

    progress: ErasureProgress = field(default_factory=ErasureProgress)
    rows: Counter[str] = field(default_factory=Counter)
    rejected: int = 0


def covered(pipeline: Pipeline, lake: Lake, entry: Erasure) -> dict[Unit, Manifest]:
    """Returns the manifests of the units that the entry covers, whatever clusters the pipeline file has now.
    Moves that were begun are finished first."""
    units = landed_units(lake, pipeline.slice)
    return finish_moves(lake, [unit for unit in units if entry.covers(unit.slice)])


def unsearched_line(lake: OfPipeline, unit: Unit, manifest: Manifest) -> str:
    """Returns why some of a unit cannot be searched; empty where all of it can."""
    if manifest.half_forgotten:
        files = "its files" if manifest.forgotten_on else "its rejected records"
        day = manifest.forgotten_on or manifest.rejected_forgotten_on
        return (
            f"{unit}: the lake began to forget {files} on {day}, and some of them may be there: "
            f"`{lake.command('forget', '--yes')}` ends it; then the same words again"
        )
    if manifest.forgotten_on:
        return (
            f"{unit}: the lake forgot its files on {manifest.forgotten_on}; tables that still hold the slice "
            "have to be searched there"
        )
    return ""


def unsearched_lines(lake: OfPipeline, manifests: Mapping[Unit, Manifest]) -> list[str]:
    return [line for unit, manifest in manifests.items() if (line := unsearched_line(lake, unit, manifest))]


def search(
    manifests: Mapping[Unit, Manifest],
    unit_search: UnitSearch,
    progress: ErasureProgress,
    tables: Tables,
    say: Say,
) -> Iterator[Searched]:
    """Yields the findings of each unit, after it. Raises CannotErase."""
    todo = {unit: m for unit, m in manifests.items() if progress.clean.get(str(unit)) != m.id}
    for number, (unit, manifest) in enumerate(todo.items(), start=1):
        rows = sum(file.rows for file in (*manifest.held_events, *manifest.held_rejected))
        say(f"searching {unit}, {number:,} of {len(todo):,}: {rows:,} rows")
        matches = _matches(unit_search, unit, manifest)
        if matches is not None:
            yield _searched(unit, manifest, matches, tables)


def _matches(unit_search: UnitSearch, unit: Unit, manifest: Manifest) -> UnitMatches | None:
    """Returns None where another run has replaced the files meanwhile: they are searched afterwards."""
    try:
        return unit_search.matches(unit, manifest)
    except CannotErase:
        stands = finish_moves(unit_search.lake, [unit]).get(unit)
        if stands is not None and stands.id == manifest.id:
            raise
        return None


def _searched(unit: Unit, manifest: Manifest, matches: UnitMatches, tables: Tables) -> Searched:
    if not matches.some:
        # A forgetting that has only begun may be taken back: all files are the same manifest's again.
        return Searched(ErasureProgress({} if manifest.half_forgotten else {str(unit): manifest.id}))
    before: FoundUnit = matches.unit(
        manifest, {name: rows_by_unit.get(unit, 0) for name, rows_by_unit in tables.items()}
    )
    return Searched(ErasureProgress({}, {str(unit): before}), matches.rows, matches.rejected)
