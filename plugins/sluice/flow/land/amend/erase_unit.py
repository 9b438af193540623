"""Takes erased rows out of a unit's files. All other rows stay as they are: nothing is parsed again."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pendulum
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.errors import CannotErase
from sluice.flow.land.amend.amended import Amendment, CountChange, CountsOf, CountsRewrite, late_after
from sluice.flow.land.amend.rewrite import NewFile, Part, Take, without
from sluice.flow.land.commit import commit_remade, discard
from sluice.flow.land.task.erasing import COLUMNS, RowErasing
from sluice.flow.land.task.field_tally import KIND_OF, shape_of
from sluice.flow.land.task.records import MARKS
from sluice.flow.land.task.reports import WrittenFile
from sluice.manifest import KINDS, LandedFile, Manifest, Shape, TypeFields, less
from sluice.runtime import deeper
from sluice.slices import Slice, Unit, to_ms
from sluice.state.erasures import ErasureList, covering, note_clean, read_erasures
from sluice.state.file_moves import finish_moves, move

_PLACE = ("_topic", "_partition", "_offset")
_ROWS = 65_536
Record = tuple[str, int, int]
"""Topic, partition and offset."""


def erase_unit(lake: Lake, unit: Unit, old: Manifest, erasures: ErasureList, now: datetime) -> Manifest:
    """Returns the manifest that stands for the unit afterwards, its files moved: a generation without the
    rows that the list erases, the one of whoever replaced `old` meanwhile, or `old` where it has no such row.

    The list is applied as a whole. Files without such a row stay under their names. Raises Conservation
    where files are not as the manifest says, and what the lake raises; then nothing of the attempt is left.
    """
    attempt = uuid.uuid4().hex[:16]
    filtering = _Filtering(lake, unit, old, attempt, erasures)
    try:
        with deeper():
            amendment = filtering.amendment(now)
    except BaseException as error:
        if isinstance(error, Exception):
            discard(lake, [attempt])
        raise
    if amendment is None:
        return old
    committed = commit_remade(lake, old, partial(amendment.draft, old))
    move(lake, [committed])
    discard(lake, [attempt])
    return committed


@dataclass
class _Filtering:
    lake: Lake
    unit: Unit
    old: Manifest
    attempt: str
    erasures: ErasureList
    change: CountChange = field(default_factory=CountChange)
    types: Counter[str] = field(default_factory=Counter)
    shapes: Counter[tuple[str, Shape]] = field(default_factory=Counter)
    """Types and shapes of the erased events."""
    records: Counter[Record] = field(default_factory=Counter)
    """How many rows were erased of each record that may hold any number of them."""

    def amendment(self, now: datetime) -> Amendment | None:
        entries = [entry for entry in self.erasures.entries if entry.covers(self.unit.slice)]
        erasing = RowErasing(self.erasures, entries)
        counts = [CountsOf(traffic) for traffic in self.old.traffic]
        events = self._filtered(self.old.files, self.old.held_events, erasing, counts)
        rejected = self._filtered(self.old.rejected, self.old.held_rejected, erasing, ())
        if events == list(self.old.files) and rejected == list(self.old.rejected):
            return None
        self._whole_records()
        rewrite = CountsRewrite(self.lake, self.old, self.attempt, to_ms(self.unit.slice.start))
        traffic = [rewrite.changed(number, of) for number, of in enumerate(counts)]
        more = {"erasures": len(self.erasures.entries), "fields": self._fields()}
        late = late_after(self.old, events)
        return Amendment(
            self.attempt, events, rejected, traffic, self.change, late, now, arrays=self._arrays, more=more
        )

    @property
    def _arrays(self) -> bool:
        return self.old.rows is not None

    def _filtered(
        self,
        files: Iterable[LandedFile],
        held: Iterable[LandedFile],
        erasing: RowErasing,
        counts: Iterable[CountsOf],
    ) -> list[Part]:
        parts: list[Part] = []
        held_files = {file.key for file in held}
        folder = layout.attempt(self.old.slice, self.attempt)
        for number, file in enumerate(files):
            key = f"{folder}amended-{'events' if file.hour else 'rejected'}-{number}.parquet"
            new = WrittenFile(self.old.cluster, self.old.slice, file.type, file.hour, key, 0, 0, "")
            before = self.types.copy()
            take = partial(self._take_events, file.hour, counts) if file.hour else self._take_rejected
            part: Part | None = file
            if file.key in held_files:
                part = self._without(file, new, erasing, take)
            if isinstance(part, NewFile) and file.hour and file.type is None:
                kinds = Counter(file.rows_by_type) - (self.types - before)
                part = replace(part, written=replace(part.written, rows_by_type=dict(kinds)))
            if part is not None:
                parts.append(part)
        return parts

    def _without(self, file: LandedFile, new: WrittenFile, erasing: RowErasing, take: Take) -> Part | None:
        """Raises CannotErase for a file that is missing or damaged."""
        try:
            return without(self.lake, file, new, (*COLUMNS, "_type", *MARKS), erasing.found, take)
        except (FileNotFoundError, pa.ArrowException) as error:
            reason, verify = " ".join(str(error).split())[:200], self.lake.command("verify")
            raise CannotErase(str(self.unit), file.key, reason, verify) from error

    def _take_events(self, hour: str, counts: Iterable[CountsOf], batch: pa.RecordBatch) -> None:
        kinds: list[Any] = batch["_type"].to_pylist()
        texts: list[Any] = batch["_payload"].cast(pa.binary()).to_pylist()
        self.types.update(kinds)
        self.shapes.update((kind, _shape(text)) for kind, text in zip(kinds, texts, strict=True))
        for of in counts:
            of.add(batch, hour, -1)
        for record in _records(batch):
            change = self.change.at(record[:2])
            if self._arrays:
                change.rows -= 1
                change.rows_erased += 1
                self.records[record] += 1
            else:
                change.erased += 1

    def _take_rejected(self, batch: pa.RecordBatch) -> None:
        reasons: list[Any] = batch["_reason"].to_pylist()
        rows: list[Any] = (
            batch["_row"].to_pylist() if "_row" in batch.schema.names else [None] * batch.num_rows
        )
        for record, reason, row in zip(_records(batch), reasons, rows, strict=True):
            change = self.change.at(record[:2])
            if row is None:
                self.change.rejected_records[reason] -= 1
                change.rejected_records -= 1
                change.erased += 1
            else:
                self.change.rejected_elements[reason] -= 1
                change.rejected_elements -= 1
                change.rows -= 1
                change.rows_erased += 1
                self.records[record] += 1

    def _whole_records(self) -> None:
        """Counts the records of which nothing is left in any file."""
        if not self.records:
            return
        there: Counter[Record] = Counter()
        for file in (*self.old.held_events, *self.old.held_rejected):
            there.update(self._rows_of_records(file))
        for record, erased in self.records.items():
            if there[record] == erased:
                self.change.at(record[:2]).erased += 1

    def _rows_of_records(self, file: LandedFile) -> Iterable[Record]:
        offsets = pa.array(sorted({offset for _, _, offset in self.records}), pa.int64())
        with self.lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(_ROWS, columns=list(_PLACE)):
                likely = np.isin(batch["_offset"].to_numpy(), offsets.to_numpy())
                if likely.any():
                    yield from (r for r in _records(batch.filter(pa.array(likely))) if r in self.records)

    def _fields(self) -> tuple[TypeFields, ...]:
        """Takes the fields of erased events off those of their types. Of a type whose fields were counted in
        a sample it is not known which rows that had: then nothing is said of its fields any more."""
        erased: dict[str, Counter[Shape]] = {}
        for (kind, shape), rows in self.shapes.items():
            erased.setdefault(kind, Counter())[shape] += rows
        kept = (
            less(of, erased[of.type]) if of.exact else None for of in self.old.fields if of.type in erased
        )
        changed = {of.type: of for of in kept if of is not None and of.rows}
        fields = (changed.get(of.type) if of.type in erased else of for of in self.old.fields)
        return tuple(of for of in fields if of is not None)


def _records(batch: pa.RecordBatch) -> Iterable[Record]:
    columns: list[Any] = [batch[name].to_pylist() for name in _PLACE]
    return zip(*columns, strict=True)


def _shape(text: bytes) -> Shape:
    names, kinds = shape_of(text)
    return names, tuple(KINDS[KIND_OF[kind]] for kind in kinds)


# Units that were landed by an erasure list that has grown meanwhile: which they are, and its new entries
# applied to them.


def owed(lake: Lake, manifests: Iterable[Manifest], length: timedelta) -> list[Unit]:
    """Returns the units of which an entry that covers them is newer than what their landing has read.

    To be called after they are committed: whoever adds an entry reads the manifests after it.
    """
    erasures, landed = read_erasures(lake), list(manifests)
    return [
        unit
        for unit, manifest in zip(unit_of_each(landed, length), landed, strict=True)
        if covering(erasures.entries[manifest.erasures :], unit.slice)
    ]


def erase_owed(lake: Lake, units: Iterable[Unit]) -> None:
    """Takes out of the units what the list names and their manifests do not know yet. Repeatable.

    The list is read again after each commit, as after that of a landing. Raises what `erase_unit` raises.
    """
    now = pendulum.now("UTC")
    for unit, manifest in finish_moves(lake, units).items():
        stands, known = manifest, manifest.erasures
        while covering((erasures := read_erasures(lake)).entries[known:], unit.slice):
            new = erase_unit(lake, unit, stands, erasures, now)
            if new == stands:
                note_clean(lake, unit, stands, erasures)
                known = len(erasures.entries)
            else:
                stands, known = new, new.erasures


def unit_of_each(manifests: Iterable[Manifest], length: timedelta) -> list[Unit]:
    return [Unit(Slice.from_id(m.slice, length), m.cluster) for m in manifests]
