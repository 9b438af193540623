"""Asks one topic where instants are, and reads on from records that are stamped in the future."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sluice.boundaries.boundary import Found
from sluice.boundaries.clamp import Answers, PartitionAnswers
from sluice.boundaries.columns import TopicBoundaries
from sluice.errors import TopicRecreated
from sluice.kafka.lookups import NONE, PartitionLookUp
from sluice.slices import HOUR, to_ms

FUTURE_MS = int(HOUR.total_seconds() * 1000)


class TopicState(Protocol):
    uuid: str
    log_starts: Mapping[int, int]
    ends: Mapping[int, int]


class Reader(Protocol):
    """What `sluice.kafka.topics.Topics` offers."""

    def describe(self, topic: str) -> TopicState: ...

    def look_up(
        self, topic: str, partitions: Sequence[int], instants: Sequence[int]
    ) -> Mapping[int, PartitionLookUp]: ...

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]: ...


@dataclass(frozen=True)
class FutureStamped:
    """A record stamped more than an hour after now; `timestamp` in milliseconds since the epoch."""

    cluster: str
    topic: str
    partition: int
    offset: int
    timestamp: int


def ask(
    reader: Reader,
    cluster: str,
    topic: str,
    instants: Sequence[int],
    known: TopicBoundaries | None,
    now: datetime,
) -> tuple[Answers, tuple[FutureStamped, ...]]:
    """Where `instants` (seconds since the epoch, ascending) are in every partition of the topic.

    The end is taken before the look-ups, so that a record which arrives between the two is not put before
    an instant that it lies after. Raises UnknownTopic, KafkaOutOfReach, and TopicRecreated when the topic
    was made again meanwhile.
    """
    before = reader.describe(topic)
    stamps = [instant * 1000 for instant in instants]
    found = reader.look_up(topic, list(before.log_starts), stamps)
    limit = to_ms(now) + FUTURE_MS
    placed: dict[int, tuple[list[int], list[Found]]] = {}
    future: list[FutureStamped] = []
    for partition, answers in found.items():
        end = before.ends[partition]
        offsets = [end if offset == NONE else offset for offset in answers.offsets]
        how = [Found.END if offset == NONE else Found.RECORD for offset in answers.offsets]
        rows = [row for row, at in enumerate(answers.timestamps) if at > limit]
        if rows:
            future += _reports(cluster, topic, partition, answers, rows)
            start = min(_floor(known, partition, instants[row], offsets[row]) for row in rows)
            records = reader.records(topic, partition, start, end)
            for row, offset in zip(rows, cuts(records, [stamps[r] for r in rows], end, limit), strict=True):
                offsets[row], how[row] = offset, Found.SCAN
        placed[partition] = offsets, how
    after = reader.describe(topic)
    if after.uuid != before.uuid:
        raise TopicRecreated(cluster, topic, before.uuid, after.uuid)
    said = {
        number: PartitionAnswers(before.log_starts[number], after.log_starts[number], offsets, how)
        for number, (offsets, how) in placed.items()
    }
    return Answers(cluster, topic, before.uuid, instants, said), tuple(future)


def cuts(records: Iterable[tuple[int, int]], instants: Sequence[int], end: int, limit: int) -> list[int]:
    """One pass over (offset, timestamp) for all instants (milliseconds, ascending): for each the first
    record at or after it and not stamped after `limit`, or `end`."""
    found: list[int] = []
    for offset, timestamp in records:
        while len(found) < len(instants) and instants[len(found)] <= timestamp <= limit:
            found.append(offset)
        if len(found) == len(instants):
            break
    return found + [end] * (len(instants) - len(found))


def _floor(known: TopicBoundaries | None, partition: int, instant: int, found: int) -> int:
    """Where to read on from: what is below an earlier boundary is in an earlier slice anyway."""
    return found if known is None else max(found, known.largest_before(partition, instant))


def _reports(
    cluster: str, topic: str, partition: int, answers: PartitionLookUp, rows: Sequence[int]
) -> list[FutureStamped]:
    seen = {answers.offsets[row]: answers.timestamps[row] for row in rows}
    return [FutureStamped(cluster, topic, partition, offset, at) for offset, at in seen.items()]
