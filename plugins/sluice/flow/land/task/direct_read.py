"""The records of a run as its task reads them itself, and not through Spark's source of Kafka.

For that each part of a run is a plan, and each of its partitions a client: a year of small hours, 5 million
records in all, took the JVM 50 s of the processor. Where tasks read themselves it takes 12, and they 4 more.
And the source holds what a fetch brings, decompressed: this reader holds some hundred KiB, or one record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sluice.clients.kafka.records import BoundedReader, OffsetSpan, PartitionRecords
from sluice.flow.land.task import columns as headers
from sluice.flow.land.task.long_records import WHOLE_BYTES
from sluice.flow.land.task.task import CUT_BYTES, Task
from sluice.flow.land.task.whole_records import TOO_LARGE

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
    texts = [None if pairs is None else headers.to_json(pairs) for pairs in records.headers]
    columns = {
        "value": pa.array(records.values, pa.binary()),
        "key": pa.array(records.keys, pa.binary()),
        "headers": pa.array(texts, pa.string()),
        "place": pa.array(np.full(count, place, np.int32)),
        "offset": pa.array(records.offsets, pa.int64()),
        "timestamp": pa.array(records.timestamps, pa.int64()),
        TOO_LARGE: pa.array([records.too_large.get(n) for n in range(count)], pa.int64()),
    }
    return pa.record_batch(columns)
