"""Writes one task's Parquet files into its attempt: by slice, type and event hour, few open at once."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Begun, Lake
from sluice.clients.lake.durable import explained
from sluice.concurrency import Lanes
from sluice.crash_points import Land
from sluice.flow.land.task import columns
from sluice.flow.land.task.reports import WrittenFile

MOST_OPEN = 128
_SIDE_BY_SIDE = 8
# A file that begins with fewer bytes of rows is made in memory: a small one costs less so. It is finished at
# as many bytes, so that those that are open take a bounded part of it.
HELD_BYTES = 1 << 20


class FilePlace(NamedTuple):
    """What one file holds. `type` None: the overflow; `hour` empty: rejected records."""

    slice_id: str
    type: str | None
    hour: str


@dataclass
class _Open:
    """`sink` is a file of the lake's, or memory."""

    key: str
    sink: Begun | pa.BufferOutputStream
    parquet: pq.ParquetWriter
    rows: int = 0
    rows_by_type: Counter[str] = field(default_factory=Counter)


class AttemptFiles:
    """The files of the task `name` (unique in the attempt); `with` removes what a failure left unfinished.

    At most `most_open` are open: then the one that waited longest is finished, and more rows for its
    place go into another file. Files are handed to the lake side by side where each waits for a disk or a
    server; at most `most_open` are on their way. After `finish` they are safe from a power cut.
    """

    def __init__(self, lake: Lake, cluster: str, attempt: str, name: str, most_open: int = MOST_OPEN) -> None:
        self._end = ExitStack()
        self._lake = self._end.enter_context(lake.synced_at_end())
        self._cluster = cluster
        self._attempt = attempt
        self._name = name
        self._most_open = most_open
        self._open: OrderedDict[FilePlace, _Open] = OrderedDict()
        self._begun = 0
        self._unfinished: set[Begun] = set()
        self._lanes = Lanes(_SIDE_BY_SIDE)
        self._leaving: deque[tuple[_Open, Future[WrittenFile]]] = deque()
        self._finished: list[WrittenFile] = []

    def write(self, place: FilePlace, rows: pa.Table, rows_by_type: Mapping[str, int]) -> None:
        """Writes one more row group; `rows_by_type` only for the overflow. Raises what the lake raises."""
        if place not in self._open:
            if len(self._open) == self._most_open:
                self._finish(next(iter(self._open)))
            self._open[place] = self._begin(place, rows)
        file = self._open[place]
        self._open.move_to_end(place)
        with _disk_of(file.sink):
            file.parquet.write_table(rows)
        file.rows += rows.num_rows
        file.rows_by_type.update(rows_by_type)
        if not isinstance(file.sink, Begun) and file.sink.tell() >= HELD_BYTES:
            self._finish(place)

    def finish(self) -> tuple[WrittenFile, ...]:
        """Returns all files, in the lake. Raises what the lake raises."""
        for place in list(self._open):
            self._finish(place)
        self._await(0)
        self._end.close()
        return tuple(self._finished)

    def __enter__(self) -> AttemptFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._lanes.close()
        for file in self._open.values():
            with suppress(OSError):  # of a file that is removed; why, is raised already
                file.parquet.close()
        for begun in self._unfinished:
            begun.discard()

    def _begin(self, place: FilePlace, rows: pa.Table) -> _Open:
        key = f"{layout.attempt(place.slice_id, self._attempt)}{self._name}-{self._begun}.parquet"
        self._begun += 1
        if rows.nbytes >= HELD_BYTES:
            begun = self._lake.begin(key)
            self._unfinished.add(begun)
            with _disk_of(begun):
                return _Open(key, begun, columns.writer(begun.path, rows.schema))
        memory = pa.BufferOutputStream()
        return _Open(key, memory, columns.writer(memory, rows.schema, columns.empty(rows)))

    def _finish(self, place: FilePlace) -> None:
        self._await(self._most_open - 1)
        file = self._open[place]
        with _disk_of(file.sink):
            file.parquet.close()
        del self._open[place]
        self._leaving.append((file, self._lanes.submit(partial(self._hand_over, place, file))))

    def _await(self, left: int) -> None:
        while len(self._leaving) > left:
            file, hand_over = self._leaving[0]
            self._finished.append(hand_over.result())
            self._leaving.popleft()
            if isinstance(file.sink, Begun):
                self._unfinished.discard(file.sink)

    def _hand_over(self, place: FilePlace, file: _Open) -> WrittenFile:
        if isinstance(file.sink, Begun):
            with _disk_of(file.sink):
                size, digest = file.sink.path.stat().st_size, sha256(file.sink.path)
            hand_over = partial(self._lake.finish, file.key, file.sink)
        else:
            data = file.sink.getvalue().to_pybytes()
            size, digest = len(data), hashlib.sha256(data).hexdigest()
            hand_over = partial(self._lake.put, file.key, data)
        handed_over(hand_over)
        return WrittenFile(self._cluster, *place, file.key, file.rows, size, digest, dict(file.rows_by_type))


def handed_over(hand_over: Callable[[], None]) -> None:
    """Hands a file that is written over to the lake."""
    crash_points.reached(Land.FILE_WRITTEN)
    hand_over()
    crash_points.reached(Land.FILE_HANDED_OVER)


def _disk_of(sink: Begun | pa.BufferOutputStream) -> AbstractContextManager[None]:
    """Raises what a lake raises where the disk that holds a file fails: a folder's, or that of temporary
    files."""
    return explained(f"file://{sink.folder}") if isinstance(sink, Begun) else nullcontext()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Gathers rows until they fill a bound, and sorts them by the file that each goes to.
ROWS_GATHERED = 250_000
BYTES_GATHERED = 64 << 20
_LARGEST = np.iinfo(np.int64).max

Key = tuple[int, ...]


class Gathering:
    """`by`: columns of whole numbers; rows with the same ones go to one file."""

    def __init__(self, by: Sequence[str]) -> None:
        self._by = by
        self._parts: list[pa.Table] = []
        self._count = self._bytes = 0

    def add(self, rows: pa.Table) -> None:
        self._parts.append(rows)
        self._count += rows.num_rows
        self._bytes += rows.nbytes

    @property
    def full(self) -> bool:
        return self._count >= ROWS_GATHERED or self._bytes >= BYTES_GATHERED

    def drain(self) -> Iterator[tuple[Key, pa.Table]]:
        """Yields all rows in the order of their keys, those of one key as they came; the gathering is empty
        afterwards."""
        parts, self._parts = self._parts, []
        self._count = self._bytes = 0
        if not parts:
            return
        rows = pa.concat_tables(parts)
        del parts
        order, runs = sort([rows[name].to_numpy() for name in self._by])
        rows = rows.drop_columns([*self._by])
        if order is not None:
            rows = rows.take(pa.array(order))
        start = 0
        for key, count in runs:
            yield key, rows.slice(start, count)
            start += count


def sort(columns: Sequence[np.ndarray]) -> tuple[np.ndarray | None, list[tuple[Key, int]]]:
    """Returns the stable order of rows by their keys, None where all are alike, and each key with its number
    of rows."""
    first = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, first, strict=True)]
    if math.prod(spans) > _LARGEST:
        return _sort_by_rank(columns)
    combined = np.zeros(len(columns[0]), np.int64)
    for column, low, span in zip(columns, first, spans, strict=True):
        combined = combined * span + (column.astype(np.int64) - low)
    encoded = pa.array(combined).dictionary_encode()
    distinct = encoded.dictionary.to_numpy()
    # numpy sorts 16 bits by radix, many times faster than the combined numbers.
    rank = np.empty(len(distinct), np.uint16 if len(distinct) < 1 << 16 else np.int64)
    rank[np.argsort(distinct)] = np.arange(len(distinct))
    ranks = rank[encoded.indices.to_numpy()]
    order = None if len(distinct) == 1 else np.argsort(ranks, kind="stable")
    counts = np.bincount(ranks, minlength=len(distinct)).tolist()
    keys = (_separated(number, first, spans) for number in np.sort(distinct).tolist())
    return order, list(zip(keys, counts, strict=True))


def _separated(number: int, first: Sequence[int], spans: Sequence[int]) -> Key:
    key: list[int] = []
    for low, span in zip(reversed(first), reversed(spans), strict=True):
        number, rest = divmod(number, span)
        key.append(rest + low)
    return tuple(reversed(key))


def _sort_by_rank(columns: Sequence[np.ndarray]) -> tuple[np.ndarray | None, list[tuple[Key, int]]]:
    """Returns the same for numbers that lie too far apart to be one number together."""
    numbers, ranks = zip(*(np.unique(column, return_inverse=True) for column in columns), strict=True)
    order, runs = sort(ranks)
    return order, [
        (tuple(int(of[rank]) for of, rank in zip(numbers, key, strict=True)), count) for key, count in runs
    ]
