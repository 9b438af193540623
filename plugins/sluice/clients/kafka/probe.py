"""Probes whether Kafka clusters can be read now; a run reports the errors of those that it skipped."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError


def probe_cluster(cluster: Cluster, topics_of: TopicsOf = open_topics) -> SluiceError | None:
    """Returns the error of the first topic that cannot be described; None when all of them answer."""
    try:
        with topics_of(cluster) as reader:
            for topic in cluster.topics:
                reader.describe(topic)
    except SluiceError as error:
        return error
    return None


def probe_clusters(
    pipeline: Pipeline, clusters: Iterable[str], topics_of: TopicsOf = open_topics
) -> dict[str, SluiceError | None]:
    """Probes several clusters side by side. Returns each one's error, or None, by name."""
    names = list(clusters)
    if not names:
        return {}
    with ThreadPoolExecutor(len(names)) as pool:
        errors = pool.map(lambda name: probe_cluster(pipeline.cluster(name), topics_of), names)
        return dict(zip(names, errors, strict=True))
