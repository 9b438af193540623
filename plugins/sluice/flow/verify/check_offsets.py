"""Neighbouring slices of a partition: no gap, no overlap, no backward move. Pure.

The three cases are those of eBay's Block Aggregator, whose verifier keeps the last block's begin and end
per partition (its "runtime verifier"); blocks are slices here, and a missing slice in between hides no
overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.landed_without import BARRED
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest, OffsetRange
from sluice.slices import Slice, Unit
from sluice.state.status import UnitStatus

_RESTORE = "the boundary log was changed: put `_boundaries/` back from a copy; manifests hold its offsets too"
Partition = tuple[str, str, int]


def check_neighbours(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for cluster in sorted({status.unit.cluster for status, _ in facts.landed}):
        last: dict[Partition, tuple[Slice, OffsetRange]] = {}
        landed = [(s, m) for s, m in facts.landed if s.unit.cluster == cluster]
        for status, manifest in sorted(landed, key=lambda pair: pair[0].unit):
            for r in manifest.ranges:
                before = last.get(_partition(r))
                if before is not None:
                    yield from _pair(repairs, cluster, before, (status.unit.slice, r))
                last[_partition(r)] = (status.unit.slice, r)


def _partition(r: OffsetRange) -> Partition:
    return r.topic, r.uuid, r.partition


def _pair(
    repairs: Repairs, cluster: str, before: tuple[Slice, OffsetRange], after: tuple[Slice, OffsetRange]
) -> Iterator[Anomaly]:
    (earlier, earlier_range), (later, later_range) = before, after
    kind = _kind(earlier_range, later_range, adjacent=earlier.end == later.start)
    if kind is None:
        return
    low, high = sorted((earlier_range.until, later_range.start))
    sides = "neither" if kind is AnomalyKind.GAP else "both"
    yield Anomaly(
        kind,
        expected=f"offset {earlier_range.until}, where {earlier.id} ends",
        seen=f"{later_range.start}: {high - low:,} offsets in {sides}",
        command=repairs.run([earlier, later], "reland"),
        slice=later.id,
        cluster=cluster,
        topic=later_range.topic,
        partition=later_range.partition,
        offsets=(low, high),
    )


def _kind(earlier: OffsetRange, later: OffsetRange, adjacent: bool) -> AnomalyKind | None:
    if later.start < earlier.start:
        return AnomalyKind.BACKWARD
    if later.start < earlier.until:
        return AnomalyKind.OVERLAP
    return AnomalyKind.GAP if adjacent and later.start > earlier.until else None


def check_boundaries(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """A manifest's offsets are those of its boundaries, and no slice ends before it begins."""
    for status in facts.statuses:
        for r in status.ranges or ():
            if r.until < r.start:
                anomaly = _of(
                    AnomalyKind.BACKWARD, status.unit, r, f"an end at or after {r.start}", str(r.until)
                )
                yield replace(anomaly, advice=_RESTORE)
    for status, manifest in facts.landed:
        # A topic that the pipeline file names now may not be resolved there.
        known = facts.boundaries.ranges(status.unit.slice, status.unit.cluster, manifest.topics)
        ranges = status.ranges if status.ranges is not None else known
        if ranges is not None:
            yield from _compare(status, ranges, manifest, repairs.reland(status.unit.slice))
        else:
            yield Anomaly(
                AnomalyKind.OFFSETS,
                "the boundaries that it landed by",
                "none",
                advice=_RESTORE,
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
            )


def check_lacking(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """The offsets of a topic that was named again, or anew, are in no slice that landed without it."""
    for status, _ in facts.landed:
        for lacking in status.lacking:
            if lacking.offsets is not None:
                yield Anomaly(
                    AnomalyKind.LACKING,
                    expected=f"its {lacking.offsets:,} offsets of the topic",
                    seen="none: it landed while the pipeline file did not name the topic",
                    command="" if lacking.barred else repairs.reland(status.unit.slice),
                    advice=BARRED.format(topic=lacking.barred) if lacking.barred else "",
                    slice=status.unit.slice.id,
                    cluster=status.unit.cluster,
                    topic=lacking.topic,
                )


def _compare(
    status: UnitStatus, ranges: tuple[OffsetRange, ...], manifest: Manifest, command: str
) -> Iterator[Anomaly]:
    """Compares the topics of the manifest."""
    stored: Mapping[Partition, OffsetRange] = {_partition(r): r for r in ranges if r.topic in manifest.topics}
    landed = {_partition(r): r for r in manifest.ranges}
    for partition in sorted({*stored, *landed}):
        mine, theirs = landed.get(partition), stored.get(partition)
        if mine == theirs or not any(r is not None and r.offsets for r in (mine, theirs)):
            continue
        if theirs is not None and theirs.until < theirs.start:
            continue
        either = mine or theirs
        assert either is not None  # noqa: S101 - narrows the type
        expected = f"[{theirs.start}, {theirs.until})" if theirs else "none, by its boundaries"
        seen = (
            f"[{mine.start}, {mine.until}) in its manifest" if mine else "no such partition in its manifest"
        )
        yield replace(_of(AnomalyKind.OFFSETS, status.unit, either, expected, seen), command=command)


def _of(kind: AnomalyKind, unit: Unit, r: OffsetRange, expected: str, seen: str) -> Anomaly:
    return Anomaly(
        kind,
        expected,
        seen,
        slice=unit.slice.id,
        cluster=unit.cluster,
        topic=r.topic,
        partition=r.partition,
        offsets=(min(r.start, r.until), max(r.start, r.until)),
    )
