"""A plain consumer of librdkafka's: it reads the offsets that it is told, and keeps no place. What
kafka-python does in Python for each record takes ten times as long.

What its settings mean: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from sluice.errors import KafkaOutOfReach
from sluice.kafka.settings import KafkaSettings

_CONFIGURATION = {
    "group.id": "sluice",  # named, and never joined or committed to
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "fetch.queue.backoff.ms": 5,  # else it rests for a second whenever the queue is full
    "log_level": 0,  # its errors are said in one line
}


@contextmanager
def plain_consumer(
    settings: KafkaSettings, trouble: list[str], more: Mapping[str, Any]
) -> Iterator[Consumer]:
    """With `more` settings of librdkafka's. `trouble` takes what it says of the line meanwhile.

    Raises KafkaOutOfReach for what librdkafka raises inside, and for settings that it refuses.
    """
    options = {**_CONFIGURATION, **more, "isolation.level": settings.isolation, **settings.for_librdkafka()}
    try:
        consumer = Consumer({**options, "error_cb": lambda error: trouble.append(error.str())})
        try:
            yield consumer
        finally:
            consumer.close()
    except KafkaException as error:
        reason = " ".join([error.args[0].str(), *trouble[-1:]])
        raise KafkaOutOfReach(settings.cluster, settings.bootstrap, reason) from error


def raise_unless_end(message: Message) -> None:
    """Raises KafkaException for a message that says anything but that its partition has no more records."""
    if message.error().code() != KafkaError._PARTITION_EOF:
        raise KafkaException(message.error())
