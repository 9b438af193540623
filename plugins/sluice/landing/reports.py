"""What a landing task tells the driver: its files, and what it saw of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True)
class WrittenFile:
    """A finished Parquet file in the attempt at slice `slice_id` of `cluster`.

    `type` is None for the overflow, and for rejected records, whose `hour` is empty too.
    `rows_by_type` counts an overflow file's rows.
    """

    cluster: str
    slice_id: str
    type: str | None
    hour: str
    key: str
    rows: int
    bytes: int
    sha256: str
    rows_by_type: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Gap:
    """Of the offsets `[start, until)` Spark did not bring `missing`: all of them where it is not given."""

    start: int
    until: int
    missing: int = -1

    def __post_init__(self) -> None:
        if self.missing < 0:
            object.__setattr__(self, "missing", self.until - self.start)


@dataclass(frozen=True)
class Seen:
    """The records of one partition that fell into one slice, in one task: offsets `[first, last]`.

    `gaps` lie between two of them, in order.
    """

    cluster: str
    slice_id: str
    topic: str
    partition: int
    first: int
    last: int
    records: int
    gaps: tuple[Gap, ...] = ()
    unparsed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """`cut`: (slice id, cluster) of those that were not landed, because a record of theirs was cut."""

    files: tuple[WrittenFile, ...] = ()
    seen: tuple[Seen, ...] = ()
    cut: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, reports: Iterable[Report]) -> Report:
        """All of them as one: what any task cut counts as seen by none."""
        found = list(reports)
        files = tuple(file for report in found for file in report.files)
        seen = tuple(part for report in found for part in report.seen)
        return cls(files, seen).without(frozenset().union(*(report.cut for report in found)))

    def without(self, cut: frozenset[tuple[str, str]]) -> Report:
        files = tuple(file for file in self.files if (file.slice_id, file.cluster) not in cut)
        seen = tuple(part for part in self.seen if (part.slice_id, part.cluster) not in cut)
        return Report(files, seen, cut)


_DECODER = msgspec.json.Decoder(Report)


def encode(report: Report) -> bytes:
    return msgspec.json.encode(report)


def decode(data: bytes) -> Report:
    return _DECODER.decode(data)
