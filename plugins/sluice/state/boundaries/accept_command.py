"""The command that reads a recreated topic. Pure."""

from __future__ import annotations

from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.slices import floor, utc
from sluice.state.boundaries.model import Boundaries


def accept_command(
    pipeline: Pipeline, boundaries: Boundaries, cluster: str, topic: str, now: datetime
) -> str:
    """Returns the command that reads it from the end of what is resolved on."""
    end = boundaries.end(cluster) or now
    of_cluster = ["--cluster", cluster] if len(pipeline.clusters) > 1 else []
    since = f"{floor(utc(end), pipeline.slice):%Y-%m-%dT%H:%MZ}"
    return pipeline.command("accept", topic, *of_cluster, "--from", since)
