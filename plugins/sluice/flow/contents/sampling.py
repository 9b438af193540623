"""A bounded share of what a run has landed and loaded, compared by content.

Of the units that a run verifies, files are chosen by a hash of manifest and name: other ones in each landing,
so that over time all places are read. Of a file the first rows of one row group are taken.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.clickhouse.sql import Sql, identifier, listed
from sluice.clients.clickhouse.tables import Column
from sluice.clients.lake.base import Lake
from sluice.config.event import Event
from sluice.flow.contents.comparable_columns import IDENTITY, RowFilter
from sluice.flow.contents.read_rows import rows_of
from sluice.flow.contents.recompute import FileJudge, TypeFolder, WrongRows
from sluice.flow.load.source.pull_or_push import Reading
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Unit

MOST_FILES = 1
SAMPLED_ROWS = 2_000  # of each file
FETCHED_BYTES = 16 << 20  # a file of a lake that is no folder is fetched whole


@dataclass(frozen=True)
class SampledRowGroup:
    """A file of one type, and which of its row groups is read."""

    unit: Unit
    manifest: Manifest
    file: LandedFile
    number: int


class Sample(NamedTuple):
    """Some `rows` of a unit, which `reading` gives; `where` finds them in the target."""

    reading: Reading
    where: RowFilter
    rows: pa.Table


def choose(
    landed: Sequence[tuple[Unit, Manifest]], most: int = MOST_FILES, most_bytes: int | None = None
) -> list[SampledRowGroup]:
    """Chooses files of one type each; those of many types, or larger ones, are read by `--contents` only."""
    candidates = [
        (_digest(manifest, file), SampledRowGroup(unit, manifest, file, int(_digest(manifest, file)[:8], 16)))
        for unit, manifest in landed
        for file in manifest.held_events
        if file.type is not None and (most_bytes is None or file.bytes <= most_bytes)
    ]
    return [chosen for _, chosen in sorted(candidates, key=lambda pair: pair[0])[:most]]


def _digest(manifest: Manifest, file: LandedFile) -> str:
    return hashlib.sha256(f"{manifest.id} {file.key}".encode()).hexdigest()


def rows_in(lake: Lake, chosen: SampledRowGroup, most: int = SAMPLED_ROWS) -> pa.Table:
    """Returns the first rows of the chosen row group, with all columns. Raises OSError and ArrowException:
    also for a file of another number of rows than its manifest says."""
    return first_rows(lake, chosen.file, chosen.number, most)


def first_rows(lake: Lake, file: LandedFile, number: int, most: int) -> pa.Table:
    """Returns the first rows of one of the file's row groups; raises as `rows_in`."""
    with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
        rows, groups = parquet.metadata.num_rows, parquet.num_row_groups
        if rows != file.rows:
            raise pa.ArrowInvalid(f"it has {rows:,} rows, and its manifest says {file.rows:,}")
        batches = parquet.iter_batches(most, row_groups=[number % groups] if groups else [])
        return pa.Table.from_batches(islice(batches, 1), parquet.schema_arrow)


def judge(events: Sequence[Event], chosen: SampledRowGroup, rows: pa.Table) -> list[WrongRows]:
    """Returns what is wrong with the sampled rows of the lake. Raises ArrowException for rows that are none
    of the lake's."""
    judged = FileJudge(events, chosen.manifest, TypeFolder.of(chosen.file.key))
    judged.take(rows_of(rows))
    return list(judged.wrong.values())


@contextmanager
def reading_of(rows: pa.Table) -> Iterator[Reading]:
    """Yields a lake of these rows alone, as the load reads one that the server does not see."""
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        path = Path(folder, "sample.parquet")
        pq.write_table(rows, path)
        yield Reading(_OneFile(path), None)


class _OneFile:
    """As much of a lake as pushing rows needs: every key is the one file."""

    def __init__(self, path: Path) -> None:
        self.url = path.as_uri()
        self._path = path

    @contextmanager
    def local(self, key: str) -> Iterator[Path]:
        yield self._path


def same_records(columns: Sequence[Column], rows: pa.Table) -> RowFilter | None:
    """Returns the condition that finds the sampled records in a target; None where it cannot tell its rows
    apart."""
    names = {column.name for column in columns if column.filled}
    if not names >= set(IDENTITY):
        return None
    identity = [*IDENTITY, *(["_row"] if "_row" in names else [])]
    keys = listed(map(identifier, identity))
    offsets: list[Any] = rows["_offset"].to_pylist()
    # Of a large table nothing but the offsets is read to find them.
    between = Sql(f"PREWHERE _offset >= {min(offsets)} AND _offset <= {max(offsets)}")
    return RowFilter(Sql(f"({keys}) IN (SELECT {keys} FROM {{staged}})"), between)  # noqa: S608 - quoted
