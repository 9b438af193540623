"""The pipeline file's `kafka` block. The reference is made of the model."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from sluice.config.section import Section
from sluice.config.types import Instant, PlainName
from sluice.manifest_parts import Isolation

# https://github.com/apache/kafka/blob/4.2/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Cluster(Section):
    """One independent Kafka cluster; its name is part of the identity of every record."""

    cluster: PlainName
    """Name of the cluster, a part of every record's identity: never give it to another one. Example: `dc1`"""
    topics: list[str] = Field(min_length=1)
    """Topics that are read. Example: `[bids, clicks]`"""
    bootstrap: str | None = None
    """Its brokers, instead of `connection`. Example: `kafka.dc1:9092`"""
    connection: str | None = None
    """Airflow connection of type `kafka`, with address and login. Example: `kafka_dc1`"""
    isolation: Isolation = "read_committed"
    """Expert. Whether records of open and aborted transactions are left out. Example: `read_uncommitted`"""
    start: Instant | None = None
    """Its earliest slice, on a slice's edge; without it the first slice that it was asked for.
    Example: `2026-11-01T00:00Z`"""

    @model_validator(mode="after")
    def _one_address(self) -> Cluster:
        if (self.bootstrap is None) == (self.connection is None):
            raise ValueError("expected exactly one of `bootstrap` and `connection`")
        if len(set(self.topics)) != len(self.topics):
            raise ValueError("a topic is listed twice")
        for topic in self.topics:
            if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
                raise ValueError(f"Kafka has no topic {topic[:99]!r}: expected letters, digits, . _ and -")
        return self
