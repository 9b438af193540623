"""Puts rows in the order of their records, in bounded memory: sorted runs on disk, and their merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from sluice.flow.land.task.columns import lengths

HELD_BYTES = 64 << 20
PIECE_BYTES = 1 << 20
FAN_IN = 64

Key = tuple[int, int]
"""A place and an offset."""


def sorted_by_record(parts: Iterable[pa.Table], held: int = HELD_BYTES) -> Iterator[pa.Table]:
    """Yields all rows by place, offset and row; those of one record are in one table.

    `parts` have the columns `place`, `offset`, `row` and `value`, and any others. Of more than `held` bytes
    runs are sorted one by one, and kept in files of their own.
    """
    gathered: list[pa.Table] = []
    size = 0
    with TemporaryDirectory(prefix="sluice-") as folder:
        runs: list[Path] = []
        for part in parts:
            gathered.append(part)
            size += part.nbytes
            if size >= held:
                runs.append(_write(Path(folder, f"{len(runs)}"), [_sorted(gathered)]))
                gathered, size = [], 0
        if not runs:
            yield from [_sorted(gathered)] if gathered else ()
            return
        if gathered:
            runs.append(_write(Path(folder, f"{len(runs)}"), [_sorted(gathered)]))
            gathered = []
        yield from _merged_all(runs)


def _merged_all(runs: Sequence[Path]) -> Iterator[pa.Table]:
    while len(runs) > FAN_IN:
        groups = [runs[start : start + FAN_IN] for start in range(0, len(runs), FAN_IN)]
        runs = [_write(group[0].with_name(f"{group[0].name}+"), _merged(group)) for group in groups]
    yield from _merged(runs)


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(tables)
    keys = [rows[name].to_numpy() for name in ("row", "offset", "place")]
    return rows.take(np.lexsort(keys))


def _write(path: Path, tables: Iterable[pa.Table]) -> Path:
    """Writes tables, one after another, in pieces that are read one by one."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    writer: pa.ipc.RecordBatchFileWriter | None = None
    try:
        for table in tables:
            writer = writer or pa.ipc.new_file(str(path), table.schema, options=options)
            for piece in _pieces(table):
                writer.write_table(piece.combine_chunks())
    finally:
        if writer is not None:
            writer.close()
    return path


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Cuts at PIECE_BYTES of values; one that is longer is alone."""
    ends = np.cumsum(lengths(table["value"]) + lengths(table["key"]) + 64)
    start = 0
    while start < table.num_rows:
        before = int(ends[start - 1]) if start else 0
        until = max(start + 1, int(np.searchsorted(ends, before + PIECE_BYTES, "right")))
        yield table.slice(start, until - start)
        start = until


def _merged(runs: Sequence[Path]) -> Iterator[pa.Table]:
    """Yields what lies below the last key that every run has shown so far: nothing below it is to come."""
    with ExitStack() as stack:
        heads = [_Head(stack, run) for run in runs]
        while any(head.more for head in heads):
            bound = min(head.last for head in heads if head.more)
            below = [part for head in heads if (part := head.below(bound)).num_rows]
            if below:
                yield _sorted(below)
            for head in heads:
                if head.more and head.last == bound:
                    head.extend()
        left = [head.rows for head in heads if head.rows.num_rows]
        if left:
            yield _sorted(left)


class _Head:
    """The rows of a run that are in memory, and what of its file is to come."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self._file = pa.ipc.open_file(stack.enter_context(pa.OSFile(str(path), "rb")))
        self._next = 0
        self.rows = self._file.schema.empty_table()
        self.extend()

    @property
    def more(self) -> bool:
        return self._next < self._file.num_record_batches

    @property
    def last(self) -> Key:
        return self.rows["place"][-1].as_py(), self.rows["offset"][-1].as_py()

    def extend(self) -> None:
        if self.more:
            piece = pa.Table.from_batches([self._file.get_batch(self._next)])
            self.rows = pa.concat_tables([self.rows, piece])
            self._next += 1

    def below(self, bound: Key) -> pa.Table:
        """Takes off the rows of records before `bound`."""
        places, offsets = self.rows["place"].to_numpy(), self.rows["offset"].to_numpy()
        count = int(((places < bound[0]) | ((places == bound[0]) & (offsets < bound[1]))).sum())
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        return taken
