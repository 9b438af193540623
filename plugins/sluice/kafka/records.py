"""Reads the records of given offsets, by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition

from sluice.errors import KafkaOutOfReach
from sluice.kafka.consumer import plain_consumer, raise_unless_end
from sluice.kafka.settings import KafkaSettings

_AT_ONCE = 4096
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 60.0
_CONFIGURATION = {
    # How much is read ahead, and so in vain behind the last offset: it also bounds what comes at once.
    "queued.max.messages.kbytes": 4 << 10,
    "receive.message.max.bytes": 2_000_000_000,  # a record of any size, as Kafka's own client takes it
    "check.crcs": True,  # as Kafka's own client does
}

Headers = list[tuple[str, bytes | None]]

# confluent-kafka answers and leaves an error set for a name that is not UTF-8. Called from C, the answer is
# checked, and becomes a SystemError; the interpreter's own call, once it is warm, lets the error out later.
_HEADERS_OF = methodcaller("headers")


class Span(NamedTuple):
    """Offsets `[start, until)` of one partition."""

    topic: str
    partition: int
    start: int
    until: int


class Records(NamedTuple):
    """Some records of one partition, in its order. `timestamps` in milliseconds since the epoch; `headers`
    are None where a record has none, and where `unreadable` has its number: a name of them is not UTF-8."""

    topic: str
    partition: int
    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers | None]
    unreadable: frozenset[int] = frozenset()


def read_records(settings: KafkaSettings, spans: Sequence[Span]) -> Iterator[Records]:
    """Every visible record of the spans, one span after another; some MB at once.

    Raises KafkaOutOfReach when nothing comes for a minute, or the cluster says no, also to an offset that it
    no longer has.
    """
    trouble: list[str] = []
    with plain_consumer(settings, trouble, _CONFIGURATION) as consumer:
        for span in spans:
            if span.start < span.until:
                consumer.assign([TopicPartition(*span[:3])])
                yield from _span(consumer, settings, span, trouble)


def _span(
    consumer: Consumer, settings: KafkaSettings, span: Span, trouble: Sequence[str]
) -> Iterator[Records]:
    at, deadline = span.start, time.monotonic() + _PATIENCE_SECONDS
    while at < span.until:
        # Only what is there already: whoever waits for a number of records holds them all meanwhile.
        messages = consumer.consume(_AT_ONCE, 0) or consumer.consume(1, _POLL_SECONDS)
        ends = [message for message in messages if message.error() is not None]
        for message in ends:
            raise_unless_end(message)
        # What was on its way for the span before may still come.
        records = [m for m in messages if m.partition() == span.partition and m.topic() == span.topic]
        if ends:
            ends = [message for message in ends if message in records]
            records = [message for message in records if message.error() is None]
        # A partition's end lies behind what nobody sees: aborted records, and the marks of transactions.
        at = max([at, *(end.offset() for end in ends), *(last.offset() + 1 for last in records[-1:])])
        if messages:
            deadline = time.monotonic() + _PATIENCE_SECONDS
        elif time.monotonic() > deadline:
            reason = "; ".join([f"{span.topic}/{span.partition} brings no more records", *trouble[-1:]])
            raise KafkaOutOfReach(settings.cluster, settings.bootstrap, reason)
        if records and records[-1].offset() >= span.until:
            records = [message for message in records if message.offset() < span.until]
        if records:
            yield _records(span, records)


def _records(span: Span, messages: Sequence[Message]) -> Records:
    headers, unreadable = _headers(messages)
    return Records(
        span.topic,
        span.partition,
        [message.offset() for message in messages],
        [message.timestamp()[1] for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
        headers,
        unreadable,
    )


def _headers(messages: Sequence[Message]) -> tuple[list[Headers | None], frozenset[int]]:
    """Each is asked once: asked again, confluent-kafka hands on half of what it failed to make."""
    found: list[Headers | None] = []
    unreadable = []
    for number, message in enumerate(messages):
        try:
            found.append(_HEADERS_OF(message))
        except SystemError:
            found.append(None)
            unreadable.append(number)
    return found, frozenset(unreadable)
