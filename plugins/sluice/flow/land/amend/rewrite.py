"""Rewrites a file of the lake without some of its rows; all others stay in their order, with all columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.clients.lake.durable import explained
from sluice.errors import Conservation
from sluice.flow.land.task import columns
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.writer import handed_over, sha256
from sluice.manifest import LandedFile

_ROWS = 16_384
_GROUP_BYTES = 64 << 20
"""A row group of the new file holds at most so many bytes of rows, and never those of two old ones."""

Found = Callable[[pa.RecordBatch], np.ndarray]
"""Which rows of a batch go."""
Take = Callable[[pa.RecordBatch], None]
"""Is given the rows that go, with all of their columns."""


@dataclass(frozen=True)
class NewFile:
    """A file of the attempt, and the folder of its final name."""

    written: WrittenFile
    folder: str

    def named(self, slice_id: str, cluster: str, generation: int, number: int) -> LandedFile:
        file = self.written
        key = f"{self.folder}{slice_id}-{cluster}-{generation}-{number}.parquet"
        return LandedFile(
            key, file.key, file.type, file.hour, file.rows, file.bytes, file.sha256, dict(file.rows_by_type)
        )


Part = LandedFile | NewFile
"""A file that stays, under the name that it has, or a new one."""


def without(
    lake: Lake, file: LandedFile, new: WrittenFile, read: tuple[str, ...], found: Found, take: Take
) -> Part | None:
    """Returns the file itself where no row goes, and None where all do.

    `new` names the future file: its numbers are filled in. `found` is given the columns of `read` that the
    file has. Raises Conservation for a file that is not as its manifest says, and what the lake raises.
    """
    with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
        if parquet.metadata.num_rows != file.rows:
            raise Conservation(
                f"{lake.url}/{file.key} has {parquet.metadata.num_rows:,} rows, and its manifest says "
                f"{file.rows:,}: nothing was changed; `{lake.command('verify')}` names the repair"
            )
        names = [name for name in read if name in parquet.schema_arrow.names]
        batches = parquet.iter_batches(_ROWS, columns=names)
        gone = np.concatenate([*(found(batch) for batch in batches), np.zeros(0, bool)])
        if not gone.any():
            return file
        for batch in _rows(parquet, gone):
            take(batch)
        if gone.all():
            return None
        target = lake.begin(new.key)
        try:
            _write(parquet, ~gone, target.path, f"{lake.url}/{new.key}")
            size, digest = target.path.stat().st_size, sha256(target.path)
            handed_over(partial(lake.finish, new.key, target))
        except BaseException:
            target.discard()
            raise
    rows = int(np.count_nonzero(~gone))
    written = WrittenFile(new.cluster, new.slice_id, new.type, new.hour, new.key, rows, size, digest)
    return NewFile(written, file.key[: file.key.rindex("/") + 1])


def _rows(parquet: pq.ParquetFile, chosen: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Yields the chosen rows with all columns."""
    first = 0
    for batch in parquet.iter_batches(_ROWS):
        mask = chosen[first : first + batch.num_rows]
        first += batch.num_rows
        if mask.any():
            yield batch.filter(pa.array(mask))


def _write(parquet: pq.ParquetFile, kept: np.ndarray, target: Path, place: str) -> None:
    meta, first = parquet.metadata, 0
    with explained(place), columns.writer(target, parquet.schema_arrow, _plain(parquet)) as writer:
        for group in range(meta.num_row_groups):
            rows: list[pa.RecordBatch] = []
            for batch in parquet.iter_batches(_ROWS, row_groups=[group]):
                mask = kept[first : first + batch.num_rows]
                first += batch.num_rows
                rows.append(batch.filter(pa.array(mask)))
                if sum(part.nbytes for part in rows) >= _GROUP_BYTES:
                    _write_group(writer, rows)
                    rows = []
            _write_group(writer, rows)


def _write_group(writer: pq.ParquetWriter, rows: list[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches(rows) if rows else None
    if table is not None and table.num_rows:
        writer.write_table(table)


def _plain(parquet: pq.ParquetFile) -> set[str]:
    """Returns the columns that are not compressed anywhere in the file."""
    meta = parquet.metadata
    compressed = set()
    for group in range(meta.num_row_groups):
        row_group: Any = meta.row_group(group)
        for number in range(meta.num_columns):
            column = row_group.column(number)
            if column.compression != "UNCOMPRESSED":
                compressed.add(column.path_in_schema.partition(".")[0])
    return set(parquet.schema_arrow.names) - compressed
