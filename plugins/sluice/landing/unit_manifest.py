"""Drafts a unit's manifest out of what the tasks reported. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.lake import layout
from sluice.landing.event_hours import is_late
from sluice.landing.reads import UnitRead
from sluice.landing.reports import Seen, WrittenFile
from sluice.manifest import LandedFile, Manifest, PartitionCount


@dataclass(frozen=True)
class Landed:
    """A unit whose files are in the attempt and whose counts have been checked."""

    read: UnitRead
    attempt: str
    files: tuple[WrittenFile, ...]
    seen: tuple[Seen, ...]
    holes: int


def draft(
    pipeline: str, landed: Landed, grace: timedelta, token: str, now: datetime, generation: int
) -> Manifest:
    """Final names count the files in their order by type, hour and attempt key."""
    unit = landed.read.unit
    rows = sorted(
        (f for f in landed.files if f.hour), key=lambda f: (f.type is None, f.type or "", f.hour, f.key)
    )
    rejected = sorted((f for f in landed.files if not f.hour), key=lambda f: f.key)
    unparsed: Counter[str] = Counter()
    for part in landed.seen:
        unparsed.update(part.unparsed)
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
        unparsed=dict(sorted(unparsed.items())),
        holes=landed.holes,
        lost=landed.read.lost,
        late=sum(f.rows for f in rows if is_late(f.hour, unit.slice, grace)),
        token=token,
        landed_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        counts=_counts(landed.seen),
    )


def _counts(seen: Sequence[Seen]) -> tuple[PartitionCount, ...]:
    """By topic and partition, over the tasks that shared one."""
    read: Counter[tuple[str, int]] = Counter()
    unparsed: Counter[tuple[str, int]] = Counter()
    for part in seen:
        read[part.topic, part.partition] += part.records
        unparsed[part.topic, part.partition] += sum(part.unparsed.values())
    return tuple(PartitionCount(*place, read[place], unparsed[place]) for place in sorted(read))


def _named(files: Sequence[WrittenFile], generation: int) -> tuple[LandedFile, ...]:
    return tuple(_landed(file, generation, number) for number, file in enumerate(files))


def _landed(file: WrittenFile, generation: int, number: int) -> LandedFile:
    place = (file.slice_id, file.cluster, generation, number)
    folder = layout.event_folder(file.type, file.hour) if file.hour else ""
    key = layout.data_file(folder, *place) if file.hour else layout.rejected_file(*place)
    return LandedFile(
        key, file.key, file.type, file.hour, file.rows, file.bytes, file.sha256, dict(file.rows_by_type)
    )
