"""Which units are remade out of the lake, and whether all of their records came back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from itertools import islice
from typing import cast

import pendulum
import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Begun, Lake
from sluice.clients.lake.temporary import DiscardingLake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import CannotRemake, Conservation, MessagesGone, Refused, Relanded, SluiceError
from sluice.flow.land.commit import Landed, Refusal, commit_remade, draft_manifest
from sluice.flow.land.newly_rejected import (
    NewlyRejected,
    NotReplaced,
    Record,
    newly_rejected,
    or_refusal,
    rejected_of,
)
from sluice.flow.land.read import Accounted, Gaps
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.task import read_lake as lake_read
from sluice.flow.land.task.decode import decoding_of
from sluice.flow.land.task.reports import SeenOffsets, TaskReport
from sluice.flow.land.task.task import LakeFile, Task
from sluice.manifest import Manifest, PartitionCount, Remade, TopicPartitionKey
from sluice.mask.mask_rules import joined, keyless, mask_rules, said_by
from sluice.plan.dry_run import masked_so
from sluice.safe_text import line
from sluice.slices import Unit
from sluice.state.erasures import ErasureList, read_erasures
from sluice.state.manifests import read_manifests
from sluice.state.rules import LandingRules, RulesReader, rule_of_outcome


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
            "`event.rows` is no longer there"
        )
    if manifest.rows is not None and manifest.rows_erased and not pipeline.event.arrays:
        return (
            f"{manifest.rows_erased:,} elements of its arrays were erased, of which the lake has no bytes, "
            f"and `event.rows` is no longer there"
        )
    return None


def remade_reads(
    pipeline: Pipeline, lake: Lake, old: Mapping[Unit, Manifest]
) -> tuple[dict[str, list[UnitRead]], list[Refused]]:
    """Returns what is read of each unit, by cluster, and an error for each that the lake cannot give again.

    The ranges are those that its manifest has landed, whatever topics the pipeline file names now.
    """
    by_cluster: dict[str, list[UnitRead]] = {}
    refused: list[Refused] = []
    now, rules = LandingRules.of(pipeline, None), RulesReader(lake)
    for unit, manifest in old.items():
        if rule := rule_of_outcome(manifest, now, rules):
            gone = f"it landed by another `event.{rule}`, and the lake has what its messages became, not them"
            refused.append(MessagesGone(str(unit), gone))
            continue
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
    return Remade(old.id, old.landed, old.unlanded_by_reason())


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
            new = draft_manifest(self.pipeline.name, landed, grace, self.token, now, generation)
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


# What a `remake` would change of a unit, before it does: the landing's tasks, with files thrown away.

SAMPLED = 3
"""Units that a plan tries, unless it is asked for all."""
_MOST_SHOWN = 5
_ERASED = "erased"

Outcome = tuple[str, str]
"""A type and an event hour, or a reason and nothing."""


@dataclass(frozen=True)
class UnitChange:
    """Rows by outcome, `before` and `after`; or `why` the unit cannot be remade. `forgotten`: rejected
    records that stay, because the lake has forgotten their bytes. `lost`: rows that would be rejected, record
    by record. `masked`: it landed with today's mask."""

    unit: Unit
    before: Mapping[Outcome, int]
    after: Mapping[Outcome, int]
    why: str = ""
    forgotten: int = 0
    lost: NewlyRejected | None = None
    masked: bool = True

    def __str__(self) -> str:
        if self.why:
            return self.why
        if self.lost is not None and self.lost.rows:
            reasons = ", ".join(
                f"{line(reason, 200)} {rows:,}" for reason, rows in self.lost.reasons.most_common(3)
            )
            out = f"; {self.lost.rows:,} rows that are there would be rejected ({reasons}): it needs --yes"
            return f"{self._changes()}{out}"
        stay = f"; {self.forgotten:,} rejected ones stay: the lake forgot their bytes"
        return f"{self._changes()}{stay if self.forgotten else ''}"

    def _changes(self) -> str:
        changed = [o for o in {*self.before, *self.after} if self.before.get(o, 0) != self.after.get(o, 0)]
        if not changed:
            counts = f"{self.unit}: no row would come or go"
            return counts if self.masked else f"{counts}, and its rows would be masked as the file says now"
        changed.sort(key=lambda o: (-abs(self.after.get(o, 0) - self.before.get(o, 0)), o))
        rows = [sum(n for (_, hour), n in some.items() if hour) for some in (self.before, self.after)]
        shown = [self._one(outcome) for outcome in changed[:_MOST_SHOWN]]
        more = [f"{len(changed) - _MOST_SHOWN:,} more"] if len(changed) > _MOST_SHOWN else []
        return f"{self.unit}: {rows[0]:,} rows would be {rows[1]:,}: {'; '.join([*shown, *more])}"

    def _one(self, outcome: Outcome) -> str:
        name = line(" ".join(filter(None, outcome)), 200)
        return f"{name} {self.before.get(outcome, 0):,} → {self.after.get(outcome, 0):,}"


def sampled(old: Mapping[Unit, Manifest], most: int = SAMPLED) -> list[Unit]:
    """Returns those with most rejected records, of units that are one task's."""
    small = [unit for unit, manifest in old.items() if manifest.read <= lake_read.TOGETHER]
    return sorted(sorted(small, key=lambda unit: -sum(old[unit].held_by_reason().values()))[:most])


def forecast(pipeline: Pipeline, lake: Lake, old: Mapping[Unit, Manifest]) -> Iterator[UnitChange]:
    """Yields what would change of each of the units. Each is read whole, in this process."""
    erasures, mask = read_erasures(lake), said_by(pipeline)
    for unit, manifest in old.items():
        before = outcomes(manifest)
        mark = lake.read(layout.slice_success(manifest.slice, manifest.cluster))
        if mark is None or mark.data != manifest.id.encode():
            yield UnitChange(
                unit, before, {}, f"{unit}: its files are still moved: the next run finishes that"
            )
            continue
        try:
            seen = _SeesRejected(lake)
            after = _after(pipeline, lake, seen, unit, manifest, erasures.over([unit.slice]))
            gone = sum(manifest.forgotten_by_reason().values())
            yield UnitChange(
                unit,
                before,
                after,
                forgotten=gone,
                lost=newly_rejected(lake, manifest, seen.rejected),
                masked=masked_so(manifest, mask),
            )
        except SluiceError as error:
            if error.retryable:
                raise
            yield UnitChange(unit, before, {}, str(error))


class _SeesRejected(DiscardingLake):
    """Keeps which records were rejected of all that is thrown away."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake)
        self.rejected: list[tuple[Record, str]] = []

    def put(self, key: str, data: bytes) -> None:
        self._see(pq.ParquetFile(BytesIO(data)))

    def finish(self, key: str, begun: Begun) -> None:
        with pq.ParquetFile(begun.path) as parquet:
            self._see(parquet)
        super().finish(key, begun)

    def _see(self, parquet: pq.ParquetFile) -> None:
        if "_reason" in parquet.schema_arrow.names:
            self.rejected += rejected_of(parquet)


def outcomes(manifest: Manifest) -> dict[Outcome, int]:
    rows: Counter[Outcome] = Counter()
    for file in manifest.files:
        rows.update({(kind, file.hour): count for kind, count in file.types().items()})
    rows.update({(reason, ""): count for reason, count in manifest.unlanded_by_reason().items()})
    rows[_ERASED, ""] += manifest.erased_rows
    return dict(+rows)


def _after(
    pipeline: Pipeline,
    lake: Lake,
    seen: DiscardingLake,
    unit: Unit,
    manifest: Manifest,
    erasures: ErasureList,
) -> dict[Outcome, int]:
    reads, refused = remade_reads(pipeline, lake, {unit: manifest})
    if refused:
        raise refused[0]
    run = ReadGroup(unit.cluster, tuple(reads[unit.cluster]))
    decoding = decoding_of(pipeline.event)
    has_all = cast(Lake, seen)  # that tasks use of a lake
    fileless = Task(
        pipeline=keyless(pipeline),
        lake=has_all,
        cluster=unit.cluster,
        attempt="plan",
        slices=(unit.slice,),
        edges=run.edges(),
        decoding=decoding,
        erasures=erasures,
        mask=mask_rules(pipeline),
    )
    task = LakeSource(pipeline, has_all, {unit: manifest}, "").reading(fileless, run)
    report = task.land(lake_read.batches(task), "plan") if manifest.read else TaskReport()
    account(unit, manifest, report.seen)
    stay = Counter({(reason, ""): count for reason, count in manifest.forgotten_by_reason().items()})
    stay[_ERASED, ""] += manifest.erased_rows
    return dict(Counter(_outcomes_of(report)) + stay)


def _outcomes_of(report: TaskReport) -> dict[Outcome, int]:
    rows: Counter[Outcome] = Counter()
    for file in (file for file in report.files if file.hour):
        kinds = file.rows_by_type if file.type is None else {file.type: file.rows}
        rows.update({(kind, file.hour): count for kind, count in kinds.items()})
    for part in report.seen:
        reasons = Counter(part.rejected_records) + Counter(part.rejected_elements)
        rows.update({(reason, ""): count for reason, count in reasons.items()})
        rows[_ERASED, ""] += part.erased if part.rows is None else part.rows_erased
    return dict(+rows)
