"""Which units hold the person: reads the files of each unit that was not searched since it landed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake, OfPipeline
from sluice.config.pipeline import Pipeline
from sluice.errors import CannotErase
from sluice.flow.erase.erasure_request import Where
from sluice.flow.land.task.erasing import COLUMNS, RowErasing
from sluice.manifest import Manifest
from sluice.runtime import deeper
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.erasures import KEY, Erasure, ErasureProgress, FileMark, FoundPlace, FoundUnit
from sluice.state.file_moves import finish_moves
from sluice.state.manifests import landed_units

Tables = Mapping[str, Mapping[Unit, int]]
"""Rows committed, by table and unit; rejected rows are those of sluice.rejected."""


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


def not_applied_lines(
    lake: OfPipeline, manifests: Mapping[Unit, Manifest], owing: Mapping[Unit, int]
) -> list[str]:
    """Returns a line for each entry that units owe, by `unerased`, whose files cannot be searched."""
    units: dict[tuple[int, str], list[Unit]] = {}
    for unit, number in sorted(owing.items()):
        if manifests[unit].half_forgotten:
            forget, pending = lake.command("forget", "--yes"), lake.command("erase", "--pending")
            why = f"the lake began to forget their files: `{forget}` ends it; then `{pending}` again"
        elif manifests[unit].forgotten_on:
            why = (
                "the lake forgot their files, so they are not searched: `reland` leaves the person out as "
                "long as Kafka has the records; else search the tables that still hold these slices"
            )
        else:
            continue
        units.setdefault((number, why), []).append(unit)
    return [
        f"entry {number} of the erasure list is not applied to {len(of):,} units, {of[0]} … {of[-1]}: {why}"
        for (number, why), of in units.items()
    ]


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
        # Of files that are gone nobody knows, and if they come back the manifest is the same again.
        unknown = manifest.forgotten_on or manifest.half_forgotten
        return Searched(ErasureProgress({} if unknown else {str(unit): manifest.id}))
    before: FoundUnit = matches.unit(
        manifest, {name: rows_by_unit.get(unit, 0) for name, rows_by_unit in tables.items()}
    )
    return Searched(ErasureProgress({}, {str(unit): before}), matches.rows, matches.rejected)


# Finds the rows of one unit that an erasure takes out: by the landing's own rule.
_ROWS = 16_384
_PLACE = ("_topic", "_partition", "_offset", "_timestamp")


@dataclass
class UnitMatches:
    """Rows of the person: landed ones by type, rejected ones, and where they were in Kafka."""

    rows: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    places: dict[tuple[str, int], FoundPlace] = field(default_factory=dict)

    @property
    def some(self) -> bool:
        return bool(self.rows or self.rejected)

    def add(self, row: Mapping[str, Any]) -> None:
        kind = row.get("_type")
        if kind is None:
            self.rejected += 1
        else:
            self.rows[kind] += 1
        place, offset, stamp = (row["_topic"], row["_partition"]), row["_offset"], row["_timestamp"]
        before = self.places.get(place) or FoundPlace(*place, offset, offset, stamp)
        self.places[place] = FoundPlace(
            *place, min(before.first, offset), max(before.last, offset), max(before.newest, stamp)
        )

    def unit(self, manifest: Manifest, tables: Mapping[str, int]) -> FoundUnit:
        return FoundUnit(
            manifest.id,
            self.rows.total(),
            self.rejected,
            manifest.erased,
            manifest.rows_erased,
            marks_of(manifest),
            tuple(self.places[place] for place in sorted(self.places)),
            dict(tables),
        )


@dataclass(frozen=True)
class UnitSearch:
    """`wheres` are the values as they were typed: a payload without any of them is not parsed."""

    lake: Lake
    erasing: RowErasing
    wheres: Sequence[Where]

    def matches(self, unit: Unit, manifest: Manifest) -> UnitMatches:
        """Reads the files of the unit. Raises CannotErase for one that cannot be read."""
        matches = UnitMatches()
        for file in (*manifest.held_events, *manifest.held_rejected):
            try:
                with self.lake.local(file.key) as path, pq.ParquetFile(path) as parquet, deeper():
                    for row in self._rows(parquet):
                        matches.add(row)
            except (OSError, pa.ArrowException) as error:
                reason, verify = " ".join(str(error).split())[:200], self.lake.command("verify")
                raise CannotErase(str(unit), file.key, reason, verify) from error
        return matches

    def _rows(self, parquet: pq.ParquetFile) -> Iterator[Mapping[str, Any]]:
        names = parquet.schema_arrow.names
        columns = [name for name in (*COLUMNS, "_type", *_PLACE) if name in names]
        for batch in parquet.iter_batches(_ROWS, columns=columns):
            likely = batch.filter(self._likely(batch))
            stamps = likely["_timestamp"].cast(pa.int64())
            likely = likely.set_column(likely.schema.get_field_index("_timestamp"), "_timestamp", stamps)
            erased = pa.array(self.erasing.found(likely))
            shown = [name for name in likely.schema.names if name in ("_type", *_PLACE)]
            yield from likely.filter(erased).select(shown).to_pylist()

    def _likely(self, batch: pa.RecordBatch) -> Any:
        """Returns which rows have a value as it was typed, or may have it with escapes."""
        payloads = batch["_payload"].cast(pa.binary())
        likely: Any = pc.match_substring(payloads, "\\")
        if "_type" not in batch.schema.names:  # what was rejected may be an address
            likely = pc.or_kleene(likely, pc.match_substring(payloads, "%"))
        for where in self.wheres:
            by_key = pc.equal(batch["_key"], pa.scalar(where.value.encode(), pa.binary()))
            if where.path != KEY:
                by_key = pc.and_kleene(by_key, pc.is_null(payloads))
                likely = pc.or_kleene(likely, pc.match_substring(payloads, where.value))
            likely = pc.or_kleene(likely, by_key)
        return pc.fill_null(likely, False)


def marks_of(manifest: Manifest) -> tuple[FileMark, ...]:
    return tuple(FileMark(file.key, file.sha256, file.bytes, file.rows) for file in manifest.held_files)
