"""Which units are remade out of the lake, and whether all of their records came back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import pendulum

from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import CannotRemake, Conservation, Relanded, SluiceError
from sluice.flow.land.commit import Refusal, commit_remade
from sluice.flow.land.manifest_draft import Landed, draft
from sluice.flow.land.newly_rejected import NotReplaced, or_refusal
from sluice.flow.land.read import Accounted, Gaps
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.task.reports import SeenOffsets
from sluice.flow.land.task.task import LakeFile, Task
from sluice.manifest import Manifest, PartitionCount, Remade, TopicPartitionKey
from sluice.mask.mask_rules import joined
from sluice.slices import Unit
from sluice.state.manifests import read_manifests


def refusal(pipeline: Pipeline, manifest: Manifest) -> str | None:
    """Returns why the manifest alone says that the records cannot come back."""
    if manifest.forgotten_on:
        return f"it forgot its files on {manifest.forgotten_on}, as `keep` in the pipeline file says"
    if manifest.rejected_forgotten_on and manifest.rejected_elements:
        rows = sum(manifest.rejected_elements.values())
        return (
            f"it forgot the bytes of {rows:,} rejected elements of arrays on "
            f"{manifest.rejected_forgotten_on}, as `keep` in the pipeline file says, and without them an "
            f"array cannot be joined again"
        )
    if manifest.empty and not pipeline.event.arrays:
        return (
            f"{manifest.empty:,} of its messages were empty arrays, of which the lake has no row, and "
            "`rows: array` is no longer there"
        )
    if manifest.rows is not None and manifest.rows_erased and not pipeline.event.arrays:
        return (
            f"{manifest.rows_erased:,} elements of its arrays were erased, of which the lake has no bytes, "
            f"and `rows: array` is no longer there"
        )
    return None


def remade_reads(
    pipeline: Pipeline, old: Mapping[Unit, Manifest]
) -> tuple[dict[str, list[UnitRead]], list[CannotRemake]]:
    """Returns what is read of each unit, by cluster, and an error for each that the lake cannot give again.

    The ranges are those that its manifest has landed, whatever topics the pipeline file names now.
    """
    by_cluster: dict[str, list[UnitRead]] = {}
    refused: list[CannotRemake] = []
    for unit, manifest in old.items():
        why = refusal(pipeline, manifest)
        if why is not None:
            reland = pipeline.command("run", *unit.slice.words, "--mode", "reland")
            refused.append(CannotRemake(str(unit), why, reland))
            continue
        read = UnitRead(unit, manifest.ranges, manifest.ranges, manifest.lost)
        by_cluster.setdefault(unit.cluster, []).append(read)
    return by_cluster, refused


def account(unit: Unit, old: Manifest, seen: Sequence[SeenOffsets], arrays: bool = True) -> Accounted:
    """Compares the records that the files gave with those that the manifest counts, by partition.

    Of a message that was an empty array, or was erased, the lake has no row, and of an rejected record whose
    bytes it has forgotten neither: as many as the manifest counts are added. Raises Conservation.
    """
    records: Counter[TopicPartitionKey] = Counter()
    for part in seen:
        records[part.topic, part.partition] += part.records
    empty = tuple(_empty(unit, old, records)) if old.empty else ()
    for part in empty:
        records[part.topic, part.partition] += part.records
    if sum(part.records for part in empty) != old.empty:
        held = sum(part.records for part in seen)
        raise _uneven(unit, "that are no empty array", held, _in_files(old) - old.empty)
    _compare(unit, old, records)
    added = (*empty, *_erased(unit, old, arrays), *_forgotten(unit, old, arrays))
    return Accounted((*seen, *added), old.gaps)


def _in_files(old: Manifest) -> int:
    """Returns how many records the files hold, empty arrays included."""
    return old.read - old.erased - sum(old.forgotten_by_reason().values())


def _in_files_of(old: Manifest, count: PartitionCount) -> int:
    return count.read - count.erased - old.forgotten_in(count)


def _forgotten(unit: Unit, old: Manifest, arrays: bool) -> Iterator[SeenOffsets]:
    """Yields the records without bytes, in their partitions. The manifest counts them by partition and by
    reason, and not by both: they are dealt out in order, so that both sums hold."""
    left = Counter(old.forgotten_by_reason())
    places = [(count, gone) for count in old.counts if (gone := old.forgotten_in(count))]
    by_partition = sum(gone for _, gone in places)
    if by_partition != left.total():
        raise Conservation(
            f"slice {unit}: by its manifest the bytes of {left.total():,} records are forgotten, and by its "
            f"partitions of {by_partition:,}: nothing was committed; verify names what is wrong"
        )
    for count, gone in places:
        reasons = Counter(islice(left.elements(), gone))
        left -= reasons
        where = (unit.cluster, unit.slice.id, count.topic, count.partition)
        forgotten = SeenOffsets(*where, first=0, last=-1, records=gone, rows=0 if arrays else None)
        yield replace(forgotten, rejected_records=dict(reasons), without_bytes=gone)


def _erased(unit: Unit, old: Manifest, arrays: bool) -> Iterator[SeenOffsets]:
    rows = 0 if arrays else None
    for c in old.counts:
        if c.erased or c.rows_erased:
            where = (unit.cluster, unit.slice.id, c.topic, c.partition)
            erased = SeenOffsets(*where, first=0, last=-1, records=c.erased, rows=rows)
            yield replace(erased, erased=c.erased, rows_erased=c.rows_erased)


def _empty(unit: Unit, old: Manifest, records: Mapping[TopicPartitionKey, int]) -> Iterator[SeenOffsets]:
    left = old.empty
    for count in old.counts:
        held = _in_files_of(old, count)
        missing = min(held - records.get((count.topic, count.partition), 0), left)
        if missing > 0:
            left -= missing
            where = (unit.cluster, unit.slice.id, count.topic, count.partition)
            yield SeenOffsets(*where, first=0, last=-1, records=missing, rows=0, empty=missing)


def _compare(unit: Unit, old: Manifest, records: Mapping[TopicPartitionKey, int]) -> None:
    """Raises Conservation where the manifest counts others."""
    counted = {(c.topic, c.partition): _in_files_of(old, c) for c in old.counts}
    expected = {key: read for key, read in counted.items() if read}
    if expected != dict(records):
        key = next(key for key in sorted({*expected, *records}) if expected.get(key) != records.get(key))
        raise _uneven(unit, f"of {key[0]}/{key[1]}", records.get(key, 0), expected.get(key, 0))
    if sum(records.values()) != _in_files(old):
        raise _uneven(unit, "of all partitions", sum(records.values()), _in_files(old))


def _uneven(unit: Unit, which: str, held: int, counted: int) -> Conservation:
    return Conservation(
        f"slice {unit}: the lake's files hold {held:,} records {which}, and the manifest counts "
        f"{counted:,}: nothing was committed; verify names what is wrong with them"
    )


def remade_of(old: Manifest) -> Remade:
    return Remade(old.id, old.landed, old.refused_by_reason())


def landed_meanwhile(units: Sequence[str]) -> Relanded | None:
    """Returns the error of units that another run has landed again while they were remade."""
    if not units:
        return None
    more = f" and {len(units) - 1:,} more were" if len(units) > 1 else " was"
    return Relanded(
        f"slice {units[0]}{more} landed again while made again out of the lake: those files stand, and "
        "nothing of this attempt is left; run it again"
    )


# The lake's own files as the source of a landing's records: a unit is remade, and Kafka is not asked.
@dataclass(frozen=True)
class LakeSource:
    """`old`: the manifests that the units are made out of; each is replaced only as long as it stands,
    and unless there is a `refusal`."""

    pipeline: Pipeline
    lake: Lake
    old: Mapping[Unit, Manifest]
    token: str
    refusal: Refusal | None = None

    def reading(self, task: Task, run: ReadGroup) -> Task:
        units = [(read.unit, self.old[read.unit]) for read in run.units]
        files = (
            LakeFile.of(self.lake, u, file, old.masked, bool(old.rows_erased))
            for u, old in units
            for file in (*old.held_events, *old.held_rejected)
        )
        return replace(task, files=tuple(files), masked=tuple(old.masked for _, old in units))

    def account(
        self, reads: Sequence[UnitRead], gaps: Gaps, seen: Mapping[Unit, Sequence[SeenOffsets]]
    ) -> Mapping[Unit, Accounted]:
        """Raises Conservation where the files do not hold the records that the manifest counts."""
        arrays = self.pipeline.event.arrays
        return {r.unit: account(r.unit, self.old[r.unit], seen.get(r.unit, ()), arrays) for r in reads}

    def check(self, landed: Sequence[Landed]) -> None:
        """Forbids nothing. The commit itself checks that the old manifest still stands."""

    def answers(self, cluster: str) -> bool:
        return True

    def replaced(self, reads: Sequence[UnitRead]) -> SluiceError | None:
        """Returns the error where a manifest has been replaced: a `reland` removes the old one's files."""
        stand = read_manifests(self.lake, [read.unit for read in reads])
        return landed_meanwhile([str(r.unit) for r in reads if stand.get(r.unit) != self.old[r.unit]])

    def commit(self, landed: Sequence[Landed]) -> list[Manifest | NotReplaced]:
        now = pendulum.now("UTC")
        return each_if_slow(partial(self._commit, now), landed)

    def _commit(self, now: pendulum.DateTime, landed: Landed) -> Manifest | NotReplaced:
        old, grace = self.old[landed.read.unit], self.pipeline.success_grace

        def drafted(generation: int) -> Manifest:
            new = draft(self.pipeline.name, landed, grace, self.token, now, generation)
            # The records are the same, whatever isolation is now; of an empty array the lake has no time.
            masked = joined(new.masked, old.masked)
            gone = old.forgotten_records
            return replace(
                new,
                remade=remade_of(old),
                times=old.times,
                isolation=old.isolation,
                masked=masked,
                without_bytes=gone,
            )

        return or_refusal(lambda: commit_remade(self.lake, old, drafted, self.refusal))
