"""The lake's files against the manifests. Pure.

A file's name has its slice, cluster and generation. Files of a generation that a `reland` has replaced are
dead: verify removes them (`dead`), for a slow copy may bring one back. All others that no manifest lists are
anomalies, and are removed only when a person asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from sluice.clients.lake.layout import FileName, parse_name
from sluice.errors import WrongUse
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.notes import BARRED
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Manifest, OffsetRange, PartitionCount
from sluice.safe_text import visible
from sluice.slices import Slice, Unit
from sluice.state.status import UnitStatus


def check_files(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for status, manifest in facts.landed:
        for file in manifest.held_files:
            yield from _listed(facts, repairs, status, file)
    for key in sorted(_unnamed(facts).difference(dead(facts))):
        yield from _unlisted(facts, repairs, key)
    for key in facts.lake.attempts:
        advice = "its attempt died a week ago or more, and no manifest names it"
        yield Anomaly(AnomalyKind.ATTEMPT, "no file", "a file", repairs.clean(), advice, file=key)


def dead(facts: VerifyFacts) -> list[str]:
    """Returns files of superseded generations, which a newer manifest has replaced, and those that the lake
    has forgotten: a slow copy may have brought one back."""
    keys = []
    for key in _unnamed(facts):
        name = parse_name(key)
        manifest = _manifest(facts, name) if name else None
        if name and manifest and (name.generation < manifest.generation or key in _removed(manifest)):
            keys.append(key)
    return sorted(keys)


def _removed(manifest: Manifest) -> set[str]:
    """Returns the files that are gone for good. As long as `sluice forget` is not done they may have to
    stay."""
    done = manifest.forgotten is not None and manifest.forgotten.removed
    return {file.key for file in manifest.forgotten_files} if done else set()


def _unnamed(facts: VerifyFacts) -> set[str]:
    """Returns the files that no manifest lists."""
    named_or_landed = (*facts.lake.named.values(), *(manifest for _, manifest in facts.landed))
    manifests = [manifest for manifest in named_or_landed if manifest is not None]
    listed = {f.key for m in manifests for f in m.all_files}
    return facts.lake.sizes.keys() - listed.difference(*map(_removed, manifests))


def _listed(facts: VerifyFacts, repairs: Repairs, status: UnitStatus, file: LandedFile) -> Iterator[Anomaly]:
    size, sha = facts.lake.sizes.get(file.key), facts.lake.checksums.get(file.key)
    if size == file.bytes and sha in (None, file.sha256):
        return
    anomaly = partial(
        Anomaly,
        slice=status.unit.slice.id,
        cluster=status.unit.cluster,
        type=file.type or "",
        file=file.key,
    )
    command = repairs.reland(status.unit.slice)
    expected = f"{file.bytes:,} bytes"
    if size is None and file.key in facts.lake.unmoved and not status.state.done:
        fill = repairs.fill(status.unit.slice)
        yield anomaly(AnomalyKind.FILE_NOT_MOVED, expected, f"it is still at {file.attempt_key}", fill)
    elif size is None:
        yield anomaly(AnomalyKind.FILE_MISSING, expected, "no file", command)
    elif size != file.bytes:
        yield anomaly(AnomalyKind.FILE_SIZE, expected, f"{size:,} bytes", command)
    else:
        yield anomaly(AnomalyKind.FILE_CHECKSUM, f"SHA-256 {file.sha256}", sha or "", command)


def _unlisted(facts: VerifyFacts, repairs: Repairs, key: str) -> Iterator[Anomaly]:
    size = f"{facts.lake.sizes[key]:,} bytes"
    name = parse_name(key)
    slice_ = None if name is None else _slice(name, facts)
    if name is None or slice_ is None:
        advice = "Sluice did not write it, and does not delete it: move it out of the lake's folder"
        yield Anomaly(AnomalyKind.FILE_UNKNOWN, "no file", size, advice=advice, file=key)
        return
    anomaly = partial(Anomaly, slice=name.slice, cluster=name.cluster, file=key)
    if any(unit.slice.id == name.slice and unit.cluster == name.cluster for unit in facts.unreadable):
        return  # its manifest may well list it
    if (manifest := _manifest(facts, name)) is not None:
        if manifest.lost:
            # It landed without offsets that Kafka no longer had: an earlier landing's file may have them.
            advice = (
                "its hour landed with a loss, and the file may hold what was lost: look before you delete it"
            )
            yield anomaly(AnomalyKind.FILE_UNKNOWN, "no file", size, advice=advice)
        else:
            yield anomaly(AnomalyKind.FILE_UNKNOWN, "no file", size, repairs.clean(slice_))
        return
    # Its manifest is gone, and Kafka's records may be too: then this is the only copy.
    advice = f"when the hour has landed again, `{repairs.clean(slice_)}` removes what is left"
    command = repairs.fill(slice_) if name.cluster in facts.pipeline.clusters else ""
    yield anomaly(AnomalyKind.FILE_UNKNOWN, "a manifest that lists it", "none", command, advice)


def _manifest(facts: VerifyFacts, name: FileName) -> Manifest | None:
    return facts.lake.named.get((name.slice, name.cluster))


def _slice(name: FileName, facts: VerifyFacts) -> Slice | None:
    try:
        return Slice.from_id(name.slice, facts.pipeline.slice)
    except WrongUse:
        return None


# In one manifest: records read = parsed + rejected + erased = offsets − gaps − lost; where a record may
# hold several rows: rows of the parsed records = rows landed + rows rejected. Rejected records = those in
# `_rejected/` + those whose bytes the lake forgot before the unit was remade. Pure.
def check_conservation(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for status, manifest in facts.landed:
        anomaly = partial(
            Anomaly,
            slice=status.unit.slice.id,
            cluster=status.unit.cluster,
            command=repairs.reland(status.unit.slice),
        )
        for kind, expected, seen in _sums(manifest):
            yield anomaly(kind, expected, seen)
        for r, expected, seen in _partitions(manifest):
            yield anomaly(
                AnomalyKind.READ,
                expected,
                seen,
                topic=r.topic,
                partition=r.partition,
                offsets=(r.start, r.until),
            )


def _sums(manifest: Manifest) -> Iterator[tuple[AnomalyKind, str, str]]:
    offsets = sum(r.offsets for r in manifest.ranges)
    lost = sum(lost_of(manifest, r) for r in manifest.ranges)
    if offsets - lost - manifest.gaps != manifest.read:
        expected = f"{offsets - lost - manifest.gaps:,} records of {offsets:,} offsets"
        yield AnomalyKind.READ, expected, f"{manifest.read:,} read, {manifest.gaps:,} gaps, {lost:,} lost"
    by_partition = sum(count.read for count in manifest.counts)
    if by_partition != manifest.read:
        yield AnomalyKind.READ, f"{by_partition:,} records, by partition", f"{manifest.read:,} read"
    erased = sum(count.erased for count in manifest.counts)
    if erased != manifest.erased:
        yield AnomalyKind.READ, f"{erased:,} erased, by partition", f"{manifest.erased:,} erased"
    yield from _forgotten(manifest)
    rows = sum(manifest.rows_by_type().values())
    if rows != manifest.landed:
        yield AnomalyKind.LANDED, _landed(manifest), f"{rows:,} in its files"
    rejected = sum(file.rows for file in manifest.rejected)
    if rejected != manifest.kept:
        yield AnomalyKind.REJECTED_RECORDS, f"{manifest.kept:,} in _rejected/", f"{rejected:,}"
    if manifest.rows is not None:
        yield from _rows(manifest, manifest.rows)


def _forgotten(manifest: Manifest) -> Iterator[tuple[AnomalyKind, str, str]]:
    """Checks records without bytes: each is one of the rejected of its reason, and of a partition."""
    without_bytes: Counter[str] = Counter()
    for records in manifest.without_bytes:
        without_bytes.update(records.rejected_records)
    for reason, count in sorted(without_bytes.items()):
        if not 0 <= count <= manifest.rejected_records.get(reason, 0):
            expected = (
                f"at most {manifest.rejected_records.get(reason, 0):,} without bytes, {visible(reason)}"
            )
            yield AnomalyKind.REJECTED_RECORDS, expected, f"{count:,}"
    by_partition = sum(count.without_bytes for count in manifest.counts)
    total = without_bytes.total()
    if by_partition != total:
        yield AnomalyKind.REJECTED_RECORDS, f"{by_partition:,} without bytes, by partition", f"{total:,}"


def _landed(manifest: Manifest) -> str:
    if manifest.rows is None:
        return f"{manifest.parsed:,} rows of as many records parsed"
    return f"{manifest.landed:,} rows of the {manifest.rows:,} in {manifest.parsed:,} records parsed"


def _rows(manifest: Manifest, rows: int) -> Iterator[tuple[AnomalyKind, str, str]]:
    """Checks that each record that is parsed and not empty has a row at least."""
    by_partition = sum(count.rows or 0 for count in manifest.counts)
    if by_partition != rows:
        yield AnomalyKind.LANDED, f"{by_partition:,} rows, by partition", f"{rows:,}"
    if rows < manifest.parsed - manifest.empty:
        expected = f"at least {manifest.parsed - manifest.empty:,} rows of as many records that are not empty"
        yield AnomalyKind.LANDED, expected, f"{rows:,}"


def _partitions(manifest: Manifest) -> Iterator[tuple[OffsetRange, str, str]]:
    counts = {(c.topic, c.partition): c for c in manifest.counts}
    for r in manifest.ranges:
        count, most = counts.get((r.topic, r.partition)), r.offsets - lost_of(manifest, r)
        if count is not None and not _fits(count, most):
            gone = f", {count.erased:,} erased" if count.erased else ""
            yield (
                r,
                f"at most {most:,} records",
                f"{count.read:,} read, {count.rejected_records:,} rejected{gone}",
            )


def _fits(count: PartitionCount, most: int) -> bool:
    if not 0 <= count.without_bytes <= count.rejected_records or count.erased < 0:
        return False
    return count.rejected_records + count.erased <= count.read <= most


def lost_of(manifest: Manifest, r: OffsetRange) -> int:
    """Counts offsets of the range that had expired, by the manifest."""
    return sum(
        max(0, min(r.until, loss.until) - max(r.start, loss.start))
        for loss in manifest.lost
        if (loss.topic, loss.partition) == (r.topic, r.partition)
    )


# Neighbouring slices of a partition: no gap, no overlap, no backward move. Pure.
#
# The three cases are those of eBay's Block Aggregator, whose verifier keeps the last block's begin and end
# per partition (its "runtime verifier"); blocks are slices here, and a missing slice in between hides no
# overlap.
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
    found: dict[Unit, list[Anomaly]] = {}
    for status, manifest in facts.landed:
        # A topic that the pipeline file names now may not be resolved there.
        known = facts.boundaries.ranges(status.unit.slice, status.unit.cluster, manifest.topics)
        ranges = status.ranges if status.ranges is not None else known
        if ranges is not None:
            found[status.unit] = list(_compare(status, ranges, manifest))
        else:
            yield Anomaly(
                AnomalyKind.OFFSETS,
                "the boundaries that it landed by",
                "none",
                advice=_RESTORE,
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
            )
    yield from _landed_together(found, repairs)


def _landed_together(found: Mapping[Unit, Sequence[Anomaly]], repairs: Repairs) -> Iterator[Anomaly]:
    """Names one `reland` for hours in a row that were cut elsewhere: what one lacks by its boundaries is in
    the next, and would be nowhere until that has landed again, too."""
    runs: list[list[Unit]] = []
    for unit in sorted(
        (unit for unit, anomalies in found.items() if anomalies), key=lambda u: (u.cluster, u)
    ):
        last = runs[-1][-1] if runs else None
        if last is not None and (last.cluster, last.slice.end) == (unit.cluster, unit.slice.start):
            runs[-1].append(unit)
        else:
            runs.append([unit])
    for run in runs:
        command = repairs.run([unit.slice for unit in run], "reland")
        yield from (replace(anomaly, command=command) for unit in run for anomaly in found[unit])


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


def _compare(status: UnitStatus, ranges: tuple[OffsetRange, ...], manifest: Manifest) -> Iterator[Anomaly]:
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
        yield _of(AnomalyKind.OFFSETS, status.unit, either, expected, seen)


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
