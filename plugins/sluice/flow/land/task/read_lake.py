"""The records of a unit out of the lake's own files: what a landing reads where it remakes a unit.

A file holds the rows of one type and hour, so a partition's records lie in many of them, each in their own
order. They are put in the order of their offsets, through files on the task's disk where they are many. Rows
that came out of one message (`rows: array`) become that message again; messages that were decoded have kept
their own bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.errors import CannotRemake
from sluice.flow.land import reject_reasons
from sluice.flow.land.task.columns import HEADERS, lengths, to_json
from sluice.flow.land.task.erasing import RowErasing
from sluice.flow.land.task.read_kafka import WHOLE_BYTES, divided
from sluice.flow.land.task.records import (
    CHANGE,
    ERASED,
    ERASED_ROWS,
    HELD,
    LENGTHS,
    NUMBERS,
    ROW,
    TOO_LARGE,
    runs_of,
)
from sluice.flow.land.task.task import LakeFile, Task, reland_of
from sluice.flow.land.task.writer import sha256
from sluice.manifest import SHIPPED_TWICE, TOMBSTONE, Masked
from sluice.mask.unit_mask import is_held
from sluice.slices import Unit

# As many records are one task's; more are divided as those of Kafka are.
TOGETHER = 200_000
_ROWS = 8_192
_PLACE = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
_MORE = ("_row", "_size", "_reason", CHANGE)
Takes = Callable[[str], bool]
"""Says of a reason whether a retry tries its records."""
_MAY_LACK_VALUE = (TOMBSTONE, SHIPPED_TWICE, reject_reasons.TOO_MANY_BATCHES)


def shares(task: Task, together: bool, most_rows: int = TOGETHER) -> list[Task]:
    """Divides a task that reads from the lake into those that may run side by side."""
    offsets = sum(int(edges[-1] - edges[0]) for edges in task.edges.values())
    return [task] if together or offsets <= most_rows else divided(task, task.pipeline.rows_per_task)


def tried(batch: pa.RecordBatch, masked: Masked | None, takes: Takes) -> np.ndarray:
    """Returns which rejected records a retry tries: those whose bytes are there, and may become a row, of the
    reasons that it `takes`."""
    count, reasons = batch.num_rows, batch["_reason"].cast(pa.string())
    fixed: set[Any] = set(reject_reasons.NO_FIX)
    unique: list[Any] = pc.unique(reasons).to_pylist()
    chosen = [reason for reason in unique if reason not in fixed and takes(reason)]
    are_chosen: pa.Array[Any] = pc.is_in(reasons, value_set=pa.array(chosen, pa.string()))
    good: np.ndarray = are_chosen.to_numpy(zero_copy_only=False).astype(bool)
    good &= batch["_payload"].is_valid().to_numpy(zero_copy_only=False)
    if "_size" in batch.schema.names:
        good &= batch["_size"].is_null().to_numpy(zero_copy_only=False)
    if masked is not None:
        texts: list[Any] = batch["_payload"].cast(pa.binary()).to_pylist()
        good &= ~np.fromiter((t is not None and is_held(t, masked) for t in texts), bool, count)
    return good


def rejected_batches(task: Task, elements: bool, takes: Takes) -> Iterator[pa.RecordBatch]:
    """Yields the rejected records that a retry tries of the task's `files`, as `batches` does: whole records,
    or `elements` of arrays, each of them alone and with ROW, the number that it has; of the reasons that it
    `takes`."""
    spans = _Spans(task)

    def chosen(file: LakeFile, batch: pa.RecordBatch) -> np.ndarray:
        are_elements = np.zeros(batch.num_rows, bool)
        if "_row" in batch.schema.names:
            are_elements = batch["_row"].is_valid().to_numpy(zero_copy_only=False)
        good: np.ndarray = tried(batch, file.masked, takes) & (are_elements == elements)
        return good

    parts = (part for file in task.files or () for part in _rows_of(task, file, spans, None, chosen))
    tables = sorted_by_record(parts)
    yield from element_batches(task, tables) if elements else batches_of(task, tables)


def batches(task: Task) -> Iterator[pa.RecordBatch]:
    """Yields all records of the task's `files` that lie between its edges, as `direct_read.batches` does.

    Raises CannotRemake for a file that is missing or damaged, and for rows that are no whole records.
    """
    spans, erased = _Spans(task), _Erased(task)
    parts = (part for file in task.files or () for part in _rows_of(task, file, spans, erased))
    yield from batches_of(task, sorted_by_record(parts))


class _Spans:
    """By place the offsets that the task reads."""

    def __init__(self, task: Task) -> None:
        self.topics = pa.array(task.topics, pa.string())
        spans = sorted((task.place(*place), int(e[0]), int(e[-1])) for place, e in task.edges.items())
        self._places, self._first, self._until = (np.array(column) for column in zip(*spans, strict=True))
        self._partitions = {partition for _, partition in task.edges}
        order = {task.place(*place): number for number, place in enumerate(sorted(task.edges))}
        self._order = np.array([order[place] for place in self._places.tolist()])

    def may_have(self, group: Any, columns: Mapping[str, int]) -> bool:
        """Returns whether a row group may have records between the edges, by its statistics."""
        statistics = [group.column(columns[name]).statistics for name in ("_partition", "_offset")]
        if any(column is None or not column.has_min_max for column in statistics):
            return True
        partition, offset = statistics
        if not any(partition.min <= number <= partition.max for number in self._partitions):
            return False
        return bool(offset.max >= self._first.min() and offset.min < self._until.max())

    def chosen(self, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Returns which rows lie between the edges, and of each the number of its topic and partition, in the
        order in which a task reads them from Kafka."""
        indexes: pa.Array[Any] = pc.index_in(batch["_topic"], value_set=self.topics)
        topics = indexes.fill_null(-1).to_numpy()
        places = batch["_partition"].to_numpy() * len(self.topics) + topics
        offsets = batch["_offset"].to_numpy()
        at = np.minimum(np.searchsorted(self._places, places), len(self._places) - 1)
        good = (topics >= 0) & (self._places[at] == places)
        good &= (offsets >= self._first[at]) & (offsets < self._until[at])
        rows = np.flatnonzero(good)
        return rows, self._order[at[rows]]


class _Erased:
    """What is erased of each unit's rows where messages are decoded, or changes of rows: they may give
    another event now, and the person was found in the one that the lake has."""

    def __init__(self, task: Task) -> None:
        self._decoded = task.decoding is not None or task.pipeline.event.change is not None
        self._by_unit: dict[str, RowErasing] = {}
        for slice_ in task.slices:
            entries = [entry for entry in task.erasures.entries if entry.covers(slice_)]
            if entries:
                self._by_unit[str(Unit(slice_, task.cluster))] = RowErasing(task.erasures, entries)

    def of(self, file: LakeFile, names: set[str]) -> RowErasing | None:
        return self._by_unit.get(file.unit) if self._decoded or "_raw" in names else None


_Chosen = Callable[[LakeFile, pa.RecordBatch], np.ndarray]


def _rows_of(
    task: Task, file: LakeFile, spans: _Spans, erased: _Erased | None, chosen: _Chosen | None = None
) -> Iterator[pa.Table]:
    try:
        with task.lake.local(file.key) as path:
            yield from _read(path, file, spans, erased, chosen)
    except FileNotFoundError:
        raise file.refusal("is missing") from None
    except (pa.ArrowException, OSError) as error:
        raise file.refusal(f"cannot be read ({error})") from error


def _read(
    path: Path, file: LakeFile, spans: _Spans, erased: _Erased | None, chosen: _Chosen | None
) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as parquet:
        meta = parquet.metadata
        if meta.num_rows != file.rows:
            raise file.refusal(f"has {meta.num_rows:,} rows, and its manifest says {file.rows:,}")
        schema = parquet.schema_arrow
        names = set(schema.names)
        for name in ("_partition", "_offset"):
            if name not in names or not pa.types.is_integer(schema.field(name).type):
                raise file.refusal(f"has no column {name} as a landing writes it")
        paths = {meta.schema.column(number).path: number for number in range(meta.num_columns)}
        groups = [n for n in range(meta.num_row_groups) if spans.may_have(meta.row_group(n), paths)]
        if not groups:
            return
        if sha256(path) != file.sha256:
            raise file.refusal("has other bytes than its manifest says")
        row_erasing = erased.of(file, names) if erased else None
        texts = {_value_of(names), *(() if row_erasing is None else ("_payload", "_type"))}
        selected = [name for name in (*texts, *_PLACE, *_MORE) if name in names]
        for batch in parquet.iter_batches(_ROWS, row_groups=groups, columns=selected):
            if chosen is not None:
                batch = batch.filter(pa.array(chosen(file, batch)))
            rows, places = spans.chosen(batch)
            if len(rows):
                yield _records(file, batch.take(pa.array(rows, pa.int64())), places, row_erasing)


def _value_of(names: set[str]) -> str:
    """Returns the column of the messages. Where they were decoded, that is beside the event's."""
    return "_raw" if "_raw" in names else "_payload"


def _records(
    file: LakeFile, batch: pa.RecordBatch, places: np.ndarray, erased: RowErasing | None
) -> pa.Table:
    count, names = batch.num_rows, batch.schema.names
    value = _value_of({*names})
    sizes = batch["_size"] if "_size" in names else pa.nulls(count, pa.int64())
    numbers: pa.Array[Any] = batch["_row"] if "_row" in names else pa.nulls(count, pa.int32())
    _refuse_incomplete(file, batch, value, sizes)
    return pa.table(
        {
            "place": pa.array(places, pa.int32()),
            "offset": batch["_offset"],
            "row": numbers.fill_null(WHOLE),
            "timestamp": batch["_timestamp"].cast(pa.int64()),
            "key": batch["_key"],
            "headers": batch["_headers"].cast(HEADERS),
            "value": batch[value].cast(pa.binary()),
            "size": sizes,
            "held": _held(file, batch, value, numbers),
            "erased": _are_erased(batch, erased),
            CHANGE: batch[CHANGE].cast(pa.string()) if CHANGE in names else pa.nulls(count, pa.string()),
        }
    )


def _are_erased(batch: pa.RecordBatch, erased: RowErasing | None) -> pa.Array[Any]:
    """Returns which rows are erased of those whose messages were decoded."""
    flags = np.zeros(batch.num_rows, bool) if erased is None else erased.found(batch)
    return pa.array(flags, pa.bool_())


def _held(file: LakeFile, batch: pa.RecordBatch, value: str, numbers: pa.Array[Any]) -> pa.Array[Any]:
    """Returns why a whole message was rejected of which the lake has a hash alone."""
    if not file.rejected or file.masked is None:
        return pa.nulls(batch.num_rows, pa.string())
    texts: list[Any] = batch[value].cast(pa.binary()).to_pylist()
    are_whole = numbers.is_null().to_pylist()
    reasons: list[Any] = batch["_reason"].to_pylist()
    held = [
        reason if is_whole and text is not None and is_held(text, file.masked) else None
        for is_whole, text, reason in zip(are_whole, texts, reasons, strict=True)
    ]
    return pa.array(held, pa.string())


def _refuse_incomplete(file: LakeFile, batch: pa.RecordBatch, value: str, sizes: pa.Array[Any]) -> None:
    """Raises CannotRemake for a record whose bytes are not in the lake, though Kafka had some."""
    lacking = pc.and_(pc.is_null(batch[value]), pc.is_null(sizes))
    if not pc.any(lacking).as_py():
        return
    for row in (
        batch.select([*_PLACE[:3], *(["_reason"] if file.rejected else [])]).filter(lacking).to_pylist()
    ):
        if row.get("_reason") not in _MAY_LACK_VALUE:
            where = f"{row['_topic']}/{row['_partition']} offset {row['_offset']}"
            raise file.refusal(f"does not hold the bytes of {where}")


# Makes records out of sorted rows: one of each offset, as Spark hands over those of Kafka.
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
            partition_rows = _with_changes(task, table.slice(start, until - start).combine_chunks())
            _refuse_held(task, partition_rows)
            for part in _bounded(_joined(task, partition_rows)):
                yield _batch_of(part, places)


def element_batches(task: Task, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yields each row as a record of its own, with ROW, its number in its message."""
    places = [task.place(*place) for place in sorted(task.edges)]
    for table in tables:
        for start, until in pairwise(runs_of(table["place"].to_numpy())):
            for part in _bounded(table.slice(start, until - start).combine_chunks()):
                batch = _batch_of(part, places)
                numbers = part["row"].combine_chunks()
                yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, ROW])


def _joined(task: Task, rows: pa.Table) -> pa.Table:
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
    sizes = pa.array(lengths(rows["value"]))
    flags, ends = rows["erased"].combine_chunks(), pa.array(starts, pa.int32())
    records = records.append_column(NUMBERS, kept)
    records = records.append_column(LENGTHS, pa.ListArray.from_arrays(ends, sizes))
    records = records.append_column(ERASED_ROWS, pa.ListArray.from_arrays(ends, flags))
    whole = pc.and_(records["erased"], are_whole)
    records = records.set_column(records.column_names.index("erased"), "erased", whole)
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


def _with_changes(task: Task, rows: pa.Table) -> pa.Table:
    """Returns rows with CHANGE if any has one. Raises CannotRemake for an event that was made of a change as
    the pipeline file no longer says: the lake has no other bytes of it."""
    if CHANGE not in rows.column_names or rows[CHANGE].null_count == rows.num_rows:
        return rows.drop_columns([name for name in (CHANGE,) if name in rows.column_names])
    event = task.pipeline.event
    now = event.change.kind if event.change is not None and event.unwraps else None
    for row, then in enumerate(rows[CHANGE].to_pylist()):
        if then is not None and then != now:
            raise _refusal(task, rows, row, f"landed by `change: {then}`, and its message is not in the lake")
    return rows


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


def _batch_of(records: pa.Table, places: Sequence[int]) -> pa.RecordBatch:
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
    own = (NUMBERS, LENGTHS, ERASED_ROWS, CHANGE)
    columns |= {name: records[name] for name in own if name in records.column_names}
    # Slices are copied: whoever takes a column counts its bytes.
    return pa.table(columns).combine_chunks().to_batches()[0]


def _texts(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    texts = [
        None if pairs is None else to_json([(pair["key"], pair["value"]) for pair in pairs])
        for pairs in column.to_pylist()
    ]
    return pa.array(texts, pa.string())


# Puts rows in the order of their records, in bounded memory: sorted runs on disk, and their merge.

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
