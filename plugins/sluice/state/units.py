"""Which clusters a slice waits for: those of the pipeline file, each from where it begins; and which topics
a unit is of. Pure.

A cluster that was added later begins with its `start`, else where it was first asked for, and older slices
do not wait for it. One that was taken away is waited for nowhere. Whatever has landed stays a unit, also when
its cluster was taken away or begins later by now; and a topic that has landed stays part of its units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pendulum

from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import WrongUse
from sluice.manifest import Manifest, OffsetRange
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.model import Boundaries

NEVER = pendulum.datetime(9999, 1, 1)


@dataclass(frozen=True)
class ClusterSpans:
    """`begins` of the file's clusters, None where every slice counts; `known`: the first and last boundary of
    each cluster that has any."""

    begins: Mapping[str, datetime | None]
    known: Mapping[str, tuple[datetime, datetime]]

    def awaited(self, slice_: Slice) -> list[Unit]:
        """Returns the units without which the slice is not complete."""
        return [Unit(slice_, cluster) for cluster in self.begins if self._awaits(slice_, cluster)]

    def no_longer_awaited(self, slice_: Slice) -> list[Unit]:
        """Returns the units that may have landed, and that the slice no longer waits for."""
        return [
            Unit(slice_, cluster)
            for cluster, (begin, end) in self.known.items()
            if begin <= slice_.start and slice_.end <= end and not self._awaits(slice_, cluster)
        ]

    def _awaits(self, slice_: Slice, cluster: str) -> bool:
        begin = self.begins.get(cluster, NEVER)
        return begin is None or begin <= slice_.start


def spans(pipeline: Pipeline, boundaries: Boundaries) -> ClusterSpans:
    """With one cluster every slice counts, also those before the first boundary. Raises WrongUse: of
    slices of another length none has landed, and files of those that have would belong to nothing."""
    refuse_other_length(pipeline, boundaries)
    edges = {c: (boundaries.begin(c), boundaries.end(c)) for c in sorted(boundaries.clusters)}
    asked_since = {cluster: begin for cluster, (begin, _) in edges.items()}
    first = min((begin for begin in asked_since.values() if begin is not None), default=None)
    begins = {c.cluster: _begin(c, asked_since.get(c.cluster), first) for c in pipeline.kafka}
    return ClusterSpans(begins, {c: (begin, end) for c, (begin, end) in edges.items() if begin and end})


def refuse_other_length(pipeline: Pipeline, boundaries: Boundaries) -> None:
    if boundaries.length not in (None, pipeline.slice):
        asked, fixed = _length(pipeline.slice), _length(boundaries.length)
        raise WrongUse(
            f"pipeline {pipeline.name}: `slice` is {asked}, but its first boundary fixed the length "
            f"at {fixed}: put `slice: {fixed}` back, or make a new pipeline"
        )


def _length(length: timedelta) -> str:
    minutes = int(length.total_seconds()) // 60
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def _begin(cluster: Cluster, asked_since: datetime | None, first: datetime | None) -> datetime | None:
    if cluster.since is not None:
        return cluster.since
    if first is None or asked_since == first:
        return None
    return NEVER if asked_since is None else asked_since


def units_of(pipeline: Pipeline, slices: SliceRange, boundaries: Boundaries | None = None) -> list[Unit]:
    """Returns every unit of the range, slice by slice, and those that are no longer waited for and may have
    landed."""
    cluster_spans = spans(pipeline, boundaries or Boundaries())
    return [
        unit
        for slice_ in slices
        for unit in (*cluster_spans.awaited(slice_), *cluster_spans.no_longer_awaited(slice_))
    ]


def topics_of(
    pipeline: Pipeline, unit: Unit, manifest: Manifest | None, boundaries: Boundaries
) -> tuple[str, ...]:
    """Returns the topics of a unit: those that the pipeline file names, those that matched its patterns when
    the slice was resolved, and those that it has landed, whatever the file says now. Of what its cluster is
    no longer asked for nothing is named."""
    named = (
        slice_topics(pipeline.cluster(unit.cluster), unit.slice, boundaries) if awaits(pipeline, unit) else ()
    )
    return tuple(dict.fromkeys((*named, *(sorted(manifest.topics) if manifest else ()))))


def slice_topics(cluster: Cluster, slice_: Slice, boundaries: Boundaries) -> tuple[str, ...]:
    """Returns the topics that the file has the cluster's slice read: those that match a pattern are the ones
    that have the slice's boundaries."""
    if (patterns := cluster.patterns) is None:
        return cluster.named
    start, name = int(slice_.start.timestamp()), cluster.cluster
    matching = patterns.matching(boundaries.topics(name))
    return tuple(dict.fromkeys((*cluster.named, *(t for t in matching if boundaries.has(name, t, start)))))


def known_topics(cluster: Cluster, boundaries: Boundaries) -> tuple[str, ...]:
    """Returns the topics that the newest resolved slice of the cluster has: what is asked about a cluster
    now, is asked about these."""
    newest = boundaries.newest_listed(cluster.cluster)
    if newest is None or boundaries.length is None:
        return cluster.named
    return slice_topics(cluster, Slice(pendulum.from_timestamp(newest), boundaries.length), boundaries)


def all_topics(cluster: Cluster, boundaries: Boundaries) -> tuple[str, ...]:
    """Returns every topic that the file names or that some slice has by its patterns."""
    patterns = cluster.patterns
    matching = patterns.matching(boundaries.topics(cluster.cluster)) if patterns else ()
    return tuple(dict.fromkeys((*cluster.named, *matching)))


def unit_ranges(
    pipeline: Pipeline, unit: Unit, topics: Iterable[str], boundaries: Boundaries
) -> tuple[OffsetRange, ...] | None:
    """Returns what the unit reads of `topics`; None while the slice is not resolved. One of a cluster with
    patterns is resolved once it has been asked which topics match."""
    by_pattern = awaits(pipeline, unit) and pipeline.cluster(unit.cluster).patterns is not None
    if by_pattern and not boundaries.lists(unit.cluster, int(unit.slice.start.timestamp())):
        return None
    return boundaries.ranges(unit.slice, unit.cluster, topics)


def awaits(pipeline: Pipeline, unit: Unit) -> bool:
    """Returns whether the pipeline file asks the unit's cluster for its slice. What it does not ask for, and
    has landed, is loaded, verified and erased, and not read from Kafka any more."""
    return unit.cluster in pipeline.clusters and bool(begun(pipeline.cluster(unit.cluster), [unit.slice]))


def begun(cluster: Cluster, slices: Iterable[Slice]) -> list[Slice]:
    """Returns those of `slices` that may be asked of the cluster."""
    return [slice_ for slice_ in slices if cluster.since is None or cluster.since <= slice_.start]
