"""The landing's commit point: a unit's manifest, created if absent or replaced by compare-and-set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Item, Lake
from sluice.clients.lake.open import delete_own
from sluice.config.counts import COUNTS
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.errors import Relanded, SluiceError
from sluice.flow.land.conservation import Counted
from sluice.flow.land.read_plan import UnitRead
from sluice.flow.land.task.reports import SeenOffsets, SeenTimes, WrittenFile
from sluice.manifest import (
    STAMP,
    Isolation,
    LandedFile,
    Manifest,
    Masked,
    PartitionCount,
    Traffic,
    TypeFields,
    decode,
    encode,
)
from sluice.metrics import meter
from sluice.slices import Slice, last_late
from sluice.state.file_moves import move
from sluice.state.manifests import attempts_of, is_old, read_manifests, units_in

# Drafts a unit's manifest out of what the tasks reported.


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


def draft_manifest(
    pipeline: str, landed: Landed, grace: timedelta, token: str, now: datetime, generation: int
) -> Manifest:
    """Drafts the manifest. Final names count the files in their order by type, hour and attempt key."""
    unit = landed.read.unit
    rows = sorted((f for f in landed.files if f.hour), key=_by_type_and_hour)
    rejected = sorted((f for f in landed.files if not f.hour), key=lambda f: f.key)
    late = last_late(unit.slice, grace)
    generation = max(generation, landed.read.generation + 1)
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
        amends=landed.read.amends,
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


Draft = Callable[[int], Manifest]
"""A function from the generation to the manifest: the generation is part of the files' names."""
Refusal = Callable[[Manifest, Manifest], SluiceError | None]
"""A function from the manifest that stands and the one in its place to why it must not be replaced."""


def commit(lake: Lake, draft: Draft) -> Manifest:
    """Returns the manifest that stands for the unit afterwards: this one, or the one of whoever came
    first."""
    manifest = draft(1)
    key = layout.manifest(manifest.slice, manifest.cluster)
    if lake.create(key, encode(manifest)):
        crash_points.reached(Land.COMMITTED)
        return manifest
    stored = lake.read(key)
    return commit(lake, draft) if stored is None else decode(stored.data, f"{lake.url}/{key}")


def commit_each(lake: Lake, drafts: Sequence[Draft]) -> Iterator[Manifest]:
    """Commits many units, one after the other."""
    manifests = [draft(1) for draft in drafts]
    objects = ((layout.manifest(m.slice, m.cluster), encode(m)) for m in manifests)
    for draft, manifest, won in zip(drafts, manifests, lake.create_each(objects), strict=True):
        if won:
            crash_points.reached(Land.COMMITTED)
        yield manifest if won else commit(lake, draft)


def commit_again(lake: Lake, draft: Draft, refusal: Refusal | None = None) -> Manifest:
    """Commits as `commit` does, replacing what is there, unless it carries the draft's own token.

    The old manifest's move is finished first: a mover that wakes up late then finds nothing to do. The
    copy of it names the files that the new one's move removes. A manifest of this draft that won, but whose
    answer was lost until another `reland` had replaced it, is not written again: its files are gone.
    What landed by the rules of the old one amends it: tables keep theirs. Raises what `refusal` says, and
    Relanded where the old one has other rules: somebody has applied them meanwhile.
    """
    while True:
        old = commit(lake, draft)
        if old.token == draft(1).token or _won_before(lake, draft(1)):
            return old
        new = _replaced(lake, old, partial(_amending, old, draft), refusal)
        if new is not None:
            return new


def _amending(old: Manifest, draft: Draft, generation: int) -> Manifest:
    new = draft(generation)
    if new.rules != old.rules:
        raise Relanded(
            f"slice {old.slice}/{old.cluster} was landed by other rules while Kafka was read: those files "
            "stand, and nothing of this attempt is left; run it again"
        )
    return replace(new, amends=(old.id, *old.amends))


def commit_remade(lake: Lake, old: Manifest, draft: Draft, refusal: Refusal | None = None) -> Manifest:
    """Commits in place of `old`, out of whose files the draft was made, and only as long as that stands.

    Returns the manifest that stands afterwards: one that has replaced `old` meanwhile may hold records that
    `old` did not have. Raises what `refusal` says.
    """
    new = _replaced(lake, old, draft, refusal)
    if new is not None:
        return new
    key = layout.manifest(old.slice, old.cluster)
    stored = lake.read(key)
    return old if stored is None else decode(stored.data, f"{lake.url}/{key}")


def _replaced(lake: Lake, old: Manifest, draft: Draft, refusal: Refusal | None) -> Manifest | None:
    """Writes the next generation if `old` still stands, after its move is finished; else returns None."""
    move(lake, [old], replaced=True)
    crash_points.reached(Land.OLD_MOVED)
    new = draft(old.generation + 1)
    # Whoever replaces `old` meanwhile takes away the files that are compared: it counts only if `old` stands.
    error = refusal(old, new) if refusal is not None else None
    key = layout.manifest(new.slice, new.cluster)
    stored = lake.read(key)
    if stored is None or decode(stored.data, f"{lake.url}/{key}") != old:
        return None
    if error is not None:
        raise error
    lake.put(layout.superseded_manifest(old.slice, old.cluster, old.generation), stored.data)
    crash_points.reached(Land.OLD_COPIED)
    if not lake.replace(key, encode(new), stored.version):
        return None
    crash_points.reached(Land.COMMITTED)
    return new


def _won_before(lake: Lake, draft: Manifest) -> bool:
    """Returns whether the draft was the slice's manifest: only then are files moved out of its attempt."""
    files = draft.all_files
    return bool(files) and lake.size(files[0].attempt_key) is None


# Removes what attempts left behind: a run's own at its end, others' when nothing was written for a week.


def sweep(pipeline: Pipeline, lake: Lake, attempt_ids: Collection[str], now: datetime) -> None:
    """Removes attempts. `attempt_ids`: those whose units are landed and moved; what is left of them is
    waste."""
    discard(lake, attempt_ids)
    attempts = attempts_of(lake.list(layout.ATTEMPTS))
    old = {
        name: items for name, items in attempts.items() if name[1] not in attempt_ids and is_old(items, now)
    }
    slices = {slice_id: Slice.of_folder(slice_id, pipeline.slice) for slice_id, _ in old}
    named = _named_files(lake, [slice_ for slice_ in slices.values() if slice_])
    waste = [items for name, items in old.items() if slices[name[0]] and name not in named]
    _delete(lake, [item for items in waste for item in items])


def discard(lake: Lake, attempt_ids: Collection[str]) -> None:
    """Removes everything of attempts that have committed nothing, or whose files are moved."""
    attempts = attempts_of(lake.list(layout.ATTEMPTS))
    _delete(
        lake, [item for (_, attempt), items in attempts.items() if attempt in attempt_ids for item in items]
    )
    crash_points.reached(Land.SWEPT)


def _named_files(lake: Lake, slices: Collection[Slice]) -> set[tuple[str, str]]:
    manifests = read_manifests(lake, units_in(lake, slices))
    return {(unit.slice.id, manifest.attempt) for unit, manifest in manifests.items()}


def _delete(lake: Lake, items: Sequence[Item]) -> None:
    items = [item for item in items if layout.is_own(item.key)]
    delete_own(lake, [item.key for item in items])
    if items:
        meter.add("bytes_discarded", sum(item.size for item in items))
