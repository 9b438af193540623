"""Asks every cluster of a pipeline for the boundaries that are missing, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from sluice.clients.kafka.reader import TopicReader, TopicsOf
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline
from sluice.errors import KafkaUnavailable, PartitionMissing, SluiceError, TopicRecreated
from sluice.flow.resolve.clamp import Answers, boundaries_to_store
from sluice.flow.resolve.lookup import FutureStamped, WaitingOffsets, ask
from sluice.slices import Slice
from sluice.state.boundaries.accept_command import accept_command
from sluice.state.boundaries.columns import TopicBoundaries
from sluice.state.boundaries.model import Boundaries
from sluice.state.units import begun

TopicName = tuple[str, str]
"""(cluster, topic)."""


class Inquiry:
    """What Kafka has said so far; it is asked again only for what another writer's entry made stale."""

    def __init__(
        self, pipeline: Pipeline, slices: Sequence[Slice], now: datetime, topics_of: TopicsOf
    ) -> None:
        self._pipeline = pipeline
        self._slices = slices
        self._now = now
        self._topics_of = topics_of
        self._said: dict[TopicName, Answers] = {}
        self.failed: dict[str, SluiceError] = {}
        self.future: list[FutureStamped] = []
        self.held: list[WaitingOffsets] = []

    def ask(self, state: Boundaries) -> None:
        """Asks all clusters that have something missing, side by side."""
        for name, answers in list(self._said.items()):
            if _contradiction(state, answers) is not None:
                del self._said[name]
        open_questions = {c.cluster: self._missing(state, c) for c in self._pipeline.kafka}
        clusters = [c for c in self._pipeline.kafka if open_questions[c.cluster]]
        if not clusters:
            return
        with ThreadPoolExecutor(len(clusters)) as pool:
            list(pool.map(lambda c: self._ask_cluster(c, open_questions[c.cluster], state), clusters))

    def blocks_to_store(self, state: Boundaries) -> tuple[TopicBoundaries, ...]:
        """Returns the next entry's blocks: what `state` lacks of all that Kafka said, clamped to it."""
        blocks = (boundaries_to_store(state.stored(*name), answers) for name, answers in self._said.items())
        return tuple(block for block in blocks if len(block.instants))

    def asked(self, state: Boundaries) -> dict[str, int]:
        """Returns by cluster that failed, while others answer, the first instant that was asked for (seconds
        since the epoch), where `state` does not know it yet: from there on hours wait for the cluster."""
        if self.failed.keys() == set(self._pipeline.clusters):
            return {}
        first_instants = {}
        for name in self.failed:
            first = min(slice_.start for slice_ in begun(self._pipeline.cluster(name), self._slices))
            begin = state.begin(name)
            if begin is None or first < begin:
                first_instants[name] = int(first.timestamp())
        return first_instants

    def _missing(self, state: Boundaries, cluster: Cluster) -> dict[str, list[int]]:
        if cluster.cluster in self.failed:
            return {}
        topics = [topic for topic in cluster.topics if (cluster.cluster, topic) not in self._said]
        slices, name = begun(cluster, self._slices), cluster.cluster
        known = state.instants(name)
        missing = {topic: state.missing(slices, name, topic) for topic in topics}
        instants = {
            topic: sorted({*at, *state.behind(name, topic, at, known)}) for topic, at in missing.items()
        }
        return {topic: at for topic, at in instants.items() if at}

    def _ask_cluster(self, cluster: Cluster, missing: Mapping[str, list[int]], state: Boundaries) -> None:
        try:
            with self._topics_of(cluster) as reader:
                for topic, instants in missing.items():
                    self._ask_topic(reader, cluster.cluster, topic, instants, state)
        except SluiceError as error:
            self.failed.setdefault(cluster.cluster, error)

    def _ask_topic(
        self, reader: TopicReader, cluster: str, topic: str, instants: Sequence[int], state: Boundaries
    ) -> None:
        try:
            topic_answers = ask(reader, cluster, topic, instants, state.stored(cluster, topic), self._now)
            contradiction = _contradiction(state, topic_answers.answers)
            if contradiction is not None:
                raise contradiction
        except KafkaUnavailable:
            raise
        except SluiceError as error:  # this topic's own trouble: the cluster's others go on
            if isinstance(error, TopicRecreated):
                error.accept = accept_command(self._pipeline, state, cluster, topic, self._now)
            self.failed.setdefault(cluster, error)
            return
        self._said[cluster, topic] = topic_answers.answers
        self.future += topic_answers.future
        self.held += topic_answers.held


def _contradiction(state: Boundaries, answers: Answers) -> SluiceError | None:
    """Returns why the answers cannot be stored after `state`; None where they can."""
    stored = state.stored(answers.cluster, answers.topic)
    if stored is None:
        return None
    if stored.uuid != answers.uuid:
        return TopicRecreated(answers.cluster, answers.topic, stored.uuid, answers.uuid)
    gone = stored.columns.keys() - answers.partitions.keys()
    return PartitionMissing(answers.cluster, answers.topic, min(gone)) if gone else None
