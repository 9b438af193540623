"""Record times that Spark's Kafka source does not hand over as they are.

The source makes a timestamp in microseconds of a record's milliseconds. It refuses a number that is too large
for that, as nanoseconds are, and shifts what lies before its calendars agree. Such records are real: their
slices are read by the tasks themselves.
Source: Spark 4.2, KafkaRecordToRowConverter, RebaseDateTime: calendars agree from 1900 on in all time zones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

AGREED_MS = -2_208_988_800_000
# 4.2 has a message of its own; before, the multiplication raised.
_SAID = re.compile(r"has timestamp value -?\d+ that|ArithmeticException: long overflow")


def checked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Raises ValueError before a batch with a time that was shifted."""
    for batch in batches:
        first = pc.min(batch["timestamp"]).as_py()
        if first is not None and first < AGREED_MS:
            raise ValueError(f"a record has timestamp value {first} that Spark's calendars disagree on")
        yield batch


def stopped(error: BaseException) -> bool:
    """Returns whether such a record is what stopped a job."""
    return _SAID.search(str(error)) is not None
