"""The records of a run as its task reads them itself, and not through Spark's source of Kafka.

For that each part of a run is a plan, and each of its partitions a client: a year of small hours, 5 million
records in all, took the JVM 50 s of the processor. Where tasks read themselves it takes 12, and they 4 more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sluice.kafka.records import Records, Span, read_records
from sluice.kafka.settings import KafkaSettings
from sluice.landing import headers
from sluice.landing.task import CUT_BYTES, Task

_RECORDS = (256 << 20) // CUT_BYTES
_WHOLE_BYTES = 32 << 20
_TOO_LONG = " " * (CUT_BYTES + 1)


def batches(settings: KafkaSettings, task: Task) -> Iterator[pa.RecordBatch]:
    """All that `task` reads, with its `columns()`: partition after partition, records cut unless the task
    wants them whole. Raises KafkaOutOfReach.

    A record with a header that cannot be read counts as cut: so its slice is read once more, through
    Spark's source, which puts U+FFFD for what is not UTF-8. Where that cannot read the slice either, such
    headers are UNREADABLE.
    """
    edges = sorted(task.edges.items())
    spans = [Span(*place, int(offsets[0]), int(offsets[-1])) for place, offsets in edges]
    gathered: list[pa.RecordBatch] = []
    rows, size, before = 0, 0, None
    for records in read_records(settings, spans):
        place, count = records[:2], len(records.offsets)
        if gathered and (place != before or rows + count > _RECORDS or size > _WHOLE_BYTES):
            yield pa.concat_batches(gathered)
            gathered, rows, size = [], 0, 0
        # Cut at once: the whole of what is too long would be held until the batch is full.
        gathered.append(_batch(task, records))
        rows, size, before = rows + count, size + gathered[-1].nbytes, place
    if gathered:
        yield pa.concat_batches(gathered)


def divided(task: Task, rows: int) -> list[Task]:
    """Tasks of at most so many offsets of one partition, which read together what `task` reads."""
    return [
        replace(task, edges={place: np.clip(edges, start, min(start + rows, int(edges[-1])))})
        for place, edges in sorted(task.edges.items())
        for start in range(int(edges[0]), int(edges[-1]), rows)
    ]


def _batch(task: Task, records: Records) -> pa.RecordBatch:
    place = task.place(records.topic, records.partition)
    columns = {
        "value": pa.array(_shortened(task, records.values), pa.binary()),
        "key": pa.array(_shortened(task, records.keys), pa.binary()),
        "headers": pa.array(_texts(task, records), pa.string()),
        "place": pa.array(np.full(len(records.offsets), place, np.int32)),
        "offset": pa.array(records.offsets, pa.int64()),
        "timestamp": pa.array(records.timestamps, pa.int64()),
    }
    return pa.record_batch(columns)


def _shortened(task: Task, texts: Sequence[bytes | None]) -> Sequence[bytes | None]:
    return texts if task.whole else [text and text[: CUT_BYTES + 1] for text in texts]


def _texts(task: Task, records: Records) -> list[str | None]:
    most = None if task.whole else CUT_BYTES + 1
    found = [None if own is None else headers.to_json(own)[:most] for own in records.headers]
    for number in records.unreadable:
        found[number] = headers.UNREADABLE if task.whole else _TOO_LONG
    return found
