"""Sums up the partial sums of one slice: a merge of sorted files, in memory that does not grow with them."""

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
from sluice.flow.land.task.writer import AttemptFiles, FilePlace

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
