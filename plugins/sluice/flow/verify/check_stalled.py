"""Partitions that stand still while their siblings move. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.slices import SliceRange

_ADVICE = "inspect its leader, and what the partitioner of the producers sends there"


def check_stalled(facts: VerifyFacts) -> Iterator[Anomaly]:
    """Finds partitions without a record over the last `stalled_after` slices of the range, each of which
    brought records to every other partition of the topic. A partition that never had a record stands for a
    key that is not used: it counts only once it has moved."""
    pipeline = facts.pipeline
    if not pipeline.stalled_after:
        return
    length = pipeline.slice
    last = SliceRange(facts.slices.end - length * pipeline.stalled_after, facts.slices.end, length)
    for cluster in pipeline.clusters:
        for topic in pipeline.cluster(cluster).topics:
            for partition, at in _stalled(facts, last, cluster, topic):
                yield Anomaly(
                    AnomalyKind.STALLED,
                    expected="records, as in the topic's other partitions",
                    seen=f"none since {last.start:%Y-%m-%dT%H:%MZ}, {len(last)} slices",
                    advice=_ADVICE,
                    cluster=cluster,
                    topic=topic,
                    partition=partition,
                    offsets=(at, at),
                )


def _stalled(facts: VerifyFacts, last: SliceRange, cluster: str, topic: str) -> Iterator[tuple[int, int]]:
    """Yields (partition, offset where it stands)."""
    slice_ranges = [facts.boundaries.ranges(slice_, cluster, (topic,)) for slice_ in last]
    if not all(slice_ranges):
        return
    moved = [{r.partition: r.offsets for r in ranges or ()} for ranges in slice_ranges]
    begins = {r.partition: r.start for r in slice_ranges[0] or ()}
    still = {p for p in begins if begins[p] and not any(slice_.get(p) for slice_ in moved)}
    others = set().union(*moved) - still
    if others and all(slice_.get(p) for slice_ in moved for p in others):
        yield from sorted((p, begins[p]) for p in still)
