"""Look-ups of many instants in many partitions: pure bookkeeping over batches of questions.

Kafka answers an instant with the first record stamped at or after it, and that record's timestamp s. So
the same record answers every instant up to s, and after a "none" every later instant has none too.

A question costs Kafka and its client as much as reading many records on. So where few records lie between
the first instant and the last one, as in a year of hours with little in them, they are read instead.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from typing import NamedTuple

import numpy as np

from sluice.clients.kafka.batch_records import stamps_of
from sluice.clients.kafka.record_batch import StoredBatch
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings

NONE = -1
# Of a processor a question took 0.55 ms, and a record of 210 bytes 0.0016 ms, broker and client together.
RECORDS_PER_QUESTION = 250
# Below it a consumer of its own is not worth its start.
QUESTIONS_PER_CONSUMER = 500
# A broker answers a connection's questions one after another: many of them go through several.
CONNECTIONS = 2
_QUESTIONS_PER_CONNECTION = 1000

TimeByPartition = Mapping[int, int]
"""Partition to timestamp in milliseconds."""
Reply = Mapping[int, tuple[int, int]]
"""Partition to (offset, timestamp) of the record found; the offset is NONE when there is none."""
SpanByPartition = Mapping[int, tuple[int, int]]
"""Partition to the offsets `[from, until)` to read."""


@dataclass
class PartitionLookUp:
    """Answers row by row of the instants; `offsets[row]` is NONE where no record is that late."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    timestamps: array[int] = field(default_factory=lambda: array("q"))

    def take(self, row: int, answer: tuple[int, int], instants: Sequence[int]) -> None:
        """Fills `row` and every later instant that the same record answers."""
        offset, timestamp = answer
        last = len(instants) if offset == NONE else max(bisect_right(instants, timestamp), row + 1)
        count = last - len(self.offsets)
        self.offsets.extend([offset] * count)
        self.timestamps.extend([timestamp] * count)

    def read_on(self, offsets: np.ndarray, timestamps: np.ndarray, instants: Sequence[int]) -> None:
        """Takes the next records in the partition's order."""
        latest = np.maximum.accumulate(timestamps)
        while (row := len(self.offsets)) < len(instants):
            index = int(np.searchsorted(latest, instants[row]))
            if index == len(latest):
                return
            self.take(row, (int(offsets[index]), int(timestamps[index])), instants)


def divided(instants: Sequence[int], partitions: int) -> list[Sequence[int]]:
    """Returns the instants in as many ranges as there should be connections to ask for them."""
    count = max(min(CONNECTIONS, len(instants) * partitions // _QUESTIONS_PER_CONNECTION), 1)
    edges = [len(instants) * share // count for share in range(count + 1)]
    return [instants[start:end] for start, end in pairwise(edges)]


def joined(shares: Sequence[Mapping[int, PartitionLookUp]]) -> dict[int, PartitionLookUp]:
    """Returns the answers to ranges of instants that follow each other."""
    answers = dict(shares[0])
    for share in shares[1:]:
        for partition, rows in share.items():
            answers[partition].offsets.extend(rows.offsets)
            answers[partition].timestamps.extend(rows.timestamps)
    return answers


def look_up(
    ends: Mapping[int, int],
    instants: Sequence[int],
    ask: Callable[[Sequence[TimeByPartition]], Sequence[Reply]],
    read: Callable[[SpanByPartition], Iterable[Stamps]],
    width: int,
) -> dict[int, PartitionLookUp]:
    """Looks up every instant (milliseconds, ascending) in every partition of `ends`, `width` questions at a
    time.

    `read` gives the visible records of spans, in each partition's order.
    """
    look_ups = {partition: PartitionLookUp() for partition in ends}
    if len(ends) * len(instants) >= QUESTIONS_PER_CONSUMER:
        _read_sparse(look_ups, ends, instants, ask, read)
    while True:
        first = {p: len(done.offsets) for p, done in look_ups.items() if len(done.offsets) < len(instants)}
        if not first:
            return look_ups
        questions = [
            {p: instants[row + step] for p, row in first.items() if row + step < len(instants)}
            for step in range(width)
        ]
        for step, reply in enumerate(ask([question for question in questions if question])):
            for partition, answer in reply.items():
                if len(look_ups[partition].offsets) == first[partition] + step:
                    look_ups[partition].take(first[partition] + step, answer, instants)


def _read_sparse(
    look_ups: Mapping[int, PartitionLookUp],
    ends: Mapping[int, int],
    instants: Sequence[int],
    ask: Callable[[Sequence[TimeByPartition]], Sequence[Reply]],
    read: Callable[[SpanByPartition], Iterable[Stamps]],
) -> None:
    """Fills the partitions that have few records between the first instant and the last one."""
    first, last = ask([dict.fromkeys(ends, instants[0]), dict.fromkeys(ends, instants[-1])])
    spans: dict[int, tuple[int, int]] = {}
    for partition, end in ends.items():
        look_ups[partition].take(0, first[partition], instants)
        start, until = (
            end if reply[partition][0] == NONE else reply[partition][0] for reply in (first, last)
        )
        if until - start <= RECORDS_PER_QUESTION * len(instants):
            spans[partition] = start, until
    for part in read({p: span for p, span in spans.items() if span[0] < span[1]}):
        look_ups[part.partition].read_on(part.offsets, part.timestamps, instants)
    for partition in spans:
        row = len(look_ups[partition].offsets)
        if row < len(instants):
            look_ups[partition].take(row, last[partition], instants)


# Reads the offsets and timestamps of many records in bounded memory, whatever else the records hold.
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
