"""What Kafka says about a cluster's topics: ids, log starts and ends, and where instants are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    NoError,
    UnknownError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from sluice.clients.kafka.batch_records import UnreadableBytes, stamps_of
from sluice.clients.kafka.fetch import BatchAdmin, MissingOffsets
from sluice.clients.kafka.lookups import (
    NONE,
    PartitionLookUp,
    Reply,
    TimeByPartition,
    divided,
    joined,
    look_up,
    read_stamps,
)
from sluice.clients.kafka.record_batch import StoredBatch
from sluice.clients.kafka.records import BoundedReader, OffsetSpan, PartitionRecords
from sluice.clients.kafka.settings import DamagedBatch, KafkaSettings, admin, error_of, reached, settings_of
from sluice.clients.kafka.topic_facts import TopicsOf, kept_ms
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import GroupAtWork, GroupUnusable, NoTopicMatches, SluiceError, UnknownTopic

# A look-up waits for its metadata and then for its answer; kafka-python keeps at most five requests on a
# connection.
_AT_ONCE = 4
_WIDTH = 64
_Answers = dict[TopicPartition, tuple[int, int]]
"""Offset and timestamp of a partition's answer."""


@dataclass(frozen=True)
class TopicState:
    """`ends` are last stable offsets under read_committed; both maps hold every partition."""

    uuid: str
    log_starts: Mapping[int, int]
    ends: Mapping[int, int]

    def held(self, high_watermarks: Mapping[int, int]) -> dict[int, int]:
        """Returns by partition the offsets that waited behind an open transaction, at high watermarks seen
        before."""
        ends = self.ends.items()
        return {p: high_watermarks[p] - end for p, end in ends if end < high_watermarks.get(p, end)}


class Topics:
    """One cluster's topics. Every method raises KafkaUnavailable when the cluster does not answer."""

    def __init__(self, settings: KafkaSettings, client: _Admin) -> None:
        self._settings = settings
        self._client = client

    def names(self) -> list[str]:
        """Lists all topics that the user may describe; of others the broker says nothing."""
        with reached(self._settings):
            names: list[str] = self._client.list_topics()
            return names

    def describe(self, topic: str) -> TopicState:
        """Raises UnknownTopic."""
        with reached(self._settings):
            (description,) = self._client.describe_topics([topic])
            error = error_of(description["error_code"])
            if error is UnknownTopicOrPartitionError:
                raise UnknownTopic(self._settings.cluster, topic)
            if error is not NoError:
                raise error(f"topic {topic}")
            partitions = [TopicPartition(topic, p["partition_index"]) for p in description["partitions"]]
            starts = self._offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
            ends = self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
            return TopicState(str(description["topic_id"]), starts, ends)

    def high_watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Reads the ends of the log, also behind open transactions."""
        places = [TopicPartition(topic, partition) for partition in partitions]
        with reached(self._settings):
            return self._offsets(dict.fromkeys(places, OffsetSpec.LATEST), IsolationLevel.READ_UNCOMMITTED)

    def look_up(
        self, topic: str, ends: Mapping[int, int], instants: Sequence[int]
    ) -> dict[int, PartitionLookUp]:
        """Returns the first record at or after each instant (milliseconds, ascending), by partition of
        `ends`."""
        shares = divided(instants, len(ends))
        with reached(self._settings), ExitStack() as stack:
            clients = [self._client, *(stack.enter_context(self._another()) for _ in shares[1:])]
            stamps, isolation = partial(read_stamps, self._settings, topic), self._isolation

            def answers(client: _Admin, share: Sequence[int]) -> dict[int, PartitionLookUp]:
                return look_up(ends, share, partial(client.ask, topic, isolation), stamps, _WIDTH)

            with ThreadPoolExecutor(len(shares)) as pool:
                return joined(list(pool.map(answers, clients, shares)))

    def _another(self) -> AbstractContextManager[_Admin]:
        return admin(self._settings, _Admin)

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields (offset, timestamp) of every visible record in `[start, end)`, in order, whatever else it
        holds.

        kafka-python refuses a record with a header whose name is not UTF-8, and with it all behind it.
        """
        for part in read_stamps(self._settings, topic, {partition: (start, end)}):
            yield from zip(part.offsets.tolist(), part.timestamps.tolist(), strict=True)

    def left(self, topic: str, partition: int, gaps: Sequence[MissingOffsets]) -> list[MissingOffsets]:
        """Returns what of the gaps, which are in order, neither markers nor aborted records explain."""
        with reached(self._settings):
            return self._client.left(TopicPartition(topic, partition), gaps, self._settings.isolation)

    def unhidden(self, topic: str, partition: int, gaps: Iterable[MissingOffsets]) -> MissingOffsets | None:
        """Returns the first of the gaps, which are in order, that neither compaction nor transactions
        explain."""
        with reached(self._settings):
            return self._client.unhidden(TopicPartition(topic, partition), gaps)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Returns what a consumer group has committed, by partition; of an empty one without a commit its
        end. Raises GroupAtWork while it has members, and GroupUnusable."""
        state, cluster = self.describe(topic), self._settings.cluster
        with reached(self._settings):
            members = self._client.describe_groups([group])[group]["members"]
            if members:
                raise GroupAtWork(cluster, group, len(members))
            places = [TopicPartition(topic, partition) for partition in sorted(state.ends)]
            found = self._client.list_group_offsets({group: places})[group]  # type: ignore[no-untyped-call]
        ends = self.high_watermarks(topic, state.ends)
        offsets = {place.partition: at.offset for place, at in found.items() if at.offset >= 0}
        for partition, end in sorted(ends.items()):
            if partition not in offsets and end > state.log_starts[partition]:
                raise GroupUnusable(cluster, group, topic, partition, "committed no offset")
            if offsets.setdefault(partition, end) > end:
                reason = f"committed offset {offsets[partition]:,}, behind the end {end:,},"
                raise GroupUnusable(cluster, group, topic, partition, reason)
        return offsets

    def compacted(self, topic: str) -> bool:
        """False, too, without the right to see the topic's settings."""
        with reached(self._settings):
            return self._client.compacted(topic)

    def kept_ms(self, topic: str) -> int | None:
        """Returns how long the topic keeps every record; None where that is not known, also for want of
        rights."""
        with reached(self._settings):
            return kept_ms(self._client.configuration(topic))

    @property
    def _isolation(self) -> IsolationLevel:
        return IsolationLevel[self._settings.isolation.upper()]

    def _offsets(
        self, specs: Mapping[TopicPartition, Any], isolation: IsolationLevel | None = None
    ) -> dict[int, int]:
        asked = self._isolation if isolation is None else isolation
        answers = self._client.list_partition_offsets(dict(specs), isolation_level=asked)
        return {place.partition: answer.offset for place, answer in sorted(answers.items())}


class _Admin(BatchAdmin):
    def configuration(self, topic: str) -> dict[str, str]:
        """Reads the configuration; empty without the right to see it."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        settings = self.describe_configs([resource], config_filter="all").get("topic", {}).get(topic, {})
        return {name: item["value"] for name, item in settings.items() if item["value"] is not None}

    def ask(self, topic: str, isolation: IsolationLevel, questions: Sequence[TimeByPartition]) -> list[Reply]:
        """Asks the broker, and reads records where it fails to answer. A failure costs the broker all its
        memory: a partition that has failed is asked no more."""
        fails: set[TopicPartition] = set()
        asked = [{TopicPartition(topic, p): at for p, at in question.items()} for question in questions]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            replies = list(pool.map(partial(self._answered, isolation=isolation, fails=fails), asked))
        failed: dict[TopicPartition, list[int]] = {}
        for question, answers in zip(asked, replies, strict=True):
            for place in question.keys() - answers.keys():
                failed.setdefault(place, []).append(question[place])
        for place, instants in failed.items():
            read = self._by_reading(place, isolation, sorted(instants))
            for question, answers in zip(asked, replies, strict=True):
                if place not in answers and place in question:
                    answers[place] = read[question[place]]
        return [{place.partition: answer for place, answer in reply.items()} for reply in replies]

    def _answered(
        self, question: Mapping[TopicPartition, int], isolation: IsolationLevel, fails: set[TopicPartition]
    ) -> _Answers:
        """Asks the broker. Partitions for which it fails are added to `fails` and have no answer."""
        remaining = {place: at for place, at in question.items() if place not in fails}
        if not remaining:
            return {}
        try:
            answers = self.list_partition_offsets(remaining, isolation_level=isolation)
        except UnknownError:
            if len(remaining) == 1:
                fails.update(remaining)
                return {}
            places, middle = list(remaining), len(remaining) // 2
            halves = ({p: remaining[p] for p in half} for half in (places[:middle], places[middle:]))
            return {p: at for half in halves for p, at in self._answered(half, isolation, fails).items()}
        return {place: (at.offset, at.timestamp) for place, at in answers.items()}

    def _by_reading(
        self, place: TopicPartition, isolation: IsolationLevel, instants: Sequence[int]
    ) -> dict[int, tuple[int, int]]:
        ends = {
            spec: self.list_partition_offsets({place: spec}, isolation_level=isolation)[place].offset
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        }
        last: list[StoredBatch] = []

        def ask(instant: int) -> tuple[int, int] | None:
            return self._answered({place: instant}, isolation, set()).get(place)

        def batches(start: int) -> Iterator[StoredBatch]:
            for batch in self.batches(place, start, ends[OffsetSpec.LATEST], isolation):
                last[:] = [batch]
                yield batch

        try:
            answers = by_reading(ask, batches, ends[OffsetSpec.EARLIEST], instants)
        except UnreadableBytes as error:
            raise DamagedBatch(place, last[0].start, str(error)) from error
        return dict(zip(instants, answers, strict=True))


@contextmanager
def open_topics(cluster: Cluster) -> Iterator[Topics]:
    """Yields the topics of a pipeline's cluster. Raises KafkaUnavailable, or WrongUse for its connection."""
    settings = settings_of(cluster)
    with reached(settings), admin(settings, _Admin) as client:
        yield Topics(settings, client)


# Finds the first record at or after an instant where the broker fails to: it unpacks the whole batch that
# holds the answer, and a small one may hold more than its memory.
#
# The rule is Kafka's (FileRecords.searchForTimestamp): the first offset whose record is stamped so, also of a
# marker or an aborted record. Stamps are in any order, so offsets cannot be bisected. But the answer to an
# earlier instant lies before or on that of a later one: batches are read from such an answer on, and their
# headers say which of them to unpack.
OffsetAndTime = tuple[int, int]
"""Offset and timestamp in milliseconds; the offset is NONE when no record is that late."""

# How much earlier to ask. A broker fails again where no record lies between, so there are few steps.
EARLIER_MS = (60_000, 3_600_000, 86_400_000, 32 * 86_400_000)


def by_reading(
    ask: Callable[[int], OffsetAndTime | None],
    batches: Callable[[int], Iterable[StoredBatch]],
    log_start: int,
    instants: Sequence[int],
) -> list[OffsetAndTime]:
    """Answers to the instants, in milliseconds and ascending, of which the broker has failed at the first.

    `ask` gives a broker's answer, None where it fails: that costs it all its memory, so it is not asked for
    what is known to lie in a batch at which it fails. `batches` gives all batches from the one on that holds
    an offset. Raises Unreadable.
    """
    answers: list[OffsetAndTime] = []
    held: StoredBatch | None = None  # in which the last answer was found by reading
    for instant in instants:
        last = answers[-1] if answers else None
        if last is not None and (last[0] == NONE or instant <= last[1]):
            answers.append(last)
            continue
        answer: OffsetAndTime | None = None
        if last is not None and held is not None and instant <= held.max_stamp:
            answer, _ = first_at([held], last[0], instant)
            answer = None if answer[0] == NONE else answer
        elif last is not None:
            answer = ask(instant)
            if answer is not None:
                held = None
        if answer is None:
            start = _start(ask, log_start, instant, last, held)
            answer, held = ((NONE, -1), None) if start == NONE else first_at(batches(start), start, instant)
        answers.append(answer)
    return answers


def first_at(
    batches: Iterable[StoredBatch], start: int, instant: int
) -> tuple[OffsetAndTime, StoredBatch | None]:
    """Returns the first record from `start` on that is stamped at or after the instant, and its batch."""
    for batch in batches:
        if batch.max_stamp >= instant:
            for offsets, stamps in stamps_of(batch):
                late = np.flatnonzero((offsets >= start) & (stamps >= instant))
                if len(late):
                    return (int(offsets[late[0]]), int(stamps[late[0]])), batch
    return (NONE, -1), None


def _start(
    ask: Callable[[int], OffsetAndTime | None],
    log_start: int,
    instant: int,
    last: OffsetAndTime | None,
    held: StoredBatch | None,
) -> int:
    """Returns an offset that the answer does not lie before; NONE where there is no record that late."""
    held_stamp = held.max_stamp if held is not None else None
    for before in EARLIER_MS:
        if last is not None and held_stamp is not None and instant - before <= held_stamp:
            return last[0]
        answer = ask(max(instant - before, 0))
        if answer is not None:
            return answer[0]
    return log_start if last is None else last[0]


# Probes whether Kafka clusters can be read now; a run reports the errors of those that it skipped.
def probe_cluster(cluster: Cluster, topics_of: TopicsOf = open_topics) -> SluiceError | None:
    """Returns the error of the first topic that cannot be described, or of patterns that name none; None when
    all of them answer."""
    try:
        with topics_of(cluster) as reader:
            for topic in cluster.named:
                reader.describe(topic)
            if not cluster.named and cluster.patterns and not cluster.patterns.matching(reader.names()):
                raise NoTopicMatches(cluster.cluster, str(cluster.patterns))
    except SluiceError as error:
        return error
    return None


def probe_clusters(
    pipeline: Pipeline, clusters: Iterable[str], topics_of: TopicsOf = open_topics
) -> dict[str, SluiceError | None]:
    """Probes several clusters side by side. Returns each one's error, or None, by name."""
    names = list(clusters)
    if not names:
        return {}
    with ThreadPoolExecutor(len(names)) as pool:
        errors = pool.map(lambda name: probe_cluster(pipeline.cluster(name), topics_of), names)
        return dict(zip(names, errors, strict=True))


# Samples records of a topic. No offset is committed or moved.

MOST_BYTES = 64 << 20
_PARTS = 20  # of a partition's time
_MOST_SPANS = 400  # each is a fetch of its own


@dataclass(frozen=True)
class SampledRecord:
    """`timestamp` in milliseconds since the epoch; `headers` are (key, value) pairs. `too_large`: its size in
    bytes where it is more than was asked for, and then nothing of it is here."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    too_large: int | None = None
    key: bytes | None = None


def newest(cluster: Cluster, topic: str, count: int, max_record: int) -> list[SampledRecord]:
    """Returns the records of the newest `count` offsets of each partition, in their order.

    Raises KafkaUnavailable, also for a topic that the user may not read, UnknownTopic, and WrongUse for the
    connection.
    """
    with open_topics(cluster) as topics:
        state = topics.describe(topic)
    spans = [
        OffsetSpan(topic, number, max(state.log_starts[number], end - count), end)
        for number, end in sorted(state.ends.items())
        if state.log_starts[number] < end
    ]
    with BoundedReader(settings_of(cluster), max_record) as reader:
        return [record for records in reader.read(spans) for record in _each(records)]


def spread(
    cluster: Cluster, topic: str, count: int, max_record: int, most_bytes: int = MOST_BYTES
) -> list[SampledRecord]:
    """At most about `count` records from all over the topic: of each partition some of every part of its
    time, the oldest and the newest among them. Ends early at `most_bytes`. Raises what `newest` raises.
    """
    with open_topics(cluster) as topics:
        state = topics.describe(topic)
    ranges = {number: (state.log_starts[number], end) for number, end in sorted(state.ends.items())}
    samples: list[SampledRecord] = []
    size = 0
    with BoundedReader(settings_of(cluster), max_record) as reader:
        for records in reader.read(spread_spans(topic, ranges, count)):
            samples += _each(records)
            size += sum(len(value or b"") for value in records.values)
            if size > most_bytes:
                break
    return samples


def spread_spans(topic: str, ranges: Mapping[int, tuple[int, int]], count: int) -> list[OffsetSpan]:
    """Spans of `[start, end)` by partition that have about `count` offsets together; those of one part of
    the time stand together, so that whoever stops early has seen all partitions.

    `{0: (0, 1000)}` and 100: [0, 5) [52, 57) … [995, 1000), twenty of them.
    """
    held = {number: edges for number, edges in ranges.items() if edges[0] < edges[1]}
    chosen = list(held.items())[:: max(1, -(-len(held) // max(1, min(count, _MOST_SPANS))))]
    parts = max(1, min(_PARTS, _MOST_SPANS // max(1, len(chosen))))
    spans = [
        (part, OffsetSpan(topic, number, *edges))
        for number, (start, end) in chosen
        for part, edges in enumerate(_windows(start, end, max(1, count // len(chosen)), parts))
    ]
    return [span for _, span in sorted(spans, key=lambda numbered: numbered[0])]


def _windows(start: int, end: int, count: int, parts: int) -> list[tuple[int, int]]:
    """`[from, until)` of at most `parts` windows with `count` offsets together, evenly spread."""
    if end - start <= count:
        return [(start, end)]
    length = -(-count // min(parts, count))
    parts = count // length
    if parts == 1:
        return [(end - length, end)]
    firsts = [start + (end - start - length) * part // (parts - 1) for part in range(parts)]
    return [(first, first + length) for first in firsts]


def _each(records: PartitionRecords) -> Iterator[SampledRecord]:
    columns = (records.offsets, records.timestamps, records.values, records.headers, records.keys)
    for number, (offset, timestamp, value, headers, key) in enumerate(zip(*columns, strict=True)):
        yield SampledRecord(
            records.topic,
            records.partition,
            int(offset),
            int(timestamp),
            value,
            tuple(headers or ()),
            records.too_large.get(number),
            key,
        )
