"""What a landing task tells the driver, its files and what it saw of each partition, and how it counts
that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from sluice.clients.kafka.fetch import MissingOffsets
from sluice.flow.land.task import columns
from sluice.flow.land.task.long_numbers import may_be_long_in
from sluice.flow.land.task.records import REASON, SLICE, numbers_of, runs_of
from sluice.manifest import TWELFTHS, TypeFields
from sluice.slices import Slice


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
    `rejected_elements` did not land, and how many records were `empty` arrays; None where a record is a row.
    `long_numbers`: some of their rows may hold a number of more digits than a double keeps. `erased`: records
    of which nothing was left, and `rows_erased` rows of records that were arrays: `rows` does not count them.
    `without_bytes`: rejected records that no file has, because the lake forgot their bytes.
    """

    cluster: str
    slice_id: str
    topic: str
    partition: int
    first: int
    last: int
    records: int
    gaps: tuple[Gap, ...] = ()
    rejected_records: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None
    rejected_elements: Mapping[str, int] = field(default_factory=dict)
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
    """What a task has asked a schema registry for: by id, or GUID, the bytes of a schema's texts, and of ids
    without one that can be used why; empty where there is none."""

    sizes: dict[int | str, int] = field(default_factory=dict)
    without: dict[int | str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SeenSchemas:
    """SchemasAsked of a task that reads records of the slice, among others."""

    cluster: str
    slice_id: str
    sizes: Mapping[int | str, int]
    without: Mapping[int | str, str]


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


MOST_GAPS = 1000

Explain = Callable[[str, int, list[MissingOffsets]], list[MissingOffsets]]
"""From a topic, a partition and offsets that were not brought to those of them that nothing explains."""


@dataclass
class _Count:
    first: int
    last: int
    records: int = 0
    gaps: list[np.ndarray] = field(default_factory=list)
    rejected_records: Counter[str] = field(default_factory=Counter)
    rows: int | None = None
    rejected_elements: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    long_numbers: bool = False
    erased: int = 0
    rows_erased: int = 0

    def add(self, offsets: np.ndarray) -> None:
        """Adds ascending offsets, all above those before."""
        ends = np.concatenate(([self.last], offsets))
        jumps = np.flatnonzero(np.diff(ends) > 1)
        if len(jumps):
            self.gaps.append(np.column_stack((ends[jumps] + 1, ends[jumps + 1])))
        self.records += len(offsets)
        self.last = int(offsets[-1])

    def add_rows(self, count: int) -> None:
        self.rows = (self.rows or 0) + count

    def ranges(self) -> list[MissingOffsets]:
        return [(start, until) for part in self.gaps for start, until in part.tolist()]


class SeenRecords:
    """Counts what one task sees of each slice and partition, and which offsets it was not brought.

    `arrays`: a record may hold any number of rows, so that these are counted beside it. Rows that come to one
    call are all of one topic and partition.
    """

    def __init__(self, arrays: bool = False) -> None:
        self._counts: dict[tuple[int, str, int], _Count] = {}
        self._arrays = arrays
        self._left: set[int] = set()
        self._erased: dict[int, int] = {}
        """Of the records at hand that were arrays: offsets of which a row is left, and by offset the slice of
        those of which a row was erased."""

    def records(self, records: pa.Table) -> None:
        """Adds records in the order of their offsets."""
        (topic, partition), slices = columns.place_of(records), numbers_of(records, SLICE)
        offsets, rows = numbers_of(records, "_offset"), 0 if self._arrays else None
        for start, until in pairwise(runs_of(slices)):
            first, key = int(offsets[start]), (int(slices[start]), topic, partition)
            self._counts.setdefault(key, _Count(first, first - 1, rows=rows)).add(offsets[start:until])

    def landed(self, rows: pa.Table) -> None:
        """Adds rows that land."""
        for number in may_be_long_in(rows["_payload"], numbers_of(rows, SLICE)):
            self._at(rows, number).long_numbers = True
        if self._arrays:
            self._are_left(rows)

    def rejected(self, rows: pa.Table) -> None:
        """Adds records that gave no row, and rows out of arrays that do not land."""
        of_arrays = self._arrays and "_row" in rows.column_names
        numbers, reasons = numbers_of(rows, SLICE).tolist(), _texts(rows[REASON])
        for (number, reason), count in Counter(zip(numbers, reasons, strict=True)).items():
            seen = self._at(rows, number)
            (seen.rejected_elements if of_arrays else seen.rejected_records)[reason] += count
        if of_arrays:
            self._are_left(rows)

    def empty(self, records: pa.Table) -> None:
        for number, count in _numbered(records):
            self._at(records, number).empty += count

    def erased(self, rows: pa.Table) -> None:
        """Adds records, or rows out of arrays, that are erased."""
        if not (self._arrays and "_row" in rows.column_names):
            for number, count in _numbered(rows):
                self._at(rows, number).erased += count
            return
        for number, count in _numbered(rows):
            self._at(rows, number).rows_erased += count
        of_rows = (numbers_of(rows, name).tolist() for name in ("_offset", SLICE))
        self._erased |= zip(*of_rows, strict=True)

    def opened(self, records: pa.Table) -> None:
        """Ends what is seen of `records`: those that were arrays, and of which no row is left, are erased."""
        for offset, number in self._erased.items():
            if offset not in self._left:
                self._at(records, number).erased += 1
        self._left, self._erased = set(), {}

    def _are_left(self, rows: pa.Table) -> None:
        for number, count in _numbered(rows):
            self._at(rows, number).add_rows(count)
        self._left.update(np.unique(numbers_of(rows, "_offset")).tolist())

    def _at(self, rows: pa.Table, number: int) -> _Count:
        return self._counts[number, *columns.place_of(rows)]

    def report(
        self, cluster: str, slices: Sequence[Slice], explain: Explain | None = None
    ) -> tuple[SeenOffsets, ...]:
        """Returns what was seen. Offsets that `explain` explains are `hidden`, and no gaps."""
        return tuple(
            _seen(cluster, slices[number].id, topic, partition, count, explain)
            for (number, topic, partition), count in self._counts.items()
        )


def _seen(
    cluster: str, slice_id: str, topic: str, partition: int, c: _Count, explain: Explain | None
) -> SeenOffsets:
    ranges = c.ranges()
    left = explain(topic, partition, ranges) if explain and ranges else ranges
    gaps = [Gap(*missing) for missing in left]
    hidden = sum(until - start for start, until in ranges) - sum(gap.missing for gap in gaps)
    return SeenOffsets(
        cluster,
        slice_id,
        topic,
        partition,
        c.first,
        c.last,
        c.records,
        tuple(gaps) if len(gaps) <= MOST_GAPS else (join(gaps),),
        dict(c.rejected_records),
        c.rows,
        dict(c.rejected_elements),
        c.empty,
        c.long_numbers,
        hidden,
        c.erased,
        c.rows_erased,
    )


def _texts(column: Any) -> list[str]:
    texts: list[str] = column.to_pylist()
    return texts


def _numbered(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Yields the numbers of slices, and how many rows each has."""
    numbers, counts = np.unique(numbers_of(rows, SLICE), return_counts=True)
    return zip(numbers.tolist(), counts.tolist(), strict=True)


def join(gaps: Sequence[Gap]) -> Gap:
    """Returns one gap over all of `gaps`, which are in order: thousands of them need not travel one by
    one."""
    return Gap(gaps[0].start, gaps[-1].until, sum(gap.missing for gap in gaps))


class RecordTimes:
    """Counts when within their slice records were stamped, in TWELFTHS equal parts of it."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices
        self._starts = np.array([int(slice_.start.timestamp()) * 1000 for slice_ in slices], np.int64)
        self._part = max(int(slices[0].length.total_seconds()) * 1000 // TWELFTHS, 1) if slices else 1
        self._counts = np.zeros(len(slices) * TWELFTHS, np.int64)

    def add(self, records: pa.Table) -> None:
        """A stamp outside its slice, as a record has that is not in the order of the stamps, counts at the
        nearer end."""
        slices, times = numbers_of(records, SLICE), numbers_of(records, "_timestamp").view(np.int64)
        parts = np.clip((times - self._starts[slices]) // self._part, 0, TWELFTHS - 1)
        self._counts += np.bincount(slices * TWELFTHS + parts, minlength=len(self._counts))

    def report(self, cluster: str) -> tuple[SeenTimes, ...]:
        """Returns the slices that have records."""
        rows = self._counts.reshape(-1, TWELFTHS).tolist()
        return tuple(
            SeenTimes(cluster, slice_.id, tuple(counts))
            for slice_, counts in zip(self._slices, rows, strict=True)
            if any(counts)
        )
