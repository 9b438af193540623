"""Merges small files of one slice, type and hour before the manifest names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.flow.land.task import columns
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.writer import BYTES_GATHERED, ROWS_GATHERED, AttemptFiles, FilePlace

SMALL_BYTES = 2 << 20
MERGED_BYTES = 64 << 20


@dataclass(frozen=True)
class Merge:
    """Files of one place that become one; it travels to the workers."""

    lake: Lake
    attempt: str
    files: tuple[WrittenFile, ...]

    def run(self, name: str) -> WrittenFile:
        """Writes them into one file of the attempt, a bounded part at a time; `name` is unique there."""
        first = self.files[0]
        place = FilePlace(first.slice_id, first.type, first.hour)
        schema = columns.ROWS if first.hour else columns.REJECTED
        with AttemptFiles(self.lake, first.cluster, self.attempt, name) as merged:
            for rows in _gathered(self._row_groups()):
                merged.write(place, rows.cast(columns.like(schema, rows.column_names)), {})
            (written,) = merged.finish()
        counts: Counter[str] = Counter()
        for file in self.files:
            counts.update(file.rows_by_type)
        return replace(written, rows_by_type=dict(counts))

    def _row_groups(self) -> Iterator[pa.Table]:
        for file in self.files:
            with self.lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                for number in range(parquet.num_row_groups):
                    yield parquet.read_row_group(number)


def merges(lake: Lake, attempt: str, files: Iterable[WrittenFile]) -> tuple[list[Merge], list[WrittenFile]]:
    """Returns what to merge, and the files that stay as they are. Pure."""
    by_place: dict[FilePlace, list[WrittenFile]] = {}
    for file in sorted(files, key=lambda file: file.key):
        by_place.setdefault(FilePlace(file.slice_id, file.type, file.hour), []).append(file)
    to_merge: list[Merge] = []
    kept: list[WrittenFile] = []
    for together in by_place.values():
        small = [file for file in together if file.bytes < SMALL_BYTES]
        kept += (file for file in together if file.bytes >= SMALL_BYTES)
        for group in _groups(small):
            if len(group) > 1:
                to_merge.append(Merge(lake, attempt, tuple(group)))
            else:
                kept += group
    return to_merge, kept


def _groups(small: Sequence[WrittenFile]) -> Iterator[list[WrittenFile]]:
    group: list[WrittenFile] = []
    size = 0
    for file in small:
        if group and size + file.bytes > MERGED_BYTES:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.bytes
    if group:
        yield group


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Joins small row groups: thousands of them would compress badly and read slowly."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if (
            sum(t.num_rows for t in waiting) >= ROWS_GATHERED
            or sum(t.nbytes for t in waiting) >= BYTES_GATHERED
        ):
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
