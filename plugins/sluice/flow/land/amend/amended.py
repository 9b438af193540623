"""Drafts the manifest of a unit that is amended: its numbers, and what was taken out or brought in. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.config.counts import COUNTS, Counts
from sluice.errors import Conservation
from sluice.flow.land.amend.rewrite import NewFile, Part
from sluice.flow.land.merge import lake_rows
from sluice.flow.land.remake import remade_of
from sluice.flow.land.task import columns
from sluice.flow.land.task.count_fields import CountedTexts, counted_key
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.writer import handed_over, sha256
from sluice.manifest import STAMP, LandedFile, Manifest, PartitionCount, TopicPartitionKey, Traffic
from sluice.slices import words_of

# Changes a unit's traffic counts by rows that were taken out or brought in; all others stay.

_ROWS = 16_384
_COUNT = b',"count":'


@dataclass
class CountsOf:
    """How many rows of each key are added to the counts of a table, or taken off: by the fields and types
    with which the manifest says that it was counted."""

    traffic: Traffic
    changes: Counter[bytes] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._spec = Counts(table=self.traffic.table, by=self.traffic.by, types=self.traffic.types)
        self._texts = CountedTexts(self._spec.by.values())

    def add(self, events: pa.RecordBatch, hour: str, sign: int) -> None:
        """Adds events of an event hour, such as `2026-11-20T10`, `sign` times each."""
        kinds: list[Any] = events["_type"].to_pylist()
        rows = [n for n, kind in enumerate(kinds) if self._spec.counts(kind)]
        counted = events.take(pa.array(rows, pa.int64()))
        payloads: list[Any] = counted["_payload"].cast(pa.binary()).to_pylist()
        columns_of_rows = self._texts.of(counted, payloads)
        for place, n in enumerate(rows):
            texts = [column[place] for column in columns_of_rows]
            key = counted_key(hour, kinds[n], dict(zip(self._spec.by, texts, strict=True)))
            self.changes[key] += sign
            self.types[kinds[n]] += sign


@dataclass(frozen=True)
class CountsRewrite:
    """Rewrites files of counts of one unit into an attempt. `stamp`: the slice's start in ms."""

    lake: Lake
    old: Manifest
    attempt: str
    stamp: int

    def changed(self, number: int, of: CountsOf) -> NewTraffic:
        """`number` is unique in the attempt. Raises Conservation where the file has not the counts that are
        taken off."""
        old = of.traffic
        if not +of.changes and not -of.changes:
            return NewTraffic(old, old.sums, old.files[0] if old.files else None)
        kinds = sorted({*old.sums, *of.types})
        sums = {kind: old.sums.get(kind, 0) + of.types[kind] for kind in kinds}
        sums = {kind: count for kind, count in sums.items() if count}
        return NewTraffic(old, sums, self._rewritten(number, of) if sums else None)

    def _rewritten(self, number: int, of: CountsOf) -> Part | None:
        key = f"{layout.attempt(self.old.slice, self.attempt)}amended-counts-{number}.parquet"
        target, rows = self.lake.begin(key), 0
        try:
            with columns.writer(target.path, columns.COUNTED) as writer:
                for table in self._tables(of):
                    writer.write_table(table)
                    rows += table.num_rows
            size, digest = target.path.stat().st_size, sha256(target.path)
            handed_over(partial(self.lake.finish, key, target))
        except BaseException:
            target.discard()
            raise
        unit = (self.old.cluster, self.old.slice)
        return NewFile(
            WrittenFile(*unit, COUNTS, "", key, rows, size, digest), layout.counts_folder(of.traffic.table)
        )

    def _tables(self, of: CountsOf) -> Iterator[pa.Table]:
        """Yields the old rows with their counts changed, in their order, and then new ones."""
        left, last = dict(of.changes), -1
        offsets: list[Any]
        for file in of.traffic.files:
            with self.lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                for batch in parquet.iter_batches(_ROWS):
                    offsets = batch["_offset"].to_pylist()
                    last = max([last, *offsets])
                    yield _changed(batch, left)
        if any(count < 0 for count in left.values()):
            remake = self.lake.command("run", *words_of(self.old.slice), "--mode", "remake")
            raise Conservation(
                f"slice {self.old.slice}/{self.old.cluster}: the counts for table {of.traffic.table} lack "
                f"rows that are to be taken off: nothing was committed; `{remake}` counts again"
            )
        new = sorted((key, count) for key, count in left.items() if count)
        for start in range(0, len(new), _ROWS):
            yield lake_rows(new[start : start + _ROWS], self.old.cluster, self.stamp, last + 1 + start)


def _changed(batch: pa.RecordBatch, left: dict[bytes, int]) -> pa.Table:
    """Takes what it has used off `left`."""
    texts: list[Any] = batch["_payload"].cast(pa.binary()).to_pylist()
    kept = []
    for position, text in enumerate(texts):
        key, _, tail = text.rpartition(_COUNT)
        change = left.pop(key, 0)
        count = int(tail[:-1]) + change
        if count < 0:
            left[key] = count
        if count > 0:
            kept.append(position)
            texts[position] = key + _COUNT + b"%d}" % count if change else text
    payloads = pa.array([texts[position] for position in kept], pa.binary()).cast(pa.string())
    rows = pa.Table.from_batches([batch]).take(pa.array(kept, pa.int64()))
    rows = rows.set_column(rows.column_names.index("_payload"), "_payload", payloads)
    return rows.select(columns.COUNTED.names).cast(columns.COUNTED)


def counts_of(old: Manifest) -> list[CountsOf]:
    return [CountsOf(traffic) for traffic in old.traffic]


@dataclass
class PartitionChange:
    """What is added to the numbers of one partition: as those of PartitionCount."""

    rejected_records: int = 0
    rows: int = 0
    rejected_elements: int = 0
    erased: int = 0
    rows_erased: int = 0


@dataclass
class CountChange:
    """What is added to the numbers of a manifest: rejected records, and rows of records, by reason."""

    rejected_records: Counter[str] = field(default_factory=Counter)
    rejected_elements: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    partitions: dict[TopicPartitionKey, PartitionChange] = field(default_factory=dict)

    def at(self, place: TopicPartitionKey) -> PartitionChange:
        return self.partitions.setdefault(place, PartitionChange())

    def total(self, name: str) -> int:
        return sum(getattr(change, name) for change in self.partitions.values())


@dataclass(frozen=True)
class NewTraffic:
    """The counts of one table: the sums by type, and the file, one that stays or a new one."""

    old: Traffic
    sums: Mapping[str, int]
    file: Part | None


@dataclass(frozen=True)
class Amendment:
    """All that a next generation needs beside the manifest that it amends. `arrays`: its records may hold any
    number of rows now."""

    attempt: str
    events: Sequence[Part]
    rejected: Sequence[Part]
    traffic: Sequence[NewTraffic]
    change: CountChange
    late: int
    now: datetime
    arrays: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    def draft(self, old: Manifest, generation: int) -> Manifest:
        """Raises Conservation where files and numbers do not agree."""
        change = self.change
        rows = old.parsed if old.rows is None and self.arrays else old.rows
        converted = 0 if old.rows is not None or not self.arrays else old.erased
        new = replace(
            old,
            generation=generation,
            attempt=self.attempt,
            landed_at=self.now.strftime(STAMP),
            files=_named(old, generation, self.events),
            rejected=_named(old, generation, self.rejected),
            traffic=tuple(_traffic(old, generation, part) for part in self.traffic),
            rejected_records=_added(old.rejected_records, change.rejected_records),
            rejected_elements=_added(old.rejected_elements, change.rejected_elements),
            rows=None if rows is None else rows + change.total("rows"),
            empty=old.empty + change.empty,
            erased=old.erased + change.total("erased"),
            rows_erased=old.rows_erased + converted + change.total("rows_erased"),
            counts=_counts(old, change, self.arrays),
            late=self.late,
            remade=remade_of(old),
            amends=(old.id, *old.amends),
            **self.more,
        )
        _check(new)
        return new


def _named(old: Manifest, generation: int, parts: Iterable[Part]) -> tuple[LandedFile, ...]:
    return tuple(
        part if isinstance(part, LandedFile) else part.named(old.slice, old.cluster, generation, number)
        for number, part in enumerate(parts)
    )


def _traffic(old: Manifest, generation: int, part: NewTraffic) -> Traffic:
    files = _named(old, generation, [part.file] if part.file is not None else [])
    return replace(part.old, sums=dict(sorted(part.sums.items())), files=files)


def _added(reasons: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    added = {reason: reasons.get(reason, 0) + more.get(reason, 0) for reason in sorted({*reasons, *more})}
    return {reason: count for reason, count in added.items() if count}


def _counts(old: Manifest, change: CountChange, arrays: bool) -> tuple[PartitionCount, ...]:
    return tuple(
        _count(count, change.partitions.get((count.topic, count.partition), PartitionChange()), arrays)
        for count in old.counts
    )


def _count(old: PartitionCount, change: PartitionChange, arrays: bool) -> PartitionCount:
    rows, rows_erased = old.rows, old.rows_erased
    if rows is None and arrays:
        rows, rows_erased = old.read - old.rejected_records - old.erased, old.erased
    return replace(
        old,
        rejected_records=old.rejected_records + change.rejected_records,
        rows=None if rows is None else rows + change.rows,
        rejected_elements=old.rejected_elements + change.rejected_elements,
        erased=old.erased + change.erased,
        rows_erased=rows_erased + change.rows_erased,
    )


def _check(new: Manifest) -> None:
    rows, rejected = new.rows_by_type(), sum(file.rows for file in new.rejected)
    wrong = sum(rows.values()) != new.landed or rejected != new.kept
    wrong |= any(
        count < 0 for reasons in (new.rejected_records, new.rejected_elements) for count in reasons.values()
    )
    if wrong:
        raise Conservation(
            f"slice {new.slice}/{new.cluster}: its files would hold {sum(rows.values()):,} rows and "
            f"{rejected:,} rejected records, and its manifest would count {new.landed:,} and {new.kept:,}: "
            "nothing was committed; verify names what is wrong with them"
        )


def late_after(old: Manifest, files: Iterable[Part]) -> int:
    """Returns how many rows of files came late, by the hours that counted as late when the unit landed."""
    hours: Counter[str] = Counter()
    for file in old.files:
        hours[file.hour] += file.rows
    late, left = set[str](), old.late
    for hour, rows in sorted(hours.items()):
        if left < rows:
            break
        late.add(hour)
        left -= rows
    parts = [part if isinstance(part, LandedFile) else part.written for part in files]
    return sum(part.rows for part in parts if part.hour in late)
