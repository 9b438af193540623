"""What Kafka holds of a topic below its first boundary: no slice has it, so it is counted here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.slices import floor, utc
from sluice.state.boundaries.model import Boundaries
from sluice.state.units import known_topics


@dataclass(frozen=True)
class Outside:
    """Offsets `[start, until)` of one partition before `instant`, the first that has a stored boundary."""

    cluster: str
    topic: str
    partition: int
    start: int
    until: int
    instant: pendulum.DateTime

    @property
    def offsets(self) -> int:
        return self.until - self.start

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.topic}/{self.partition}"


def outside(
    boundaries: Boundaries, cluster: str, topic: str, log_starts: Mapping[int, int] | None = None
) -> tuple[Outside, ...]:
    """Returns by partition the offsets from its log start to its first boundary, where there are any.

    Without `log_starts` it is what Kafka held when the first boundary was stored; it may have deleted some
    since. Of the topic id that stands now; nothing where no boundary is stored.
    """
    stored = boundaries.stored(cluster, topic)
    if stored is None or not len(stored.instants):
        return ()
    first = pendulum.from_timestamp(stored.instants[0])
    found = []
    for number, column in sorted(stored.columns.items()):
        start = column.log_starts[0] if log_starts is None else log_starts.get(number)
        if start is not None and start < column.offset(0):
            found.append(Outside(cluster, topic, number, start, column.offset(0), first))
    return tuple(found)


def outside_at_most(pipeline: Pipeline, boundaries: Boundaries) -> str:
    """Returns one line on all topics as they were when their first boundaries were stored; Kafka is not
    asked."""
    topics = [(c.cluster, topic) for c in pipeline.kafka for topic in known_topics(c, boundaries)]
    return outside_words((part for name in topics for part in outside(boundaries, *name)), at_most=True)


def outside_words(parts: Iterable[Outside], at_most: bool = False) -> str:
    """Returns one line for all partitions; empty where there is nothing outside."""
    listed = sorted(parts, key=lambda part: -part.offsets)
    if not listed:
        return ""
    first, total = listed[0], sum(part.offsets for part in listed)
    more = f", and {len(listed) - 1:,} more partitions" if len(listed) > 1 else ""
    return (
        f"{'at most ' if at_most else ''}{total:,} offsets that Kafka holds are outside of every slice: they "
        f"lie before the first boundary ({first.name} [{first.start}, {first.until}) before "
        f"{first.instant:%Y-%m-%dT%H:%MZ}{more}); a run from an earlier hour on reads them"
    )


# The command that reads a recreated topic.


def accept_command(
    pipeline: Pipeline, boundaries: Boundaries, cluster: str, topic: str, now: datetime
) -> str:
    """Returns the command that reads it from the end of what is resolved on."""
    end = boundaries.end(cluster) or now
    of_cluster = ["--cluster", cluster] if len(pipeline.clusters) > 1 else []
    since = f"{floor(utc(end), pipeline.slice):%Y-%m-%dT%H:%MZ}"
    return pipeline.command("accept", topic, *of_cluster, "--from", since)
