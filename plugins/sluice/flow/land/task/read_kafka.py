"""The records of a task out of Kafka: read by the task itself, or mended where Spark's source has cut them.

For Spark's source each part of a run is a plan, and each of its partitions a client: a year of small hours,
5 million records in all, took the JVM 50 s of the processor. Where tasks read themselves it takes 12, and
they 4 more. And the source holds what a fetch brings, decompressed: this reader holds some hundred KiB, or
one record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from sluice.clients.kafka.records import BoundedReader, OffsetSpan, PartitionRecords, RecordBody
from sluice.flow.land.task import columns
from sluice.flow.land.task.columns import lengths
from sluice.flow.land.task.records import TOO_LARGE, runs_of
from sluice.flow.land.task.task import CUT_BYTES, Task

WHOLE_BYTES = 32 << 20
_joined: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
_joined = pa.concat_batches  # type: ignore[attr-defined]  # newer than its stubs
_RECORDS = (256 << 20) // CUT_BYTES


def batches(reader: BoundedReader, task: Task) -> Iterator[pa.RecordBatch]:
    """Yields all that `task` reads, with its `columns()` and TOO_LARGE: partition after partition, whole
    records.

    Raises KafkaUnavailable, BatchUnreadable.
    """
    edges = sorted(task.edges.items())
    spans = [
        OffsetSpan(*topic_partition, int(offsets[0]), int(offsets[-1])) for topic_partition, offsets in edges
    ]
    gathered: list[pa.RecordBatch] = []
    rows, size, before = 0, 0, None
    for records in reader.read(spans):
        topic_partition, count = records[:2], len(records.offsets)
        if gathered and (topic_partition != before or rows + count > _RECORDS or size > WHOLE_BYTES):
            yield _joined(gathered)
            gathered, rows, size = [], 0, 0
        gathered.append(_batch(task, records))
        rows, size, before = rows + count, size + gathered[-1].nbytes, topic_partition
    if gathered:
        yield _joined(gathered)


def divided(task: Task, rows: int) -> list[Task]:
    """Divides into tasks of at most so many offsets of one partition, which read together what `task`
    reads."""
    return [
        replace(
            task,
            edges={topic_partition: np.clip(edges, start, min(start + rows, int(edges[-1])))},
            whole=task.edges,
        )
        for topic_partition, edges in sorted(task.edges.items())
        for start in range(int(edges[0]), int(edges[-1]), rows)
    ]


def _batch(task: Task, records: PartitionRecords) -> pa.RecordBatch:
    place, count = task.place(records.topic, records.partition), len(records.offsets)
    texts = [None if pairs is None else columns.to_json(pairs) for pairs in records.headers]
    found = {
        "value": pa.array(records.values, pa.binary()),
        "key": pa.array(records.keys, pa.binary()),
        "headers": pa.array(texts, pa.string()),
        "place": pa.array(np.full(count, place, np.int32)),
        "offset": pa.array(records.offsets, pa.int64()),
        "timestamp": pa.array(records.timestamps, pa.int64()),
        TOO_LARGE: pa.array([records.too_large.get(n) for n in range(count)], pa.int64()),
    }
    return pa.record_batch(found)


# Long records: Spark hands over what is at most CUT_BYTES long, and the task reads the others itself.
#
# So a batch of Spark's is bounded by its number of records, and no record has to be measured. A record that
# is larger than the pipeline's `max_record` is rejected by its size: it is decompressed in parts.
_CONTENTS = ("value", "key", "headers")


class LongRecordReader(Protocol):
    def each(self, topic: str, partition: int, offsets: Sequence[int]) -> Iterator[RecordBody]:
        """Yields the records at `offsets`, which ascend."""


def whole(
    task: Task, batches: Iterable[pa.RecordBatch], reader: LongRecordReader
) -> Iterator[pa.RecordBatch]:
    """Yields `batches`, with all of each record that was cut; those that hold such are divided by bytes."""
    places = {task.place(*place): place for place in task.edges}
    for batch in batches:
        for part in by_place(batch):
            cut = _cut(part)
            if not len(cut):
                yield part
                continue
            offsets = part["offset"].to_numpy()[cut].tolist()
            records = reader.each(*places[part["place"][0].as_py()], offsets)
            yield from _mended(part, cut.tolist(), records)


def by_place(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the batch in pieces of one topic and partition; as Spark reads, that is the batch itself."""
    if not batch.num_rows:
        return
    edges = runs_of(batch["place"].to_numpy())
    yield from (batch.slice(start, until - start) for start, until in pairwise(edges))


def _cut(part: pa.RecordBatch) -> np.ndarray:
    """Returns which records are longer than CUT_BYTES in what was handed over of them."""
    return np.flatnonzero(np.maximum.reduce([lengths(part[name]) for name in _CONTENTS]) > CUT_BYTES)


def _mended(
    part: pa.RecordBatch, cut: Sequence[int], records: Iterator[RecordBody]
) -> Iterator[pa.RecordBatch]:
    begun, size = 0, 0
    bodies: dict[int, RecordBody] = {}
    for position, record in zip(cut, records, strict=True):
        bodies[position - begun] = record
        size += record.size
        if size >= WHOLE_BYTES:
            yield _replaced(part.slice(begun, position + 1 - begun), bodies)
            begun, size, bodies = position + 1, 0, {}
    if begun < part.num_rows:
        yield _replaced(part.slice(begun), bodies)


def _replaced(part: pa.RecordBatch, bodies: Mapping[int, RecordBody]) -> pa.RecordBatch:
    texts = {name: part[name].to_pylist() for name in _CONTENTS}
    sizes: list[int | None] = [None] * part.num_rows
    for position, record in bodies.items():
        texts["value"][position], texts["key"][position] = record.value, record.key
        texts["headers"][position] = None if record.headers is None else columns.to_json(record.headers)
        sizes[position] = record.too_large
    for name, column in texts.items():
        kind = pa.string() if name == "headers" else pa.binary()
        part = part.set_column(part.schema.get_field_index(name), name, pa.array(column, kind))
    return part.append_column(TOO_LARGE, pa.array(sizes, pa.int64()))
