"""What a landing task tells the driver: its files, and what it saw of each partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from sluice.type_fields import TypeFields


@dataclass(frozen=True)
class WrittenFile:
    """A finished Parquet file in the attempt at slice `slice_id` of `cluster`.

    `type` is None for the overflow, and for rejected records, whose `hour` is empty too.
    `rows_by_type` counts an overflow file's rows. A file of traffic counts has its table for a type, and the
    rows that it counts in `rows_by_type`.
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
class SeenOffsets:
    """The records of one partition that fell into one slice, in one task: offsets `[first, last]`.

    `gaps` lie between two of them, in order, and so do `hidden` offsets that no consumer shows, because they
    are markers of transactions or aborted. `rows`: how many rows the parsed records held, of which
    `rows_unparsed` did not land, and how many records were `empty` arrays; None where a record is a row.
    `long_numbers`: some of their rows may hold a number of more digits than a double keeps. `erased`: records
    of which nothing was left, and `rows_erased` rows of records that were arrays: `rows` does not count them.
    `without_bytes`: unparsed records that no file has, because the lake forgot their bytes.
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
    rows: int | None = None
    rows_unparsed: Mapping[str, int] = field(default_factory=dict)
    empty: int = 0
    long_numbers: bool = False
    hidden: int = 0
    erased: int = 0
    rows_erased: int = 0
    without_bytes: int = 0


@dataclass(frozen=True)
class SeenFields:
    """The fields of some rows of one slice. `thinned`: types and fields are those that field_tally.py keeps
    at this number, and all of them at 0."""

    cluster: str
    slice_id: str
    thinned: int
    types: tuple[TypeFields, ...]


@dataclass(frozen=True)
class SeenTimes:
    """How many records of one slice were stamped in each part of it."""

    cluster: str
    slice_id: str
    counts: tuple[int, ...]


@dataclass
class SchemasAsked:
    """What a task has asked a schema registry for: by id the bytes of a schema's texts, and ids without
    one."""

    sizes: dict[int, int] = field(default_factory=dict)
    without: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class SeenSchemas:
    """SchemasAsked of a task that reads records of the slice, among others."""

    cluster: str
    slice_id: str
    sizes: Mapping[int, int]
    without: tuple[int, ...]


@dataclass(frozen=True)
class TaskReport:
    """`traffic`: files of partial sums of traffic counts."""

    files: tuple[WrittenFile, ...] = ()
    seen: tuple[SeenOffsets, ...] = ()
    traffic: tuple[WrittenFile, ...] = ()
    fields: tuple[SeenFields, ...] = ()
    times: tuple[SeenTimes, ...] = ()
    schemas: tuple[SeenSchemas, ...] = ()

    @classmethod
    def of(cls, reports: Iterable[TaskReport]) -> TaskReport:
        """Returns all of them as one."""
        parts = list(reports)
        files = tuple(file for report in parts for file in report.files)
        seen = tuple(entry for report in parts for entry in report.seen)
        traffic = tuple(file for report in parts for file in report.traffic)
        fields = tuple(entry for report in parts for entry in report.fields)
        times = tuple(entry for report in parts for entry in report.times)
        schemas = tuple(entry for report in parts for entry in report.schemas)
        return cls(files, seen, traffic, fields, times, schemas)

    def without(self, units: Collection[tuple[str, str]]) -> TaskReport:
        """Returns what is reported of others than these, by slice and cluster."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return TaskReport(
            **{
                name: tuple(one for one in part if (one.slice_id, one.cluster) not in units)
                for name, part in parts.items()
            }
        )


_DECODER = msgspec.json.Decoder(TaskReport)


def encode(report: TaskReport) -> bytes:
    return msgspec.json.encode(report)


def decode(data: bytes) -> TaskReport:
    return _DECODER.decode(data)
