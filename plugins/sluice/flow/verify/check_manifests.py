"""In one manifest: records read = parsed + unparsed + erased = offsets − holes − lost; where a record may
hold several rows: rows of the parsed records = rows landed + rows unparsed. Unparsed records = those in
`_rejected/` + those whose bytes the lake forgot before the unit was remade. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest, OffsetRange, PartitionCount
from sluice.safe_text import visible


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
    if offsets - lost - manifest.holes != manifest.read:
        expected = f"{offsets - lost - manifest.holes:,} records of {offsets:,} offsets"
        yield AnomalyKind.READ, expected, f"{manifest.read:,} read, {manifest.holes:,} holes, {lost:,} lost"
    if manifest.counts:
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
        yield AnomalyKind.UNPARSED, f"{manifest.kept:,} in _rejected/", f"{rejected:,}"
    if manifest.rows is not None:
        yield from _rows(manifest, manifest.rows)


def _forgotten(manifest: Manifest) -> Iterator[tuple[AnomalyKind, str, str]]:
    """Checks records without bytes: each is one of the unparsed of its reason, and of a partition."""
    without_bytes: Counter[str] = Counter()
    for records in manifest.without_bytes:
        without_bytes.update(records.unparsed)
    for reason, count in sorted(without_bytes.items()):
        if not 0 <= count <= manifest.unparsed.get(reason, 0):
            expected = f"at most {manifest.unparsed.get(reason, 0):,} without bytes, {visible(reason)}"
            yield AnomalyKind.UNPARSED, expected, f"{count:,}"
    by_partition = sum(count.without_bytes for count in manifest.counts)
    total = without_bytes.total()
    if by_partition != total:
        yield AnomalyKind.UNPARSED, f"{by_partition:,} without bytes, by partition", f"{total:,}"


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
    """Manifests of earlier versions do not count by partition."""
    counts = {(c.topic, c.partition): c for c in manifest.counts}
    for r in manifest.ranges:
        count, most = counts.get((r.topic, r.partition)), r.offsets - lost_of(manifest, r)
        if count is not None and not _fits(count, most):
            gone = f", {count.erased:,} erased" if count.erased else ""
            yield r, f"at most {most:,} records", f"{count.read:,} read, {count.unparsed:,} unparsed{gone}"


def _fits(count: PartitionCount, most: int) -> bool:
    if not 0 <= count.without_bytes <= count.unparsed or count.erased < 0:
        return False
    return count.unparsed + count.erased <= count.read <= most


def lost_of(manifest: Manifest, r: OffsetRange) -> int:
    """Counts offsets of the range that had expired, by the manifest."""
    return sum(
        max(0, min(r.until, loss.until) - max(r.start, loss.start))
        for loss in manifest.lost
        if (loss.topic, loss.partition) == (r.topic, r.partition)
    )
