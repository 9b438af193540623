"""Drafts the manifest of a unit that is amended: its numbers, and what was taken out or brought in. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sluice.errors import Conservation
from sluice.flow.land.amend.rewrite import Part
from sluice.flow.land.remake import remade_of
from sluice.manifest import STAMP, LandedFile, Manifest, PartitionCount, TopicPartitionKey, Traffic


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
