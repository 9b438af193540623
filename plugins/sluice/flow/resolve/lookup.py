"""Asks one topic where instants are, and reads on from records that are stamped in the future."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.clients.kafka.lookups import NONE, PartitionLookUp
from sluice.clients.kafka.topic_facts import TopicReader, kept_since
from sluice.errors import TopicRecreated
from sluice.flow.resolve.clamp import Answers, PartitionAnswers
from sluice.slices import HOUR, ms_text, to_ms
from sluice.state.boundaries.boundary import FoundBy, TopicBoundaries

FUTURE_MS = int(HOUR.total_seconds() * 1000)


@dataclass(frozen=True)
class FutureStamped:
    """A record stamped more than an hour after now; `timestamp` in milliseconds since the epoch."""

    cluster: str
    topic: str
    partition: int
    offset: int
    timestamp: int

    def __str__(self) -> str:
        where = f"offset {self.offset} of {self.cluster}/{self.topic}/{self.partition}"
        return (
            f"the record at {where} is stamped {ms_text(self.timestamp)}, in the future: it moves no boundary"
        )


@dataclass(frozen=True)
class WaitingOffsets:
    """`count` offsets from `offset` on that wait behind an open transaction, which ends the last slice."""

    cluster: str
    topic: str
    partition: int
    offset: int
    count: int

    def __str__(self) -> str:
        where = f"{self.cluster}/{self.topic}/{self.partition}"
        return (
            f"{self.count:,} offsets of {where} wait behind an open transaction that begins at offset "
            f"{self.offset}: they come with a later hour"
        )


@dataclass(frozen=True)
class TopicAnswers:
    """A topic's answers, and warnings about them."""

    answers: Answers
    future: tuple[FutureStamped, ...] = ()
    held: tuple[WaitingOffsets, ...] = ()


def ask(
    reader: TopicReader,
    cluster: str,
    topic: str,
    instants: Sequence[int],
    stored: TopicBoundaries | None,
    now: datetime,
) -> TopicAnswers:
    """Finds where `instants` (seconds since the epoch, ascending) are in every partition of the topic.

    The end is taken before the look-ups, so that a record which arrives between the two is not put before an
    instant that it lies after. Raises UnknownTopic, KafkaUnavailable, TopicRecreated.
    """
    before = reader.describe(topic)
    stamps = [instant * 1000 for instant in instants]
    look_ups = reader.look_up(topic, before.ends, stamps)
    limit, bounded = to_ms(now) + FUTURE_MS, _has_earlier(stored, instants[0])
    placed: dict[int, tuple[list[int], list[FoundBy]]] = {}
    future: list[FutureStamped] = []
    for partition, answers in look_ups.items():
        future += _reports(cluster, topic, partition, answers, limit)
        starts = _read_on(stored, partition, instants, answers, limit)
        end = before.ends[partition]
        records = reader.records(topic, partition, min(starts.values()), end) if starts else ()
        placed[partition] = _placed(answers, starts, stamps, records, end, limit, bounded)
    ended = [partition for partition, (_, how) in placed.items() if FoundBy.END in how]
    highest = reader.high_watermarks(topic, ended) if ended else {}
    after = reader.describe(topic)
    if after.uuid != before.uuid:
        raise TopicRecreated(cluster, topic, before.uuid, after.uuid)
    by_partition = {
        number: PartitionAnswers(before.log_starts[number], after.log_starts[number], offsets, how)
        for number, (offsets, how) in placed.items()
    }
    held = after.held(highest).items()
    waiting = tuple(WaitingOffsets(cluster, topic, p, after.ends[p], count) for p, count in held)
    started = any(start > 0 for start in after.log_starts.values())
    since = kept_since(to_ms(now), reader.kept_ms(topic)) if started else None
    topic_answers = Answers(cluster, topic, before.uuid, instants, by_partition, since)
    return TopicAnswers(topic_answers, tuple(future), waiting)


def _placed(
    answers: PartitionLookUp,
    starts: Mapping[int, int],
    stamps: Sequence[int],
    records: Iterable[tuple[int, int]],
    end: int,
    limit: int,
    bounded: bool,
) -> tuple[list[int], list[FoundBy]]:
    """Returns each row's offset in one partition, and how it was found: for the rows of `starts` in
    `records`. `bounded`: a boundary of an instant before the first row is stored."""
    offsets = [end if offset == NONE else offset for offset in answers.offsets]
    how = [FoundBy.END if offset == NONE else FoundBy.RECORD for offset in answers.offsets]
    scans = [(start, stamps[row]) for row, start in starts.items()]
    for row, offset in zip(starts, cuts(records, scans, end, limit, bounded or 0 not in starts), strict=True):
        offsets[row], how[row] = offset, FoundBy.SCAN
    return offsets, how


def cuts(
    records: Iterable[tuple[int, int]],
    scans: Sequence[tuple[int, int]],
    end: int,
    limit: int,
    bounded: bool = True,
) -> list[int]:
    """Returns for each of `scans`, (offset to start from, instant in ms), the offset of the first record
    from there on that is stamped from the instant to `limit`; else `end`. Reads `records` once, which are
    (offset, timestamp); both ascend.

    Unless `bounded`, nothing is in a slice before the first cut. Only a record that is stamped earlier says
    that those before it are earlier, too. So the first cut lies behind the last such record, and what is
    stamped ahead from there on is in the first slice.
    """
    offsets: list[int] = []
    lowest = scans[0][0] if scans else end
    for offset, timestamp in records:
        while len(offsets) < len(scans):
            start, instant = scans[len(offsets)]
            if offset < start or not instant <= timestamp <= limit:
                break
            offsets.append(offset)
        if len(offsets) == len(scans):
            break
        if not offsets and 0 <= timestamp < scans[0][1]:
            lowest = max(lowest, offset + 1)
    offsets += [end] * (len(scans) - len(offsets))
    return offsets if bounded else [lowest, *offsets[1:]]


def _has_earlier(stored: TopicBoundaries | None, instant: int) -> bool:
    """Returns whether a boundary of an earlier instant is stored. A partition that it does not know counts
    there as its log start."""
    return stored is not None and len(stored.instants) > 0 and stored.instants[0] < instant


def _read_on(
    stored: TopicBoundaries | None,
    partition: int,
    instants: Sequence[int],
    answers: PartitionLookUp,
    limit: int,
) -> dict[int, int]:
    """Returns the rows whose answer is no boundary, and the offset from which to read on for each.

    The record is stamped in the future. Or it lies before an earlier boundary, as one does whose time was
    in the future when that was found: it would pin this one to that, and leave the hour between them empty.
    """
    starts: dict[int, int] = {}
    for row, (offset, at) in enumerate(zip(answers.offsets, answers.timestamps, strict=True)):
        below = 0 if stored is None else stored.largest_before(partition, instants[row])
        if offset != NONE and (at > limit or offset < below):
            starts[row] = max(offset, below)
    return starts


def _reports(
    cluster: str, topic: str, partition: int, answers: PartitionLookUp, limit: int
) -> list[FutureStamped]:
    seen = dict(zip(answers.offsets, answers.timestamps, strict=True))
    return [FutureStamped(cluster, topic, partition, offset, at) for offset, at in seen.items() if at > limit]
