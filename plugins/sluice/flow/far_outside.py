"""Looks at a record of each topic that lies before its first boundary: where it is stamped decades ago,
who published it read its time in another unit."""

from __future__ import annotations

from itertools import islice

import pendulum

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.open import open_lake
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.infer.far_times import far_instants
from sluice.slices import to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.outside import outside


def far_outside(pipeline: Pipeline, topics_of: TopicsOf = open_topics) -> str:
    """Returns a line on the first such record; empty where there is none, or a cluster does not answer."""
    if pipeline.event.time.record:
        return ""
    boundaries = BoundaryLog(open_lake(pipeline)).read()
    for cluster in pipeline.kafka:
        try:
            if line := _of_cluster(pipeline, cluster, boundaries, topics_of):
                return line
        except SluiceError:  # the run has said what it has to say of the cluster
            continue
    return ""


def _of_cluster(pipeline: Pipeline, cluster: Cluster, boundaries: Boundaries, topics_of: TopicsOf) -> str:
    topics = [topic for topic in cluster.topics if outside(boundaries, cluster.cluster, topic)]
    if not topics:
        return ""
    now = to_ms(pendulum.now("UTC"))
    with topics_of(cluster) as reader:
        for topic in topics:
            log_starts = reader.describe(topic).log_starts
            for part in outside(boundaries, cluster.cluster, topic, log_starts)[:1]:
                records = reader.records(topic, part.partition, part.start, part.until)
                stamp = next((at for _, at in islice(records, 1)), -1)
                line = far_instants(pipeline.event.time, stamp, stamp, now) if stamp >= 0 else ""
                if line:
                    return f"records of {part.name} before the first boundary: {line}"
    return ""
