"""What Kafka still has of the offsets in which a person was found, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sluice.clients.kafka.topic_facts import TopicFacts, open_inquiry
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.slices import ms_text
from sluice.state.erasures.erasure_progress import FoundPlace, FoundUnit

_FOR_EVER_MS = 100 * 366 * 86_400_000


@dataclass(frozen=True)
class LeftInKafka:
    """Of one partition: whether some of the offsets `[first, last]` are there. `earliest`: before that the
    newest of them is not deleted by its age; `latest`: by then it is. Empty: not by age."""

    cluster: str
    topic: str
    partition: int
    first: int
    last: int
    holds: bool | None
    earliest: str = ""
    latest: str = ""
    why: str = ""


def places_of(found_units: Mapping[str, FoundUnit]) -> dict[str, list[FoundPlace]]:
    """Returns one place for each partition, by cluster."""
    joined: dict[tuple[str, str, int], FoundPlace] = {}
    for unit, found_unit in found_units.items():
        cluster = unit.split("/", 1)[1]
        for place in found_unit.places:
            key = (cluster, place.topic, place.partition)
            joined_place = joined.get(key, place)
            joined[key] = FoundPlace(
                place.topic,
                place.partition,
                min(joined_place.first, place.first),
                max(joined_place.last, place.last),
                max(joined_place.newest, place.newest),
            )
    places: dict[str, list[FoundPlace]] = {}
    for (cluster, *_), place in sorted(joined.items()):
        places.setdefault(cluster, []).append(place)
    return places


def left_in_kafka(pipeline: Pipeline, found_units: Mapping[str, FoundUnit]) -> list[LeftInKafka]:
    """Returns what each cluster still has; of one that does not answer, or that the pipeline file no longer
    has, the error."""
    answers: list[LeftInKafka] = []
    for cluster, places in places_of(found_units).items():
        try:
            facts = _facts(pipeline, cluster, {place.topic for place in places})
            answers += judged(cluster, places, facts)
        except SluiceError as error:
            answers += [
                LeftInKafka(cluster, p.topic, p.partition, p.first, p.last, None, why=str(error))
                for p in places
            ]
    return answers


def _facts(pipeline: Pipeline, cluster: str, topics: Iterable[str]) -> dict[str, TopicFacts]:
    with open_inquiry(pipeline.cluster(cluster)) as inquiry:
        return {topic: inquiry.facts(topic) for topic in sorted(topics)}


def judged(
    cluster: str, places: Iterable[FoundPlace], facts: Mapping[str, TopicFacts]
) -> Iterator[LeftInKafka]:
    """Yields whether each place is still in Kafka, and until when."""
    for place in places:
        topic = facts[place.topic]
        partition = topic.partitions.get(place.partition)
        bare = (cluster, place.topic, place.partition, place.first, place.last)
        if partition is None or partition.start > place.last:
            yield LeftInKafka(*bare, holds=False)
            continue
        kept, rolled = topic.number("retention.ms"), topic.number("segment.ms")
        if "delete" not in topic.settings.get("cleanup.policy", "delete"):
            yield LeftInKafka(
                *bare, True, why="the topic is compacted: a record stays until its key has another"
            )
        elif kept is None or not 0 <= kept < _FOR_EVER_MS:
            yield LeftInKafka(*bare, True, why="the topic keeps records for ever, or does not say how long")
        else:
            # A segment goes as a whole, by its newest record, and is closed after segment.ms at the latest.
            earliest, latest = place.newest + kept, place.newest + kept + (rolled or 0)
            yield LeftInKafka(*bare, True, ms_text(earliest), ms_text(latest) if rolled else "")
