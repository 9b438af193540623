"""The records of a run as its task reads them itself, and not through Spark's source of Kafka.

For that each part of a run is a plan, and each of its partitions a client: a year of small hours, 5 million
records in all, took the JVM 50 s of the processor. Where tasks read themselves it takes 12, and they 4 more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
    gathered: list[Records] = []
    for records in read_records(settings, spans):
        if gathered and (gathered[0][:2] != records[:2] or _count(gathered) >= _RECORDS):
            yield _batch(task, gathered)
            gathered = []
        gathered.append(_cut(records))
    if gathered:
        yield _batch(task, gathered)


def _count(gathered: Iterable[Records]) -> int:
    return sum(len(records.offsets) for records in gathered)


def _cut(records: Records) -> Records:
    """Without most of what is too long: the whole of it would be held until its batch is full."""
    keys, values = ([_short(text) for text in texts] for texts in (records.keys, records.values))
    return records._replace(keys=keys, values=values)


def _short(text: bytes | None) -> bytes | None:
    return text if text is None or len(text) <= CUT_BYTES else text[: CUT_BYTES + 1]


def _batch(task: Task, gathered: Sequence[Records]) -> pa.RecordBatch:
    topic, partition = gathered[0][:2]
    count = _count(gathered)
    milliseconds = np.array([at for records in gathered for at in records.timestamps], np.int64)
    columns = {
        "value": pa.array([value for records in gathered for value in records.values], pa.binary()),
        "key": pa.array([key for records in gathered for key in records.keys], pa.binary()),
        "headers": pa.array([text for records in gathered for text in _texts(records)], pa.string()),
        "place": pa.array(np.full(count, task.place(topic, partition), np.int32)),
        "offset": pa.array([offset for records in gathered for offset in records.offsets], pa.int64()),
        "timestamp": pa.array(milliseconds * 1000, pa.timestamp("us", "UTC")),
    }
    return pa.record_batch(columns)


def _texts(records: Records) -> list[str | None]:
    found = [None if own is None else headers.to_json(own)[: CUT_BYTES + 1] for own in records.headers]
    for number in records.unreadable:
        found[number] = _TOO_LONG
    return found
