"""Makes records out of sorted rows of the lake: one of each offset, as Spark hands over those of Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.errors import CannotRemake
from sluice.flow.land.task import columns as headers
from sluice.flow.land.task.columns import lengths
from sluice.flow.land.task.erasing import ERASED
from sluice.flow.land.task.lake_file import reland_of
from sluice.flow.land.task.long_records import WHOLE_BYTES
from sluice.flow.land.task.read_counts import runs_of
from sluice.flow.land.task.task import Task
from sluice.flow.land.task.unpack import NUMBERS
from sluice.flow.land.task.whole_records import HELD, ROW, TOO_LARGE
from sluice.slices import Unit

WHOLE = -1
"""The number of a row that is a whole message."""
_RECORDS = 4_096


def batches_of(task: Task, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yields the records with the task's `columns()`, TOO_LARGE, HELD, ERASED, and NUMBERS where any is an
    array, each batch of one partition.

    `tables` are sorted by place, offset and row, and hold whole records; a place is the number of topic and
    partition among those of the task. Raises CannotRemake for rows that
    are there twice or are no whole record.
    """
    places = [task.place(*place) for place in sorted(task.edges)]
    for table in tables:
        for start, until in pairwise(runs_of(table["place"].to_numpy())):
            partition_rows = table.slice(start, until - start).combine_chunks()
            _refuse_held(task, partition_rows)
            for part in _bounded(_whole(task, partition_rows)):
                yield _batch(part, places)


def element_batches(task: Task, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yields each row as a record of its own, with ROW, its number in its message."""
    places = [task.place(*place) for place in sorted(task.edges)]
    for table in tables:
        for start, until in pairwise(runs_of(table["place"].to_numpy())):
            for part in _bounded(table.slice(start, until - start).combine_chunks()):
                batch = _batch(part, places)
                numbers = part["row"].combine_chunks()
                yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, ROW])


def _whole(task: Task, rows: pa.Table) -> pa.Table:
    """Returns a row for each record; the elements of an array are joined again, and keep their numbers."""
    numbers, starts = rows["row"].to_numpy(), np.array(runs_of(rows["offset"].to_numpy()))
    place_in_record = np.arange(len(numbers)) - np.repeat(starts[:-1], np.diff(starts))
    single = numbers == WHOLE
    if any(file.gaps for file in task.files or ()):
        follows = np.diff(numbers, prepend=WHOLE) > 0
        wrong = np.where(single, place_in_record != 0, (place_in_record > 0) & ~follows)
    else:
        wrong = np.where(single, place_in_record != 0, numbers != place_in_record)
    if wrong.any():
        raise _refusal(task, rows, int(np.flatnonzero(wrong)[0]), "has rows twice, or lacks some")
    if single.all():
        return rows
    _refuse_differing(task, rows, place_in_record)
    values: list[Any] = rows["value"].to_pylist()
    joined = [
        values[start] if single[start] else b"[" + b",".join(values[start:until]) + b"]"
        for start, until in pairwise(starts.tolist())
    ]
    records = rows.take(pa.array(starts[:-1]))
    are_whole = pa.array(single[starts[:-1]])
    kept = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(numbers), mask=are_whole)
    records = records.append_column(NUMBERS, kept)
    return records.set_column(records.column_names.index("value"), "value", pa.array(joined, pa.binary()))


def _refuse_differing(task: Task, rows: pa.Table, place_in_record: np.ndarray) -> None:
    """Raises CannotRemake where rows of one message differ in time, key or headers."""
    later = np.flatnonzero(place_in_record > 0)
    for name in ("timestamp", "key", "headers"):
        values = rows[name].to_pylist()
        for row in later.tolist():
            if values[row] != values[row - 1]:
                raise _refusal(task, rows, row, f"has rows with different {name}")


def _refuse_held(task: Task, rows: pa.Table) -> None:
    """Raises CannotRemake for a record that was too large and is no longer: the lake has its size alone."""
    sizes = rows["size"]
    if sizes.null_count == rows.num_rows:
        return
    for row, size in enumerate(sizes.to_pylist()):
        if size is not None and size <= task.pipeline.max_record:
            what = (
                f"was too large ({size:,} bytes), and `max_record` takes it now: the lake has its size alone"
            )
            raise _refusal(task, rows, row, what)


def _refusal(task: Task, rows: pa.Table, row: int, what: str) -> CannotRemake:
    topic_partition, offset = sorted(task.edges)[rows["place"][row].as_py()], rows["offset"][row].as_py()
    slice_ = task.slices[int(np.searchsorted(task.edges[topic_partition], offset, "right")) - 1]
    unit, place = Unit(slice_, task.cluster), f"{topic_partition[0]}/{topic_partition[1]} offset {offset}"
    return CannotRemake(str(unit), f"{place} {what}", reland_of(task.lake, unit))


def _bounded(records: pa.Table) -> Iterator[pa.Table]:
    """Cuts into batches of bounded number and bytes; a record that is larger is alone."""
    ends = np.cumsum(lengths(records["value"]) + lengths(records["key"]))
    start = 0
    while start < records.num_rows:
        before = int(ends[start - 1]) if start else 0
        until = max(start + 1, int(np.searchsorted(ends, before + WHOLE_BYTES, "right")))
        until = min(until, start + _RECORDS)
        yield records.slice(start, until - start)
        start = until


def _batch(records: pa.Table, places: Sequence[int]) -> pa.RecordBatch:
    place = places[records["place"][0].as_py()]
    columns = {
        "value": records["value"],
        "key": records["key"],
        "headers": _texts(records["headers"]),
        "place": pa.array(np.full(records.num_rows, place, np.int32)),
        "offset": records["offset"],
        "timestamp": records["timestamp"],
        TOO_LARGE: records["size"],
        HELD: records["held"],
        ERASED: records["erased"],
    }
    if NUMBERS in records.column_names:
        columns[NUMBERS] = records[NUMBERS]
    # Slices are copied: whoever takes a column counts its bytes.
    return pa.table(columns).combine_chunks().to_batches()[0]


def _texts(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    texts = [
        None if pairs is None else headers.to_json([(pair["key"], pair["value"]) for pair in pairs])
        for pairs in column.to_pylist()
    ]
    return pa.array(texts, pa.string())
