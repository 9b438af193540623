"""Merges small files of one slice, type and hour before the manifest names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.config.counts import COUNTS
from sluice.flow.land.task import columns
from sluice.flow.land.task.count_fields import PARTIAL
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


# Sums up the partial sums of one slice: a merge of sorted files, in memory that does not grow with them.

FAN_IN = 64  # files that are read at once
PLACES = 4096
_ROWS_READ = 4096
_ROWS_WRITTEN = 50_000

CountRows = Iterator[tuple[bytes, int]]


class _Kind(msgspec.Struct):
    type: str


_TYPE_OF = msgspec.json.Decoder(_Kind)


@dataclass(frozen=True)
class Total:
    """The partial sums of one slice and table, `files`, that become one; it travels to the workers.

    `stamp`: the slice's start in ms, which is the `_timestamp` of its rows of counts.
    """

    lake: Lake
    attempt: str
    files: tuple[WrittenFile, ...]
    stamp: int

    def run(self, name: str) -> WrittenFile:
        """Returns one row for each key, in the lake's own columns; `name` is unique in the attempt.

        Raises what the lake raises.
        """
        files, level = self.files, 0
        while len(files) > FAN_IN:
            groups = enumerate(_parts(files))
            files = tuple(self._partial(group, f"{name}-total-{level}-{number}") for number, group in groups)
            level += 1
        with ExitStack() as stack, self._writing(f"{name}-total") as written:
            first = 0
            counted: Counter[str] = Counter()
            for rows in _blocks(summed(self._opened(stack, files))):
                counted.update(_by_type(rows))
                written.write(self._place, lake_rows(rows, files[0].cluster, self.stamp, first), {})
                first += len(rows)
            (file,) = written.finish()
        return replace(file, rows_by_type=dict(counted))

    def _partial(self, files: Sequence[WrittenFile], name: str) -> WrittenFile:
        with ExitStack() as stack, self._writing(name) as written:
            for rows in _blocks(summed(self._opened(stack, files))):
                keys, counts = zip(*rows, strict=True)
                written.write(self._place, pa.table([keys, counts], schema=PARTIAL), {})
            (file,) = written.finish()
        return file

    def _writing(self, name: str) -> AttemptFiles:
        return AttemptFiles(self.lake, self.files[0].cluster, self.attempt, name)

    @property
    def _place(self) -> FilePlace:
        return FilePlace(self.files[0].slice_id, self.files[0].type, "")

    def _opened(self, stack: ExitStack, files: Iterable[WrittenFile]) -> list[CountRows]:
        opened = []
        for file in files:
            path = stack.enter_context(self.lake.local(file.key))
            opened.append(_sums(stack.enter_context(pq.ParquetFile(path))))
        return opened


def summed(runs: Iterable[CountRows]) -> CountRows:
    """Returns each key once, of runs that are sorted by it."""
    for key, same in groupby(merge(*runs, key=itemgetter(0)), key=itemgetter(0)):
        yield key, sum(count for _, count in same)


def _sums(file: pq.ParquetFile) -> CountRows:
    for batch in file.iter_batches(_ROWS_READ):
        yield from zip(batch["key"].to_pylist(), batch["count"].to_pylist(), strict=True)


def _parts(files: Sequence[WrittenFile]) -> list[Sequence[WrittenFile]]:
    return [files[start : start + FAN_IN] for start in range(0, len(files), FAN_IN)]


def _blocks(sums: CountRows) -> Iterator[list[tuple[bytes, int]]]:
    while rows := list(islice(sums, _ROWS_WRITTEN)):
        yield rows


def _by_type(rows: Iterable[tuple[bytes, int]]) -> Counter[str]:
    """Sums up the written rows by type; the landing compares the sums with the rows that landed."""
    counted: Counter[str] = Counter()
    for key, count in rows:
        counted[_TYPE_OF.decode(key + b"}").type] += count
    return counted


def lake_rows(rows: Sequence[tuple[bytes, int]], cluster: str, stamp: int, first: int) -> pa.Table:
    """Returns the lake's columns. A row of counts is no record of Kafka's: its offset is its number, its
    partition one of PLACES."""
    size = len(rows)
    # On shards a row is placed by its partition: the key's hash spreads them.
    places = [crc32(key) % PLACES for key, _ in rows]
    values_by_column = {
        "_payload": pa.array([b'%s,"count":%d}' % row for row in rows], pa.binary()).cast(pa.string()),
        "_type": columns.constant(COUNTS, size),
        "_cluster": columns.constant(cluster, size),
        "_topic": columns.constant("", size),
        "_partition": pa.array(places, pa.int32()),
        "_offset": pa.array(range(first, first + size), pa.int64()),
        "_timestamp": pa.repeat(pa.scalar(stamp, pa.timestamp("ms", "UTC")), size),
        "_key": pa.nulls(size, pa.binary()),
        "_headers": pa.nulls(size, columns.HEADERS),
    }
    return pa.table(values_by_column, schema=columns.COUNTED)
