"""Whether a cluster can be read now, and if not why: what a run says of one that it did without."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError


def knock(cluster: Cluster, topics_of: TopicsOf = open_topics) -> SluiceError | None:
    """The error of the first topic that cannot be described; None when the cluster answers for all."""
    try:
        with topics_of(cluster) as reader:
            for topic in cluster.topics:
                reader.describe(topic)
    except SluiceError as error:
        return error
    return None


def knock_at(
    pipeline: Pipeline, clusters: Iterable[str], topics_of: TopicsOf = open_topics
) -> dict[str, SluiceError | None]:
    """As `knock`, of several clusters side by side."""
    names = list(clusters)
    if not names:
        return {}
    with ThreadPoolExecutor(len(names)) as pool:
        said = pool.map(lambda name: knock(pipeline.cluster(name), topics_of), names)
        return dict(zip(names, said, strict=True))
