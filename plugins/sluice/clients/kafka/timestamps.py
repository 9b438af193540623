"""Reads the offsets and timestamps of many records in bounded memory, whatever else the records hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np

from sluice.clients.kafka.batch_records import stamps_of
from sluice.clients.kafka.record_batch import StoredBatch
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings

_AT_ONCE = 10_000
_Part = tuple[np.ndarray, np.ndarray]
"""Offsets, and their timestamps."""


class Stamps(NamedTuple):
    """Records of one partition, in its order; timestamps in milliseconds since the epoch. Both int64."""

    partition: int
    offsets: np.ndarray
    timestamps: np.ndarray


def read_stamps(
    settings: KafkaSettings, topic: str, spans: Mapping[int, tuple[int, int]]
) -> Iterator[Stamps]:
    """Yields every visible record of the spans, by partition the offsets `[start, until)`.

    Raises BatchUnreadable, and KafkaUnavailable when nothing comes for a minute, or the cluster says no.
    """
    with BoundedReader(settings, max_record=0) as reader:
        for partition, (start, until) in sorted(spans.items()):
            for offsets, stamps in _gathered(_parts(reader, OffsetSpan(topic, partition, start, until))):
                inside = slice(*np.searchsorted(offsets, (start, until)))
                yield Stamps(partition, offsets[inside], stamps[inside])


def first_stamp(reader: BoundedReader, span: OffsetSpan) -> int | None:
    """Returns the timestamp of the span's first record; None where it has none. Raises as `read_stamps`."""
    for offsets, stamps in _parts(reader, span):
        inside = stamps[np.searchsorted(offsets, span.start) :]
        if len(inside):
            return int(inside[0])
    return None


def _parts(reader: BoundedReader, span: OffsetSpan) -> Iterator[_Part]:
    """Batches of one record are taken together: an array for each costs five times as much."""
    for lone, batches in groupby(reader.visible(span), _is_lone):
        if lone:
            places = ((batch.start, batch.max_stamp) for batch in batches)
            while some := list(islice(places, _AT_ONCE)):
                offsets, stamps = np.array(some, np.int64).T
                yield offsets, stamps
        else:
            for batch in batches:
                with reader.readable(span, batch):
                    yield from stamps_of(batch)


def _is_lone(batch: StoredBatch) -> bool:
    return batch.records == 1 and batch.stamps_known


def _gathered(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Yields some thousand records at once: what is done with them costs as much for one."""
    held: list[_Part] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part[0])
        if count >= _AT_ONCE:
            yield _joined(held)
            held, count = [], 0
    if count:
        yield _joined(held)


def _joined(parts: Sequence[_Part]) -> _Part:
    offsets, stamps = zip(*parts, strict=True)
    return np.concatenate(offsets), np.concatenate(stamps)
