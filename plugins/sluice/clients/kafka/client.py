"""Opens kafka-python's clients with short time-outs, and turns their errors into Sluice's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, for_code

from sluice.clients.kafka.settings import KafkaSettings
from sluice.errors import BatchUnreadable, KafkaUnavailable

Admin = TypeVar("Admin", bound=KafkaAdminClient)

BOOTSTRAP_MS = 10_000
REQUEST_MS = 15_000

# Whatever it complains of is raised as well, and Sluice says it in one line of its own.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class DamagedBatch(KafkaError):
    """A stored batch of `place` that cannot be read; it begins at offset `start`."""

    def __init__(self, place: TopicPartition, start: int, reason: str) -> None:
        super().__init__(f"{place.topic}/{place.partition} at offset {start}: {reason}")
        self.place, self.start, self.reason = place, start, reason


def error_of(code: int) -> type[KafkaError]:
    """Returns the class of a broker's error code; NoError for 0."""
    error_class: type[KafkaError] = for_code(code)  # type: ignore[no-untyped-call]  # its stub has no types
    return error_class


@contextmanager
def reached(settings: KafkaSettings) -> Iterator[None]:
    """Raises KafkaUnavailable for whatever the client cannot do: no answer, no leader, no permission; and
    BatchUnreadable for a batch that is damaged."""
    try:
        yield
    except DamagedBatch as error:
        where = (settings.cluster, *error.place, error.start, error.start + 1)
        raise BatchUnreadable(*where, error.reason) from error
    except (KafkaError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise KafkaUnavailable(settings.cluster, settings.bootstrap, reason) from error


@contextmanager
def admin(settings: KafkaSettings, kind: type[Admin]) -> Iterator[Admin]:
    client = kind(bootstrap_timeout_ms=BOOTSTRAP_MS, request_timeout_ms=REQUEST_MS, **settings.for_client())
    try:
        yield client
    finally:
        client.close()
