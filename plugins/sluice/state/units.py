"""Which clusters a slice waits for: those of the pipeline file, each from where it begins; and which topics
a unit is of. Pure.

A cluster that was added later begins with its `start`, else where it was first asked for, and older slices
do not wait for it. One that was taken away is waited for nowhere; what of it has landed stays a unit.
So it is with a topic: what has landed of it stays part of its units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pendulum

from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SliceLengthFixed
from sluice.manifest import Manifest
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.model import Boundaries

NEVER = pendulum.datetime(9999, 1, 1)


@dataclass(frozen=True)
class ClusterSpans:
    """`begins` of the file's clusters, None where every slice counts; `gone` the last known boundary of those
    that the file no longer has."""

    begins: Mapping[str, datetime | None]
    gone: Mapping[str, datetime]

    def awaited(self, slice_: Slice) -> list[Unit]:
        """Returns the units without which the slice is not complete."""
        return [Unit(slice_, c) for c, begin in self.begins.items() if begin is None or begin <= slice_.start]

    def gone_from(self, slice_: Slice) -> list[Unit]:
        """Returns the units of clusters taken away that may have landed."""
        return [Unit(slice_, cluster) for cluster, end in self.gone.items() if slice_.end <= end]


def spans(pipeline: Pipeline, boundaries: Boundaries) -> ClusterSpans:
    """With one cluster every slice counts, also those before the first boundary. Raises SliceLengthFixed: of
    slices of another length none has landed, and files of those that have would belong to nothing."""
    refuse_other_length(pipeline, boundaries)
    asked_since = {cluster: boundaries.begin(cluster) for cluster in boundaries.clusters}
    first = min((begin for begin in asked_since.values() if begin is not None), default=None)
    ends = {c: boundaries.end(c) for c in sorted(boundaries.clusters - set(pipeline.clusters))}
    return ClusterSpans(
        begins={c.cluster: _begin(c, asked_since.get(c.cluster), first) for c in pipeline.kafka},
        gone={cluster: end for cluster, end in ends.items() if end is not None},
    )


def refuse_other_length(pipeline: Pipeline, boundaries: Boundaries) -> None:
    if boundaries.length not in (None, pipeline.slice):
        raise SliceLengthFixed(pipeline.name, _length(boundaries.length), _length(pipeline.slice))


def _length(length: timedelta) -> str:
    minutes = int(length.total_seconds()) // 60
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def _begin(cluster: Cluster, asked_since: datetime | None, first: datetime | None) -> datetime | None:
    if cluster.start is not None:
        return cluster.start
    if first is None or asked_since == first:
        return None
    return NEVER if asked_since is None else asked_since


def units_of(pipeline: Pipeline, slices: SliceRange, boundaries: Boundaries | None = None) -> list[Unit]:
    """Returns every unit of the range, slice by slice, and those of clusters taken away that may have
    landed."""
    cluster_spans = spans(pipeline, boundaries or Boundaries())
    return [
        unit
        for slice_ in slices
        for unit in (*cluster_spans.awaited(slice_), *cluster_spans.gone_from(slice_))
    ]


def topics_of(pipeline: Pipeline, unit: Unit, manifest: Manifest | None) -> tuple[str, ...]:
    """Returns the topics of a unit: those that the pipeline file names, and those that it has landed,
    whatever the file says now. Of a cluster that was taken away nothing is named."""
    named = pipeline.cluster(unit.cluster).topics if unit.cluster in pipeline.clusters else ()
    return tuple(dict.fromkeys((*named, *(sorted(manifest.topics) if manifest else ()))))


def begun(cluster: Cluster, slices: Iterable[Slice]) -> list[Slice]:
    """Returns those of `slices` that may be asked of the cluster."""
    return [slice_ for slice_ in slices if cluster.start is None or cluster.start <= slice_.start]
