"""Drafts a unit's manifest out of what the tasks reported. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.clients.lake import layout
from sluice.config.counts import COUNTS
from sluice.flow.land.conservation import Counted
from sluice.flow.land.read_plan import UnitRead
from sluice.flow.land.task.reports import SeenOffsets, SeenTimes, WrittenFile
from sluice.manifest import STAMP, Isolation, LandedFile, Manifest, Masked, PartitionCount, Traffic
from sluice.slices import last_late
from sluice.type_fields import TypeFields


@dataclass(frozen=True)
class Landed:
    """A unit whose files are in the attempt and whose counts have been checked; `rules` and `isolation`: of
    its records."""

    read: UnitRead
    attempt: str
    files: tuple[WrittenFile, ...]
    seen: tuple[SeenOffsets, ...]
    gaps: int
    rules: str
    isolation: Isolation
    counted: tuple[Counted, ...] = ()
    fields: tuple[TypeFields, ...] = ()
    times: tuple[int, ...] = ()
    erasures: int = 0
    masked: Masked | None = None


def draft(
    pipeline: str, landed: Landed, grace: timedelta, token: str, now: datetime, generation: int
) -> Manifest:
    """Drafts the manifest. Final names count the files in their order by type, hour and attempt key."""
    unit = landed.read.unit
    rows = sorted((f for f in landed.files if f.hour), key=_by_type_and_hour)
    rejected = sorted((f for f in landed.files if not f.hour), key=lambda f: f.key)
    late = last_late(unit.slice, grace)
    rejected_records = _summed(part.rejected_records for part in landed.seen)
    return Manifest(
        pipeline=pipeline,
        slice=unit.slice.id,
        cluster=unit.cluster,
        generation=generation,
        attempt=landed.attempt,
        ranges=landed.read.ranges,
        files=_named(rows, generation),
        rejected=_named(rejected, generation),
        read=sum(part.records for part in landed.seen),
        rejected_records=rejected_records,
        gaps=landed.gaps,
        lost=landed.read.lost,
        late=sum(f.rows for f in rows if f.hour <= late),
        token=token,
        landed_at=now.strftime(STAMP),
        counts=_counts(landed.seen),
        rows=_held(landed.seen),
        rejected_elements=_summed(part.rejected_elements for part in landed.seen),
        empty=sum(part.empty for part in landed.seen),
        traffic=tuple(_traffic(counted, generation) for counted in landed.counted),
        long_numbers=any(part.long_numbers for part in landed.seen),
        fields=landed.fields,
        times=landed.times,
        rules=landed.rules,
        isolation=landed.isolation,
        erased=sum(part.erased for part in landed.seen),
        rows_erased=sum(part.rows_erased for part in landed.seen),
        erasures=landed.erasures,
        masked=landed.masked,
    )


def _by_type_and_hour(file: WrittenFile) -> tuple[bool, str, str, str]:
    return file.type is None, file.type or "", file.hour, file.key


def _summed(reasons: Iterable[Mapping[str, int]]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for counts in reasons:
        totals.update(counts)
    return dict(sorted(totals.items()))


def summed_times(seen: Sequence[SeenTimes]) -> tuple[int, ...]:
    """Adds up what the tasks saw of one unit."""
    return tuple(map(sum, zip(*(part.counts for part in seen), strict=True)))


def _counts(seen: Sequence[SeenOffsets]) -> tuple[PartitionCount, ...]:
    """Adds up by topic and partition what several tasks saw of one."""
    by_partition: dict[tuple[str, int], list[SeenOffsets]] = {}
    for part in seen:
        by_partition.setdefault((part.topic, part.partition), []).append(part)
    return tuple(
        PartitionCount(
            *topic_partition,
            read=sum(part.records for part in parts),
            rejected_records=sum(sum(part.rejected_records.values()) for part in parts),
            rows=_held(parts),
            rejected_elements=sum(sum(part.rejected_elements.values()) for part in parts),
            erased=sum(part.erased for part in parts),
            rows_erased=sum(part.rows_erased for part in parts),
            without_bytes=sum(part.without_bytes for part in parts),
        )
        for topic_partition, parts in sorted(by_partition.items())
    )


def _held(seen: Sequence[SeenOffsets]) -> int | None:
    """Returns None where a record is a row."""
    rows = [part.rows for part in seen if part.rows is not None]
    return sum(rows) if rows else None


def _traffic(counted: Counted, generation: int) -> Traffic:
    spec, file = counted.spec, counted.file
    sums = dict(sorted(file.rows_by_type.items())) if file else {}
    key = layout.counts_file(spec.table, file.slice_id, file.cluster, generation) if file else ""
    files = (LandedFile(key, file.key, COUNTS, "", file.rows, file.bytes, file.sha256),) if file else ()
    return Traffic(spec.table, dict(spec.by), tuple(spec.types), sums, files)


def _named(files: Sequence[WrittenFile], generation: int) -> tuple[LandedFile, ...]:
    return tuple(_landed(file, generation, number) for number, file in enumerate(files))


def _landed(file: WrittenFile, generation: int, number: int) -> LandedFile:
    name_parts = (file.slice_id, file.cluster, generation, number)
    folder = layout.event_folder(file.type, file.hour) if file.hour else ""
    key = layout.data_file(folder, *name_parts) if file.hour else layout.rejected_file(*name_parts)
    return LandedFile(
        key, file.key, file.type, file.hour, file.rows, file.bytes, file.sha256, dict(file.rows_by_type)
    )
