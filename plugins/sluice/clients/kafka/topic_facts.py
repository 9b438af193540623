"""What a broker says about a topic beside its records: settings, replicas, rights, and the age of its log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError
from kafka.protocol.consumer import OffsetSpec

from sluice.clients.kafka.fetch import MissingOffsets
from sluice.clients.kafka.lookups import PartitionLookUp, first_stamp
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings, admin, error_of, reached, settings_of
from sluice.config.pipeline import Cluster
from sluice.errors import PartitionMissing, TopicRecreated, UnknownTopic
from sluice.manifest import OffsetRange

T = TypeVar("T")

RETENTION = ("cleanup.policy", "retention.bytes", "retention.ms")

# What a topic is asked for.


class TopicOffsets(Protocol):
    @property
    def uuid(self) -> str: ...

    @property
    def log_starts(self) -> Mapping[int, int]: ...

    @property
    def ends(self) -> Mapping[int, int]: ...

    def held(self, high_watermarks: Mapping[int, int]) -> Mapping[int, int]: ...


class TopicReader(Protocol):
    """What `sluice.clients.kafka.topics.Topics` offers."""

    def names(self) -> Collection[str]: ...

    def describe(self, topic: str) -> TopicOffsets: ...

    def look_up(
        self, topic: str, ends: Mapping[int, int], instants: Sequence[int]
    ) -> Mapping[int, PartitionLookUp]: ...

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]: ...

    def high_watermarks(self, topic: str, partitions: Iterable[int]) -> Mapping[int, int]: ...

    def left(self, topic: str, partition: int, gaps: Sequence[MissingOffsets]) -> list[MissingOffsets]: ...

    def unhidden(
        self, topic: str, partition: int, gaps: Iterable[MissingOffsets]
    ) -> MissingOffsets | None: ...

    def committed(self, group: str, topic: str) -> Mapping[int, int]: ...

    def compacted(self, topic: str) -> bool: ...

    def kept_ms(self, topic: str) -> int | None: ...


TopicsOf = Callable[[Cluster], AbstractContextManager[TopicReader]]


@dataclass(frozen=True)
class PartitionFacts:
    """`first_stamp` is the record time (ms) of the first record that is left, None where there is none.

    Offsets are those of the log; `bytes` of its first replica, None when the broker does not say.
    """

    start: int
    end: int
    first_stamp: int | None = None
    bytes: int | None = None

    @property
    def records(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class TopicFacts:
    """`rights` are the operations that the broker allows this user (READ, DESCRIBE, …), None if it keeps
    that to itself; `settings` its effective configuration, empty without the right to see it."""

    cluster: str
    topic: str
    replicas: int
    offline: int
    rights: frozenset[str] | None
    settings: Mapping[str, str]
    partitions: Mapping[int, PartitionFacts]
    uuid: str = ""

    def number(self, setting: str) -> int | None:
        """Returns a setting in its own unit; None when it is not known."""
        value = self.settings.get(setting)
        return None if value is None else int(value)


class TopicInquiry:
    """Every method raises KafkaUnavailable when the cluster does not answer."""

    def __init__(self, settings: KafkaSettings, client: KafkaAdminClient) -> None:
        self._settings, self._client = settings, client

    def brokers(self) -> int:
        with reached(self._settings):
            try:
                return len(self._client.describe_cluster()["brokers"])
            except KeyError:  # kafka-python misses a field in the answer of brokers before 3.7
                return len(self._client._manager.cluster.brokers())  # type: ignore[attr-defined]

    def names(self) -> list[str]:
        """Lists all topics that the user may describe."""
        with reached(self._settings):
            names: list[str] = self._client.list_topics()
            return names

    def facts(self, topic: str) -> TopicFacts:
        """Reads one record of each partition, which also proves the right to read. Raises UnknownTopic."""
        with reached(self._settings):
            (description,) = self._client.describe_topics([topic])
            error = error_of(description["error_code"])
            if error is UnknownTopicOrPartitionError:
                raise UnknownTopic(self._settings.cluster, topic)
            if error is not NoError:
                raise error(f"topic {topic}")
            partitions = description["partitions"]
            rights = description.get("authorized_operations")
            return TopicFacts(
                cluster=self._settings.cluster,
                topic=topic,
                replicas=min((len(p["replica_nodes"]) for p in partitions), default=0),
                offline=sum(not p["isr_nodes"] for p in partitions),
                rights=frozenset(rights) if rights else None,
                settings=self._configuration(topic),
                partitions=self._partitions(topic, [p["partition_index"] for p in partitions]),
                uuid=str(description["topic_id"]),
            )

    def retention(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Returns by topic the settings by which Kafka deletes records, with one request; none of a topic
        that is gone, or that the user may not describe."""
        names = dict.fromkeys(RETENTION, "")
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, names) for topic in topics]
        with reached(self._settings):
            answer = self._client.describe_configs(resources, config_filter="all") if topics else {}
        found = answer.get("topic", {})
        return {
            topic: {name: one["value"] for name, one in settings.items() if one["value"] is not None}
            for topic, settings in sorted(found.items())
        }

    def _configuration(self, topic: str) -> Mapping[str, str]:
        """Kafka answers a topic that one may not describe with no settings at all."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        configs = self._client.describe_configs([resource], config_filter="all")
        settings = configs.get("topic", {}).get(topic, {})
        return {name: item["value"] for name, item in settings.items() if item["value"] is not None}

    def _partitions(self, topic: str, numbers: list[int]) -> dict[int, PartitionFacts]:
        places = [TopicPartition(topic, number) for number in numbers]
        starts = self._client.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        ends = self._client.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        filled = [p for p in places if starts[p].offset < ends[p].offset]
        stamps = self._first_stamps([OffsetSpan(*p, starts[p].offset, ends[p].offset) for p in filled])
        sizes = self._sizes(topic, places)
        return {
            p.partition: PartitionFacts(starts[p].offset, ends[p].offset, stamps.get(p), sizes.get(p))
            for p in places
        }

    def _first_stamps(self, spans: Iterable[OffsetSpan]) -> dict[TopicPartition, int | None]:
        """Of any record, also of a transaction that is open: nothing is waited for."""
        uncommitted = replace(self._settings, isolation="read_uncommitted")
        with BoundedReader(uncommitted, max_record=0) as reader:
            return {TopicPartition(*span[:2]): first_stamp(reader, span) for span in spans}

    def _sizes(self, topic: str, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Needs the right to describe the cluster; without it nothing is known."""
        try:
            brokers = self._client.describe_log_dirs({topic: [place.partition for place in places]})
        except KafkaError:
            return {}
        sizes: dict[TopicPartition, int] = {}
        folders = (folder for broker in brokers for folder in broker["log_dirs"])
        for p in (p for folder in folders for name in folder["topics"] for p in name["partitions"]):
            place = TopicPartition(topic, p["partition_index"])
            sizes[place] = max(p["partition_size"], sizes.get(place, 0))
        return sizes


def each_known(cluster: Cluster, topics: Iterable[str], ask: Callable[[str], T]) -> dict[str, T]:
    """Returns the answer for each topic. One that a pattern named may be gone by now, and is left out."""
    answers: dict[str, T] = {}
    for topic in topics:
        try:
            answers[topic] = ask(topic)
        except UnknownTopic:
            if topic in cluster.named:
                raise
    return answers


@contextmanager
def open_inquiry(cluster: Cluster) -> Iterator[TopicInquiry]:
    """Raises KafkaUnavailable, or WrongUse for the cluster's connection."""
    settings = settings_of(cluster)
    with reached(settings), admin(settings, KafkaAdminClient) as client:
        yield TopicInquiry(settings, client)


# What Kafka still has of a topic: log starts and retention.
LogStarts = Mapping[tuple[str, int], int]
"""(topic, partition) of one cluster to the first offset that is still there."""


# By so much the broker's clock may be ahead of this machine's, a long look-up included.
CLOCKS_MS = 3_600_000


def kept_ms(settings: Mapping[str, str]) -> int | None:
    """Returns how long a topic keeps every record, by its effective settings; None where they do not say it.

    A segment goes when its newest record is older than `retention.ms` (Kafka, UnifiedLog). So a younger
    record is there. How long a segment may grow, and when it is checked, only keeps records longer. Nothing
    is known where segments go by size, where a topic is compacted, and where nothing goes by age: then
    something else has moved the log start.
    """
    cleanup = {name: settings.get(name) for name in RETENTION}
    if (
        cleanup["cleanup.policy"] != "delete"
        or cleanup["retention.bytes"] != "-1"
        or cleanup["retention.ms"] is None
    ):
        return None
    kept = int(cleanup["retention.ms"])
    return kept if kept >= 0 else None


def kept_since(now_ms: int, kept: int | None) -> int | None:
    """Returns the first second since the epoch of which no record has gone by age."""
    return None if kept is None else -((kept - now_ms - CLOCKS_MS) // 1000)


def log_starts(
    reader: TopicReader, cluster: str, ranges: Iterable[OffsetRange], departed: Collection[str] = ()
) -> LogStarts:
    """Reads the log start of every range's partition. Of a `departed` topic, which the pipeline file no
    longer names, nothing is returned where Kafka does not have it any more.

    Raises what `Topics.describe` raises, PartitionMissing for a partition that is not listed, TopicRecreated
    for a topic with another id than the range's.
    """
    starts: dict[tuple[str, int], int] = {}
    partitions = {(r.topic, r.uuid, r.partition) for r in ranges}
    states: dict[str, TopicOffsets | None] = {
        topic: _described(reader, topic, topic in departed)
        for topic in sorted({topic for topic, _, _ in partitions})
    }
    for topic, uuid, partition in sorted(partitions):
        state = states[topic]
        if state is None or (state.uuid != uuid and topic in departed):
            continue
        if state.uuid != uuid:
            raise TopicRecreated(cluster, topic, uuid, state.uuid)
        if partition not in state.log_starts:
            raise PartitionMissing(cluster, topic, partition)
        starts[topic, partition] = state.log_starts[partition]
    return starts


def _described(reader: TopicReader, topic: str, departed: bool) -> TopicOffsets | None:
    try:
        return reader.describe(topic)
    except UnknownTopic:
        if departed:
            return None
        raise
