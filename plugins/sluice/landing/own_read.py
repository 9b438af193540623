"""The records of a run as its task reads them itself, and not through Spark's source of Kafka.

For that each part of a run is a plan, and each of its partitions a client: a year of small hours, 5 million
records in all, took the JVM 50 s of the processor. Where tasks read themselves it takes 12, and they 4 more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sluice.kafka.records import Records, Span, read_records
from sluice.kafka.settings import KafkaSettings
from sluice.landing import headers
from sluice.landing.task import CUT_BYTES, Task

_RECORDS = (256 << 20) // CUT_BYTES
_TOO_LONG = " " * (CUT_BYTES + 1)


def batches(settings: KafkaSettings, task: Task) -> Iterator[pa.RecordBatch]:
    """All that `task` reads, with its `columns()`: records cut, partition after partition. Raises
    KafkaOutOfReach.

    A record with a header that cannot be read counts as cut: so its slice is read once more, through
    Spark's source, which puts U+FFFD for what is not UTF-8.
    """
    edges = sorted(task.edges.items())
    spans = [Span(*place, int(offsets[0]), int(offsets[-1])) for place, offsets in edges]
    gathered: list[pa.RecordBatch] = []
    rows, before = 0, None
    for records in read_records(settings, spans):
        place, count = records[:2], len(records.offsets)
        if gathered and (place != before or rows + count > _RECORDS):
            yield pa.concat_batches(gathered)
            gathered, rows = [], 0
        # Cut at once: the whole of what is too long would be held until the batch is full.
        gathered.append(_batch(task, records))
        rows, before = rows + count, place
    if gathered:
        yield pa.concat_batches(gathered)


def _batch(task: Task, records: Records) -> pa.RecordBatch:
    place = task.place(records.topic, records.partition)
    columns = {
        "value": pa.array(map(_short, records.values), pa.binary()),
        "key": pa.array(map(_short, records.keys), pa.binary()),
        "headers": pa.array(_texts(records), pa.string()),
        "place": pa.array(np.full(len(records.offsets), place, np.int32)),
        "offset": pa.array(records.offsets, pa.int64()),
        "timestamp": pa.array(np.array(records.timestamps) * 1000, pa.timestamp("us", "UTC")),
    }
    return pa.record_batch(columns)


def _short(text: bytes | None) -> bytes | None:
    return text if text is None or len(text) <= CUT_BYTES else text[: CUT_BYTES + 1]


def _texts(records: Records) -> list[str | None]:
    found = [None if own is None else headers.to_json(own)[: CUT_BYTES + 1] for own in records.headers]
    for number in records.unreadable:
        found[number] = _TOO_LONG
    return found
