"""Counts the rows that one task lands: partial sums, which are files of the attempt like all others.

So they are dropped with their slice when a record of it was cut, and a task that is tried again, or twice at
once, counts once: only the files count that the report of one success names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from sluice.clients.lake.base import Lake
from sluice.config.counts import Counts
from sluice.flow.land.task.count_fields import FieldTexts, canonical
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.times import hour_name
from sluice.flow.land.task.writer import AttemptFiles, FilePlace

MOST_BYTES = 64 << 20
_KEY_BYTES = 250  # of a key beside its texts: a tuple, its numbers, its place in the dictionary

_COLUMNS: list[pa.Field[Any]] = [pa.field("key", pa.binary()), pa.field("count", pa.int64())]
PARTIAL = pa.schema(_COLUMNS)
"""`key` is a row of counts as JSON without its end: `{"hour":…,"type":…,"country":…`; files are sorted."""


@dataclass
class _Sums:
    """By (slice's number, hour, type's code, text of each field …)."""

    spec: Counts
    fields: FieldTexts
    sums: Counter[tuple[Any, ...]] = field(default_factory=Counter)


class Tally:
    """One per task; `names[code]` is the type of a code. Memory is bounded whatever the number of keys: at
    MOST_BYTES of them the sums are written, and counting begins again."""

    def __init__(self, specs: Sequence[Counts], names: Sequence[str], slice_ids: Sequence[str]) -> None:
        self._tables = [_Sums(spec, FieldTexts(spec.by.values())) for spec in specs]
        self._names, self._slice_ids = names, slice_ids
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= MOST_BYTES

    def add(
        self, payloads: pa.ChunkedArray[Any], slices: np.ndarray, types: np.ndarray, hours: np.ndarray
    ) -> None:
        """Counts rows that land: their events, and the numbers of slice, type and hour (since the epoch)."""
        if not self._tables or not len(slices):
            return
        texts: list[Any] = payloads.to_pylist()
        for table in self._tables:
            columns = table.fields.read(texts)
            before = len(table.sums)
            table.sums.update(zip(slices.tolist(), hours.tolist(), types.tolist(), *columns, strict=True))
            new = len(table.sums) - before
            if new:
                longest = sum(max(map(len, column)) for column in columns)
                self._bytes += new * (_KEY_BYTES + longest)

    def write(self, lake: Lake, cluster: str, attempt: str, name: str) -> tuple[WrittenFile, ...]:
        """Returns what was counted, a file for each slice and table; `name` is unique in the attempt.

        Raises what the lake raises.
        """
        self._bytes = 0
        if not any(table.sums for table in self._tables):
            return ()
        with AttemptFiles(lake, cluster, attempt, name) as files:
            for table in self._tables:
                self._write(table, files)
            return files.finish()

    def _write(self, table: _Sums, files: AttemptFiles) -> None:
        sums, table.sums = table.sums, Counter()
        by_slice: dict[int, list[tuple[bytes, int]]] = {}
        types: dict[int, Counter[str]] = {}
        for (number, hour, code, *texts), count in sums.items():
            kind = self._names[code]
            if table.spec.counts(kind):
                key = counted_key(hour_name(hour), kind, dict(zip(table.spec.by, texts, strict=True)))
                by_slice.setdefault(number, []).append((key, count))
                types.setdefault(number, Counter())[kind] += count
        for number, rows in by_slice.items():
            keys, counts = zip(*sorted(rows), strict=True)
            place = FilePlace(self._slice_ids[number], table.spec.table, "")
            files.write(place, pa.table([keys, counts], schema=PARTIAL), types[number])


def counted_key(hour: str, kind: str, texts: dict[str, bytes]) -> bytes:
    """Returns the key of a row of counts; `hour` such as `2026-11-20T10`."""
    parts = [b'{"hour":"%s:00:00Z","type":%s' % (hour.encode(), msgspec.json.encode(kind))]
    parts += (b'"%s":%s' % (column.encode(), canonical(text)) for column, text in texts.items())
    return b",".join(parts)
