"""`sluice accept`: a topic that was recreated."""

from __future__ import annotations

from typing import Annotated

import pendulum
import typer

from sluice.cli.options import Config, PipelineArgument, load_pipeline, read_instant
from sluice.cli.output import progress
from sluice.errors import WrongUse

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic that has a new id.")]
SinceOption = Annotated[
    str, typer.Option("--from", metavar="A", help="Slices from A on are of the new topic.")
]
OfCluster = Annotated[str | None, typer.Option("--cluster", help="Needed when several have the topic.")]


def accept(
    pipeline: PipelineArgument,
    topic: TopicArgument,
    since: SinceOption,
    cluster: OfCluster = None,
    config: Config = None,
) -> None:
    """Accepts a topic that was recreated: hours from A on are read from the new one.

    Hours before A stay as they are, and none from A on may have landed.
    Example: sluice accept adx bids --from 2026-11-20T10:00Z
    """
    from sluice.clients.lake.open import open_lake
    from sluice.flow.resolve.resolve import accept_topic
    from sluice.state.boundaries.retention import last_seen, left_behind

    spec = load_pipeline(pipeline, config)
    clusters = [c.cluster for c in spec.kafka if c.reads(topic) and cluster in (None, c.cluster)]
    if len(clusters) != 1:
        raise WrongUse(f"topic {topic!r} is read from {clusters or 'no cluster'}: name one with --cluster")
    now = pendulum.now("UTC")
    start = read_instant(since, now, spec.slice)
    boundaries = accept_topic(spec, open_lake(spec), clusters[0], topic, start, now)
    progress(f"{clusters[0]}/{topic}: slices from {start} on are read from the topic as it is now")
    for loss in left_behind(boundaries, clusters[0], topic):
        progress(
            f"{clusters[0]}/{topic}/{loss.partition}: offsets [{loss.start}, {loss.until}) of the old topic "
            "were in these slices, had not landed, and are lost"
        )
    last_boundary = last_seen(boundaries, clusters[0], topic)
    progress(
        f"what came into the old topic after its boundary at {last_boundary} is lost, and cannot be counted"
    )
