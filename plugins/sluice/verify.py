"""The equations that have to hold, and what is said when one is broken. Pure: `sluice.survey` looks.

records read = parsed + unparsed = offsets in range − holes − lost (per unit)
rows landed  = rows committed + misfits (per unit, type and table), in the ledger and in the tables
neighbouring slices of a partition share their boundary: no gap, no overlap, no backward move
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sluice.manifest import Manifest
from sluice.pipeline import Pipeline
from sluice.slices import Unit
from sluice.state import State
from sluice.status import UnitStatus


@dataclass(frozen=True)
class Finding:
    """A broken equation: where, what, and what to do about it."""

    place: str
    message: str
    repair: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}; {self.repair}"


@dataclass(frozen=True)
class Held:
    """What a table really holds of one unit: its rows, and the misfits in sluice.rejected."""

    rows: int
    misfits: int


def check(
    pipeline: Pipeline,
    found: Sequence[UnitStatus],
    held: Mapping[str, Mapping[Unit, Held]],
    sizes: Mapping[str, int | None],
    expiring: Collection[str] = (),
) -> list[Finding]:
    """Every broken equation of the range.

    `sizes` is each manifest's file in the lake, None if absent. Of the tables `expiring`, which have a TTL,
    fewer rows than were committed are no finding: they have expired at the target.
    """
    landed = [status for status in found if status.manifest is not None]
    findings = [f for status in found for f in _state(pipeline, status)]
    findings += [f for status in landed for f in (*_conservation(status), *_files(status, sizes))]
    findings += [f for status in landed for f in _tables(pipeline, status, held, expiring)]
    return findings + [f for cluster in pipeline.clusters for f in _neighbours(landed, cluster)]


def _state(pipeline: Pipeline, status: UnitStatus) -> Iterable[Finding]:
    """With `on_expired: land_rest` a recorded loss is accepted: `status` shows it, no equation breaks."""
    place = f"slice {status.unit}"
    if status.state is State.EXPIRED:
        lost = sum(loss.until - loss.start for loss in status.losses)
        repair = "`on_expired: land_rest` in the pipeline file lands what is left and records the loss"
        yield Finding(place, f"Kafka no longer has up to {lost:,} of its offsets", repair)
    elif status.state is State.COMPLETE_WITH_LOSS and pipeline.on_expired == "fail":
        for loss in status.manifest.lost if status.manifest else ():
            amount = f"{'' if loss.exact else 'at most '}{loss.until - loss.start:,} offsets"
            where = f"{place}, {loss.topic}/{loss.partition}"
            yield Finding(
                where,
                f"{amount} [{loss.start}, {loss.until}) expired in Kafka",
                "`on_expired: land_rest` accepts it",
            )
    elif not status.state.done and status.state is not State.NOT_OVER:
        repair = "`sluice run` or `sluice backfill` over it (mode fill) completes it"
        yield Finding(place, f"it is {status.state}", repair)


def _conservation(status: UnitStatus) -> Iterable[Finding]:
    manifest, place = status.manifest, f"slice {status.unit}"
    assert manifest is not None
    offsets = sum(r.offsets for r in manifest.ranges)
    lost = sum(
        _overlap(manifest, loss.topic, loss.partition, loss.start, loss.until) for loss in manifest.lost
    )
    rows = sum(manifest.rows_by_type().values())
    repair = "`--mode reland` over it reads Kafka again"
    if offsets - lost - manifest.holes != manifest.read:
        message = (
            f"{manifest.read:,} records read of {offsets:,} offsets, {manifest.holes:,} holes, {lost:,} lost"
        )
        yield Finding(place, message, repair)
    if rows != manifest.parsed:
        yield Finding(place, f"{manifest.parsed:,} records parsed but {rows:,} rows landed", repair)
    kept = sum(file.rows for file in manifest.rejected)
    if kept != sum(manifest.unparsed.values()):
        counted = sum(manifest.unparsed.values())
        yield Finding(place, f"{counted:,} records unparsed but {kept:,} kept in _rejected/", repair)
    if status.ranges is not None and not _within(manifest, status):
        yield Finding(place, "its manifest's offsets are not those of its boundaries", repair)


def _overlap(manifest: Manifest, topic: str, partition: int, start: int, until: int) -> int:
    return sum(
        max(0, min(r.until, until) - max(r.start, start))
        for r in manifest.ranges
        if (r.topic, r.partition) == (topic, partition)
    )


def _within(manifest: Manifest, status: UnitStatus) -> bool:
    """Whether each range of the manifest is today's between the stored boundaries."""
    return set(manifest.ranges) <= set(status.ranges or ())


def _files(status: UnitStatus, sizes: Mapping[str, int | None]) -> Iterable[Finding]:
    assert status.manifest is not None
    for file in (*status.manifest.files, *status.manifest.rejected):
        if sizes.get(file.key) != file.bytes:
            size = sizes.get(file.key)
            message = "is missing" if size is None else f"has {size:,} bytes, not {file.bytes:,}"
            repair = f"`--mode reland` over {status.unit.slice.id} writes it again"
            yield Finding(f"lake file {file.key}", message, repair)


def _tables(
    pipeline: Pipeline,
    status: UnitStatus,
    held: Mapping[str, Mapping[Unit, Held]],
    expiring: Collection[str],
) -> Iterable[Finding]:
    """Rows landed = committed + misfits, against the ledger's row and against the table itself."""
    if not status.state.done or status.manifest is None:
        return
    landed = status.manifest.rows_by_type()
    for target in pipeline.targets:
        place = f"table {target.table}, slice {status.unit}"
        expected = sum(landed[name] for name in pipeline.routed(target, landed))
        row = status.tables[target.table]
        there = held[target.table].get(status.unit, Held(0, 0))
        repair = f"`--mode reload` over {status.unit.slice.id} loads it again from the lake"
        if row.rows + row.misfits != expected:
            message = f"{expected:,} rows landed, the ledger has {row.rows:,} and {row.misfits:,} misfits"
            yield Finding(place, message, repair)
        if there.rows > row.rows or (there.rows < row.rows and target.table not in expiring):
            yield Finding(place, f"the ledger has {row.rows:,} rows, the table {there.rows:,}", repair)
        if there.misfits != row.misfits:
            message = f"the ledger has {row.misfits:,} misfits, sluice.rejected {there.misfits:,}"
            yield Finding(place, message, repair)


def _neighbours(landed: Sequence[UnitStatus], cluster: str) -> Iterable[Finding]:
    own = sorted((s for s in landed if s.unit.cluster == cluster), key=lambda s: s.unit)
    for before, after in pairwise(own):
        if before.unit.slice.end != after.unit.slice.start:
            continue
        assert before.manifest is not None and after.manifest is not None
        ends = {(r.topic, r.uuid, r.partition): r.until for r in before.manifest.ranges}
        for r in after.manifest.ranges:
            end = ends.get((r.topic, r.uuid, r.partition), r.start)
            if end != r.start:
                kind = "a gap" if end < r.start else "an overlap"
                place = f"{cluster}/{r.topic}/{r.partition}, {before.unit.slice.id} to {after.unit.slice.id}"
                message = f"{kind}: one ends at offset {end}, the next begins at {r.start}"
                yield Finding(place, message, "`--mode reland` over both reads them again")
