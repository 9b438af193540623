"""Which topic of the pipeline is meant."""

from __future__ import annotations

from sluice.errors import WrongUse
from sluice.pipeline import Cluster, Pipeline


def choose(pipeline: Pipeline, topic: str | None) -> tuple[Cluster, str]:
    """The pipeline's only topic, or the one that `topic` names: `bids`, or `dc1/bids`. Raises WrongUse."""
    every = [(cluster, name) for cluster in pipeline.kafka for name in cluster.topics]
    found = [
        (cluster, name)
        for cluster, name in every
        if topic is None or topic in (name, f"{cluster.cluster}/{name}")
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{cluster.cluster}/{name}" for cluster, name in found or every)
    what = "has more than one such topic" if found else "has no such topic"
    raise WrongUse(f"pipeline {pipeline.name} {what}: --topic chooses one of {known}")
