"""Which units hold the person: reads the files of each unit that was not searched since it landed."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake, OfPipeline
from sluice.config.pipeline import Pipeline
from sluice.errors import CannotErase, WrongUse
from sluice.field_path import checked_path, header_of, names_of
from sluice.flow.land.task import columns
from sluice.flow.land.task.erasing import COLUMNS, LONGEST, RowErasing
from sluice.flow.land.task.records import MARKS
from sluice.manifest import STAMP, TOMBSTONE, Manifest
from sluice.mask.mask_rules import MaskRules, hashes_of, hidden_by, unsearchable
from sluice.runtime import deeper
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit
from sluice.state.erasures import KEY, Erasure, ErasureList, ErasureProgress, FileMark, FoundPlace, FoundUnit
from sluice.state.file_moves import finish_moves
from sluice.state.manifests import landed_units

# What `sluice erase` is asked for, and the list's entry that it becomes.

_MOST_VALUES = 100
_MOST_REASON = 500
_NOT_SEARCHED = {*columns.ROWS.names, *columns.REJECTED.names, "_row", "_raw", "_change", "_slice"} - set(KEY)
"""What the lake and the tables have beside an event's fields."""


@dataclass(frozen=True)
class Where:
    """A dotted path, `_key` for the record's own key, and one value."""

    path: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class ErasureRequest:
    """`typed`: what the user asked for. `slices`: where to search. `start` and `end` say whether they were
    typed."""

    typed: tuple[Where, ...]
    slices: SliceRange
    reason: str
    by: str
    type: str = ""
    start: bool = False
    end: bool = False
    rules: MaskRules | None = None
    """The mask of the pipeline file."""

    @property
    def wheres(self) -> tuple[Where, ...]:
        """What was typed, and with it the hash that the mask makes of each value with each of its keys: as a
        value of the field, and as the key of a record without a value."""
        hashed = (
            Where(where.path, masked_value.decode())
            for where in self.typed
            for name in dict.fromkeys((where.path, KEY))
            for masked_value in hashes_of(self.rules, ".".join(name), where.value.encode())
        )
        return tuple(dict.fromkeys((*self.typed, *hashed)))

    def unsearchable(self, manifests: Mapping[Unit, Manifest]) -> list[str]:
        """Returns a line for each field of which some units may have values that are not found."""
        units_of: dict[tuple[str, str], list[Unit]] = {}
        names = dict.fromkeys(".".join(where.path) for where in self.typed)
        for unit, manifest in sorted(manifests.items()):
            keys = [".".join(KEY)] if _has_hashed_keys_alone(manifest) else []
            for name in dict.fromkeys((*names, *keys)):
                if why := unsearchable(manifest.masked, self.rules, name):
                    units_of.setdefault((name, why), []).append(unit)
        return [
            f"{name} cannot be searched in {len(units):,} units, {units[0]} … {units[-1]}: {why}; or erase "
            "by another field of the same records"
            for (name, why), units in units_of.items()
        ]

    def entry(self, erasures: ErasureList, now: datetime) -> Erasure:
        until = self.slices.end.strftime(STAMP)
        return Erasure(
            values=tuple(erasures.asked(where.path, where.value.encode()) for where in self.wheres),
            type=self.type,
            start=self.slices.start.strftime(STAMP) if self.start else "",
            until=until,
            asked_until=until if self.end else "",
            reason=self.reason,
            at=now.strftime(STAMP),
            by=self.by,
        )


def _has_hashed_keys_alone(manifest: Manifest) -> bool:
    """Returns whether records without a value are there, of which the lake has a hash of the key."""
    hashed = manifest.masked is not None and ".".join(KEY) in manifest.masked.hashed
    return hashed and bool(manifest.held_by_reason().get(TOMBSTONE))


def read_wheres(texts: Sequence[str], file: bytes | None = None) -> tuple[Where, ...]:
    """Returns what `--where user.id=7`, and each line of `--where-file`, ask for. Raises WrongUse.

    No error has a word of what was given: it may be a person's.
    """
    numbered = len(texts) > 1
    labels = [f"--where number {n}" if numbered else "--where" for n in range(1, len(texts) + 1)]
    wheres = [_where(label, text) for label, text in zip(labels, texts, strict=True)]
    wheres += [_where(f"--where-file, line {n}", text) for n, text in _lines(file or b"")]
    if not wheres:
        name = "--where" if file is None else "--where-file"
        raise WrongUse(f"{name} is missing or empty: name a field and its value, such as user.id=7")
    if len(wheres) > _MOST_VALUES:
        raise WrongUse(f"--where: {len(wheres):,} values, more than {_MOST_VALUES}: erase them in parts")
    return tuple(dict.fromkeys(wheres))


def _lines(file: bytes) -> Iterator[tuple[int, str]]:
    """Yields each line that says something, and its number, without the spaces around the line."""
    for number, raw in enumerate(file.removeprefix(BOM_UTF8).split(b"\n"), start=1):
        if line := raw.strip():
            yield number, line.decode(errors="surrogateescape")


def _where(label: str, text: str) -> Where:
    path, sign, value = text.partition("=")
    try:
        names = names_of(checked_path(path))
    except ValueError as error:
        raise WrongUse(f"{label}: {error}") from error
    if path in _NOT_SEARCHED:
        raise WrongUse(
            f"{label}: {path} is not searched: name a field of the event, such as user.id, or _key, the "
            "record's key"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise WrongUse(f"{label}: what is there is not UTF-8, and an event's text is")
    if not (sign and value and all(names)):
        raise WrongUse(f"{label}: expected PATH=VALUE such as user.id=7")
    if len(value.encode()) > LONGEST:
        raise WrongUse(f"{label}: a value has at most {LONGEST:,} bytes")
    return Where(names, value)


def hidden_lines(wheres: Sequence[Where], rules: MaskRules | None) -> list[str]:
    """Returns a line for each field that a mask hides: nothing is found by it."""
    names = dict.fromkeys(".".join(where.path) for where in wheres)
    return [
        f"the mask `{action}` hides {name}: what has landed with it is not found by this field"
        for name in names
        if (action := hidden_by(rules, name))
    ]


def checked_reason(text: str, wheres: Sequence[Where]) -> str:
    """Raises WrongUse for a reason that is empty, too long, or says who it is."""
    if not text.strip() or len(text) > _MOST_REASON:
        raise WrongUse(f"--reason: expected 1 to {_MOST_REASON} characters, such as a ticket's number")
    if any(len(where.value) > 3 and where.value in text for where in wheres):
        raise WrongUse(
            "--reason names the value itself: it is kept in the lake, so leave the person out of it"
        )
    return text


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
    if manifest.forgotten_on and not manifest.held_nowhere:
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
        columns = [name for name in (*COLUMNS, "_type", *MARKS, *_PLACE) if name in names]
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
            if (header := header_of(where.path)) is not None:
                likely = pc.or_kleene(likely, _with_header(batch, header, where.value.encode()))
                continue
            by_key = pc.equal(batch["_key"], pa.scalar(where.value.encode(), pa.binary()))
            if where.path != KEY:
                by_key = pc.and_kleene(by_key, pc.is_null(payloads))
                likely = pc.or_kleene(likely, pc.match_substring(payloads, where.value))
            likely = pc.or_kleene(likely, by_key)
        return pc.fill_null(likely, False)


def _with_header(batch: pa.RecordBatch, name: str, value: bytes) -> Any:
    """Returns which rows have the header with the value."""
    pairs: list[Any] = batch["_headers"].to_pylist()
    return pa.array(
        [any(pair["key"] == name and pair["value"] == value for pair in of or ()) for of in pairs], pa.bool_()
    )


def marks_of(manifest: Manifest) -> tuple[FileMark, ...]:
    return tuple(FileMark(file.key, file.sha256, file.bytes, file.rows) for file in manifest.held_files)
