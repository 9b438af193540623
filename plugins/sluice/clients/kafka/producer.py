"""Puts events into a topic by librdkafka: idempotent, acknowledged by all replicas, in bounded memory.

What its settings mean: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError

from sluice.clients.kafka.settings import KafkaSettings, admin, reached
from sluice.errors import KafkaUnavailable

__all__ = ["MAX_EVENT_BYTES", "DeliveryError", "Message", "NotTaken", "Publisher", "open_publisher"]

DeliveryError = KafkaError
Delivered = Callable[[DeliveryError | None, Message], None]
ProducedHeaders = list[tuple[str, str | bytes | None]]

_BATCH_BYTES = 900_000  # below the default max.message.bytes of a topic that was there before
_BATCH_FRAMING = 1024
_QUEUE_KIB = 32 << 10
_QUEUE_EVENTS = 100_000
_DELIVERY_MS = 60_000
_FULL_SECONDS = 0.1
_PURGE_SECONDS = 5.0
# Retryable errors of a broker, which librdkafka has retried until its time was over.
_UNAVAILABLE = {
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._AUTHENTICATION,
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._FATAL,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.REQUEST_TIMED_OUT,
}


class NotTaken(Exception):
    """librdkafka itself refuses an event; `error` says why."""

    def __init__(self, error: DeliveryError) -> None:
        super().__init__(error.str())
        self.error = error


def place_of(message: Message) -> tuple[int, int]:
    """Returns partition and offset of an event that was acknowledged."""
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        raise ValueError("librdkafka acknowledges an event without saying where it is")
    return partition, offset


class Publisher:
    """Sends events to one topic. Methods raise KafkaUnavailable."""

    def __init__(self, settings: KafkaSettings, topic: str, facts: TopicLimits, patient: bool) -> None:
        self.facts = facts
        self.settings = settings
        self.topic = topic
        self._trouble = ""
        self._login_failed = False
        self._client = Producer(_configuration(settings, facts, patient) | {"error_cb": self._on_error})

    def send(
        self,
        event: bytes,
        key: bytes | None,
        partition: int,
        at: int,
        headers: ProducedHeaders | None,
        delivered: Delivered,
    ) -> None:
        """Hands one event over; waits while too much is unacknowledged. `at` is in milliseconds.

        With a key the partition follows from it, as from Java's clients. Raises NotTaken.
        """
        while True:
            try:
                self._client.produce(
                    self.topic,
                    event,
                    key,
                    partition=partition,
                    on_delivery=delivered,
                    timestamp=at,
                    headers=headers,
                )
                return
            except BufferError:
                self.serve(_FULL_SECONDS)
            except KafkaException as error:
                raise NotTaken(error.args[0]) from error

    def serve(self, seconds: float = 0) -> None:
        """Calls back for what has been acknowledged, waiting at most that long for the first."""
        self._client.poll(seconds)

    def flush(self, seconds: float) -> int:
        """Waits until all is acknowledged or the time is over; how many events are not."""
        return self._client.flush(seconds)

    @property
    def unacknowledged(self) -> int:
        return len(self._client)

    def gone(self, reason: str) -> KafkaUnavailable:
        if trouble := self.settings.login_trouble(self._login_failed):
            return trouble
        text = f"{reason}; {self._trouble}" if self._trouble else reason
        return KafkaUnavailable(self.settings.cluster, self.settings.bootstrap, " ".join(text.split()))

    def close(self) -> None:
        """Gives up what is not acknowledged, with the error to each callback, and ends librdkafka's threads.

        A client that is left to the garbage collector loses its thread-local state while it still calls back.
        """
        if self.unacknowledged:
            with suppress(KafkaException):
                self._client.purge()
            self._client.flush(_PURGE_SECONDS)
        self._client.close()

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = error.str()
        self._login_failed = error.code() == KafkaError._AUTHENTICATION


def unavailable(error: KafkaError) -> bool:
    """Returns whether the error is retryable; all others are about the event or the topic."""
    return error.fatal() or error.retriable() or error.code() in _UNAVAILABLE


@contextmanager
def open_publisher(
    settings: KafkaSettings, topic: str, partitions: int, patient: bool = False
) -> Iterator[Publisher]:
    """Yields a publisher to the topic, which is made with that many partitions if it is not there.

    A `patient` one waits for a cluster that is away for as long as it takes; else a minute.
    """
    facts = ensure_topic(settings, topic, partitions)
    publisher = Publisher(settings, topic, facts, patient)
    try:
        yield publisher
    finally:
        publisher.close()


def _configuration(settings: KafkaSettings, facts: TopicLimits, patient: bool) -> dict[str, object]:
    """Batches stay below what the topic takes: one that is refused takes all its events with it."""
    return {
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "lz4",
        "linger.ms": 50,
        "batch.size": max(min(_BATCH_BYTES, facts.max_bytes - _BATCH_FRAMING), 1),
        "message.max.bytes": MAX_EVENT_BYTES + FRAMING,
        "queue.buffering.max.kbytes": _QUEUE_KIB,
        "queue.buffering.max.messages": _QUEUE_EVENTS,
        "delivery.timeout.ms": 0 if patient else _DELIVERY_MS,
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
        "log_level": 0,  # its errors come back with the events, and are said in one line
        **settings.for_librdkafka(),
    }


# Makes the topic that is published to, if it is not there, and says what it takes.
MAX_EVENT_BYTES = 20 << 20
FRAMING = 1 << 16  # what a record's and its batch's headers may add
_NEW_TOPIC = {
    "retention.ms": "-1",  # retention goes by record time: last year's events would be gone at once
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(MAX_EVENT_BYTES + FRAMING),
}
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_SIZE = "max.message.bytes"
_DEFAULT_SIZE = 1_048_588  # Kafka's own default


@dataclass(frozen=True)
class TopicLimits:
    """A record may be stamped at most `before_ms` before the broker's clock and `after_ms` after it.

    `uuid` tells a topic from another of its name; `max_bytes` is what the topic takes as one batch.
    """

    partitions: int
    before_ms: int
    after_ms: int
    uuid: str = ""
    max_bytes: int = _DEFAULT_SIZE


def ensure_topic(settings: KafkaSettings, topic: str, partitions: int) -> TopicLimits:
    """Returns the topic, which is made with that many partitions if it is not there. Raises
    KafkaUnavailable."""
    with reached(settings), admin(settings, _TopicAdmin) as client:
        return client.ensure(topic, partitions)


class _TopicAdmin(KafkaAdminClient):
    def ensure(self, topic: str, partitions: int) -> TopicLimits:
        if topic not in self.list_topics():
            new_topics = {topic: {"num_partitions": partitions, "configs": _NEW_TOPIC}}
            try:
                self.create_topics(new_topics, wait_for_metadata=True)
            except TopicAlreadyExistsError:
                self.wait_for_topics([topic])
        (description,) = self.describe_topics([topic])
        resource = ConfigResource(
            ConfigResourceType.TOPIC, topic, dict.fromkeys((_BEFORE, _AFTER, _SIZE), "")
        )
        settings = self.describe_configs([resource], config_filter="all")["topic"][topic]
        # Brokers before 3.6 have neither setting of time: they take any.
        values = {name: int(settings[name]["value"]) for name in (_BEFORE, _AFTER, _SIZE) if name in settings}
        return TopicLimits(
            len(description["partitions"]),
            values.get(_BEFORE, 2**62),
            values.get(_AFTER, 2**62),
            str(description["topic_id"]),
            values.get(_SIZE, _DEFAULT_SIZE),
        )
