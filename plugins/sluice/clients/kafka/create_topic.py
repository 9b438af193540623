"""Makes the topic that is published to, if it is not there, and says what it takes."""

from __future__ import annotations

from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError

from sluice.clients.kafka.client import admin, reached
from sluice.clients.kafka.settings import KafkaSettings

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
