"""Finds the rows of one unit that an erasure takes out: by the landing's own rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.errors import CannotErase
from sluice.flow.erase.erasure_request import Where
from sluice.flow.land.task.row_erasing import COLUMNS, RowErasing
from sluice.manifest import Manifest
from sluice.runtime import deeper
from sluice.slices import Unit
from sluice.state.erasures.erasure_list import KEY
from sluice.state.erasures.erasure_progress import FileMark, FoundPlace, FoundUnit

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
            if where.path == KEY:
                likely = pc.or_kleene(
                    likely, pc.equal(batch["_key"], pa.scalar(where.value.encode(), pa.binary()))
                )
            else:
                likely = pc.or_kleene(likely, pc.match_substring(payloads, where.value))
        return pc.fill_null(likely, False)


def marks_of(manifest: Manifest) -> tuple[FileMark, ...]:
    return tuple(FileMark(file.key, file.sha256, file.bytes, file.rows) for file in manifest.held_files)
