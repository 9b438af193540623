"""Puts events into a topic: large compressed batches, acknowledged by all replicas, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import BrokerResponseError, RetriableError, TopicAlreadyExistsError
from kafka.producer.future import FutureRecordMetadata

from sluice.errors import EventsRefused
from sluice.kafka.client import BOOTSTRAP_MS, REQUEST_MS, admin, reached
from sluice.kafka.settings import KafkaSettings

MAX_EVENT_BYTES = 20 << 20
_FRAMING = 1 << 16  # what a record's and its batch's headers may add
_NEW_TOPIC = {
    "retention.ms": "-1",  # retention goes by record time: last year's events would be gone at once
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(MAX_EVENT_BYTES + _FRAMING),
}
_BATCH_BYTES = 900_000  # below the default max.message.bytes of a topic that was there before
_UNACKNOWLEDGED_BYTES = 8 << 20
_SAME_PARTITION = 1000  # events in a row, so that batches fill


@dataclass(frozen=True)
class TopicFacts:
    """A record may be stamped at most `before_ms` before the broker's clock and `after_ms` after it."""

    partitions: int
    before_ms: int
    after_ms: int


class Publisher:
    """Sends events to one topic. Methods raise KafkaOutOfReach and EventsRefused."""

    def __init__(self, settings: KafkaSettings, topic: str, facts: TopicFacts, client: KafkaProducer) -> None:
        self.facts = facts
        self._settings = settings
        self._topic = topic
        self._client = client
        self._sent = 0
        self._new: list[FutureRecordMetadata] = []
        self._older: list[FutureRecordMetadata] = []
        self._bytes = 0

    def send(self, events: Sequence[bytes], times: Sequence[int]) -> None:
        """Sends each event with its record time (milliseconds), once enough earlier ones are acknowledged."""
        with reached(self._settings):
            for event, at in zip(events, times, strict=True):
                partition = self._sent // _SAME_PARTITION % self.facts.partitions
                self._new.append(self._client.send(self._topic, event, partition=partition, timestamp_ms=at))
                self._sent += 1
                self._bytes += len(event)
                if self._bytes > _UNACKNOWLEDGED_BYTES:
                    self._settle()

    def finish(self) -> None:
        """Waits until every event is acknowledged."""
        with reached(self._settings):
            self._client.flush()
            self._settle()
            self._settle()

    def _settle(self) -> None:
        """Waits for the older half of what is on its way."""
        for future in self._older:
            try:
                future.get()
            except BrokerResponseError as error:
                if isinstance(error, RetriableError):
                    raise
                raise EventsRefused(self._settings.cluster, self._topic, type(error).__name__) from error
        self._older, self._new, self._bytes = self._new, [], 0


@contextmanager
def open_publisher(settings: KafkaSettings, topic: str, partitions: int) -> Iterator[Publisher]:
    """A publisher to the topic, which is made with that many partitions if it is not there."""
    with reached(settings), admin(settings, _Admin) as client:
        facts = client.ensure(topic, partitions)
    with reached(settings):
        producer = KafkaProducer(
            acks="all",
            compression_type="zstd",
            batch_size=_BATCH_BYTES,
            linger_ms=100,
            max_request_size=MAX_EVENT_BYTES + _FRAMING,
            max_block_ms=REQUEST_MS,
            request_timeout_ms=REQUEST_MS,
            delivery_timeout_ms=4 * REQUEST_MS,
            bootstrap_timeout_ms=BOOTSTRAP_MS,
            allow_auto_create_topics=False,
            **settings.for_client(),
        )
    try:
        yield Publisher(settings, topic, facts, producer)
    finally:
        producer.close(timeout=REQUEST_MS / 1000)


class _Admin(KafkaAdminClient):
    def ensure(self, topic: str, partitions: int) -> TopicFacts:
        if topic not in self.list_topics():
            wanted = {topic: {"num_partitions": partitions, "configs": _NEW_TOPIC}}
            try:
                self.create_topics(wanted, wait_for_metadata=True)
            except TopicAlreadyExistsError:
                self.wait_for_topics([topic])
        (found,) = self.describe_topics([topic])
        names = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(names))
        settings = self.describe_configs([resource], config_filter="all")["topic"][topic]
        # Brokers before 3.6 have neither setting: they take any time.
        before, after = (int(settings[name]["value"]) if name in settings else 2**62 for name in names)
        return TopicFacts(len(found["partitions"]), before, after)
