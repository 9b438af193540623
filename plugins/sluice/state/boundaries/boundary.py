"""What is known about one instant of one topic: where in each partition its slices are cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pendulum


class FoundBy(StrEnum):
    """How a partition's offset was found."""

    RECORD = "record"
    """The first record stamped at or after the instant, as Kafka's offsets-for-times gives it."""
    END = "end"
    """No record was that late: the end of the log (the last stable offset under read_committed)."""
    LOG_START = "log_start"
    """The look-up gave the log start, and older records had expired: the true offset lies below."""
    SCAN = "scan"
    """The look-up gave a record stamped in the future: found by reading on from there."""
    CLAMPED = "clamped"
    """The answer contradicted a neighbour that was stored before, whose offset it took over."""
    NEW = "new"
    """The partition was not there when the instant was resolved: it counts as its log start."""


CODES = tuple(FoundBy)
CODE = {found_by: code for code, found_by in enumerate(CODES)}


@dataclass(frozen=True)
class PartitionBoundary:
    """`log_start` is the partition's when the boundary was stored.

    `floor` equals `offset` unless records had expired before: then the true boundary was anywhere in
    `[floor, offset]`.
    """

    offset: int
    found_by: FoundBy
    log_start: int
    floor: int


@dataclass(frozen=True)
class Boundary:
    cluster: str
    topic: str
    uuid: str
    instant: pendulum.DateTime
    partitions: Mapping[int, PartitionBoundary]
