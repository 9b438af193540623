"""Long records: Spark hands over what is at most CUT_BYTES long, and the task reads the others itself.

So a batch of Spark's is bounded by its number of records, and no record has to be measured. A record that
is larger than the pipeline's `max_record` is rejected by its size: it is decompressed in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from sluice.clients.kafka.records import RecordBody
from sluice.flow.land.task import columns as headers
from sluice.flow.land.task.columns import lengths
from sluice.flow.land.task.read_counts import runs_of
from sluice.flow.land.task.task import CUT_BYTES, Task
from sluice.flow.land.task.whole_records import TOO_LARGE

WHOLE_BYTES = 32 << 20
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
    columns = {name: part[name].to_pylist() for name in _CONTENTS}
    sizes: list[int | None] = [None] * part.num_rows
    for position, record in bodies.items():
        columns["value"][position], columns["key"][position] = record.value, record.key
        columns["headers"][position] = None if record.headers is None else headers.to_json(record.headers)
        sizes[position] = record.too_large
    for name, texts in columns.items():
        kind = pa.string() if name == "headers" else pa.binary()
        part = part.set_column(part.schema.get_field_index(name), name, pa.array(texts, kind))
    return part.append_column(TOO_LARGE, pa.array(sizes, pa.int64()))
