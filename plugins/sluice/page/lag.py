"""How far a pipeline is behind Kafka, by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from sluice.errors import SluiceError
from sluice.kafka.inquiry import TopicsOf
from sluice.kafka.topics import TopicState, open_topics
from sluice.page.models import Lag, PartitionLag
from sluice.pipeline import Cluster, Pipeline
from sluice.slices import utc
from sluice.status import UnitStatus

Topics = Mapping[tuple[str, str], TopicState]


def ask_topics(pipeline: Pipeline, topics_of: TopicsOf = open_topics) -> tuple[Topics, list[str]]:
    """Every topic as Kafka describes it now, and a line for each cluster that did not answer."""
    with ThreadPoolExecutor(len(pipeline.kafka)) as pool:
        answers = list(pool.map(lambda cluster: _ask(cluster, topics_of), pipeline.kafka))
    topics = {name: state for found, _ in answers for name, state in found.items()}
    return topics, [error for _, error in answers if error]


def _ask(cluster: Cluster, topics_of: TopicsOf) -> tuple[Topics, str]:
    try:
        with topics_of(cluster) as reader:
            return {(cluster.cluster, topic): reader.describe(topic) for topic in cluster.topics}, ""
    except SluiceError as error:
        return {}, str(error)


def lag_of(found: Sequence[UnitStatus], topics: Topics, errors: list[str], now: datetime) -> Lag:
    """Against the newest landed slice in `found`. The rate is that of the landed slices, records a second;
    a partition in which nothing is landed counts from its log start."""
    landed = _landed(found)
    rows = []
    for (cluster, topic), state in sorted(topics.items()):
        for number, end in sorted(state.ends.items()):
            until, at, rate = landed.get((cluster, topic, number), (None, None, 0.0))
            begin = state.log_starts[number]
            rows.append(
                PartitionLag(
                    cluster=cluster,
                    topic=topic,
                    partition=number,
                    landed_until=until,
                    log_start=begin,
                    log_end=end,
                    records=max(0, end - max(begin, until or 0)),
                    seconds=None if at is None else int((now - at).total_seconds()),
                    rate=rate,
                )
            )
    return Lag(at=utc(now).isoformat(timespec="seconds"), partitions=rows, errors=errors)


def _landed(found: Iterable[UnitStatus]) -> dict[tuple[str, str, int], tuple[int, datetime, float]]:
    """By (cluster, topic, partition): the newest landed offset, its slice's end, and the rate so far."""
    first: dict[tuple[str, str, int], tuple[int, datetime]] = {}
    last: dict[tuple[str, str, int], tuple[int, datetime]] = {}
    for status in sorted((s for s in found if s.manifest), key=lambda s: s.unit):
        for r in status.manifest.ranges if status.manifest else ():
            name = (status.unit.cluster, r.topic, r.partition)
            first.setdefault(name, (r.start, status.unit.slice.start))
            last[name] = (r.until, status.unit.slice.end)
    return {name: (*end, _rate(first[name], end)) for name, end in last.items()}


def _rate(first: tuple[int, datetime], last: tuple[int, datetime]) -> float:
    return round((last[0] - first[0]) / (last[1] - first[1]).total_seconds(), 3)
