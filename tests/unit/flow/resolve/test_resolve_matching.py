"""Slices of topics that match a pattern: which topics they have, and where a topic begins."""

from __future__ import annotations

import pytest

from sluice.errors import NoTopicMatches, TopicRecreated
from sluice.flow.resolve.matching import MOST_NAMES
from sluice.state.boundaries.log import BoundaryLog, decode_checkpoint, encode_checkpoint
from sluice.state.units import all_topics, known_topics, slice_topics
from tests.support.fakes import FakeTopic
from tests.unit.flow.resolve.test_resolve_cases import NOON, TEN, World, ms, pipeline_of, slice_at


def world(*topics: str, pattern: str = "orders.*") -> World:
    it = World(FakeTopic("b", {0: []}), pipeline=pipeline_of(dc1=[pattern]))
    for topic in topics:
        it.kafka.topics["dc1", topic] = FakeTopic(topic, {0: [ms(10, 30), ms(11, 30)]})
    return it


def ranges(it: World, hour: int) -> dict[str, tuple[int, int]]:
    """Returns by topic the offsets of a slice, of partition 0."""
    boundaries, [cluster] = BoundaryLog(it.lake).read(), it.pipeline.kafka
    topics = slice_topics(cluster, slice_at(hour), boundaries)
    found = boundaries.ranges(slice_at(hour), "dc1", topics) or ()
    return {r.topic: (r.start, r.until) for r in found}


def test_a_slice_has_the_topics_that_match_when_it_is_resolved():
    it = world("orders.a", "orders.b", "orders")
    it.resolved(10)
    it.kafka.topics["dc1", "orders.c"] = FakeTopic("c", {0: [ms(10, 45), ms(11, 10)]})
    resolution = it.resolved(10, 11)
    assert ranges(it, 10) == {"orders.a": (0, 1), "orders.b": (0, 1)}
    # What came with times of the slice before is not left out.
    assert ranges(it, 11) == {"orders.a": (1, 2), "orders.b": (1, 2), "orders.c": (0, 2)}
    assert list(map(str, resolution.changes)) == [
        "dc1: new topics that match: orders.c; slices from 2026-11-20T11:00Z on have them"
    ]


def test_who_resolves_again_asks_kafka_nothing():
    it = world("orders.a")
    it.resolved(10)
    it.kafka.silent.add("dc1")
    assert it.resolved(10).stored == 0


def test_a_topic_that_comes_back_goes_on_where_it_was():
    it = world("orders.a", "orders.b")
    it.resolved(10)
    away = it.kafka.topics.pop(("dc1", "orders.b"))
    gone = it.resolved(11).changes
    assert list(map(str, gone)) == [
        "dc1: topics that are gone: orders.b; slices from 2026-11-20T11:00Z on are without them, and what "
        "came into them after their last boundary is lost"
    ]
    away.records[0][1:] = [ms(10, 50), ms(11, 50), ms(12, 5)]  # the first of them came late
    it.kafka.topics["dc1", "orders.b"] = away
    it.now = NOON.add(hours=1)
    it.resolved(12)
    assert (ranges(it, 11), ranges(it, 12)) == (
        {"orders.a": (1, 2), "orders.b": (1, 1)},  # nothing, as when it was resolved
        {"orders.a": (2, 2), "orders.b": (1, 4)},
    )


def test_another_topic_of_the_name_begins_at_its_log_start_behind_the_slices_without_it():
    it = world("orders.a", "orders.b")
    it.resolved(10)
    del it.kafka.topics["dc1", "orders.b"]
    it.resolved(11)
    it.kafka.topics["dc1", "orders.b"] = FakeTopic("again", {0: [ms(9), ms(12, 5)]})
    it.now = NOON.add(hours=1)
    it.resolved(12)
    assert (ranges(it, 10)["orders.b"], ranges(it, 12)["orders.b"]) == ((0, 1), (0, 2))


def test_another_topic_of_the_name_that_no_slice_has_missed_is_refused():
    it = world("orders.a", "orders.b")
    it.resolved(10)
    it.kafka.topics["dc1", "orders.b"] = FakeTopic("again", {0: [ms(11, 5)]})
    error = it.resolve(11).unreachable["dc1"]
    assert isinstance(error, TopicRecreated) and error.accept.endswith("--from 2026-11-20T11:00Z")


def test_hours_before_the_topic_was_there_have_nothing_of_it():
    it = world("orders.a")
    it.resolved(11)
    it.kafka.topics["dc1", "orders.c"] = FakeTopic("c", {0: [ms(10, 45), ms(11, 10)]})
    it.now = NOON.add(hours=1)
    it.resolved(12)
    it.resolved(10)  # a range from before
    assert [ranges(it, hour).get("orders.c") for hour in (10, 11, 12)] == [(0, 1), (1, 1), (1, 2)]


def test_a_topic_that_is_excluded_no_more_is_as_one_that_is_named():
    it = world("orders.a", "orders.b")
    [cluster] = it.pipeline.kafka
    excluded = it.pipeline.model_copy(
        update={"kafka": [cluster.model_copy(update={"exclude": ["orders.b"]})]}
    )
    whole, it.pipeline = it.pipeline, excluded
    it.resolved(10)
    assert ranges(it, 10) == {"orders.a": (0, 1)}
    it.pipeline = whole
    it.resolved(11)
    assert (ranges(it, 10), ranges(it, 11)["orders.b"]) == ({"orders.a": (0, 1)}, (1, 2))
    it.resolved(10)  # who asks for the hour again has what it lacks
    assert ranges(it, 10)["orders.b"] == (0, 1)


def test_nothing_matches():
    it = world("clicks")
    error = it.resolve(10).unreachable["dc1"]
    assert isinstance(error, NoTopicMatches)
    assert str(error) == (
        "Kafka cluster 'dc1' shows no topic that matches orders.*: create one, grant the right to describe "
        "it, or correct `topics` in the pipeline file"
    )


def test_a_topic_that_goes_while_it_is_asked_for_is_in_no_slice():
    it = world("orders.a", "orders.b")
    it.kafka.during = lambda: it.kafka.topics.pop(("dc1", "orders.b"), None)
    it.resolved(10)
    assert ranges(it, 10) == {"orders.a": (0, 1)}


def test_a_slice_is_whole_once_each_of_its_topics_has_answered():
    it = world("orders.a", "orders.b")
    it.resolved(10)
    it.kafka.topics["dc1", "orders.b"] = FakeTopic("again", {0: []})
    it.resolve(11)
    boundaries = BoundaryLog(it.lake).read()
    assert [boundaries.lists("dc1", int(slice_at(hour).start.timestamp())) for hour in (10, 11)] == [
        True,
        False,
    ]


def test_what_another_writer_has_listed_meanwhile_stands():
    it, other = world("orders.a"), world("orders.a")
    other.lake = it.lake
    it.kafka.topics["dc1", "orders.b"] = FakeTopic("orders.b", {0: [ms(10, 20)]})
    raced: list[object] = []

    def race() -> None:
        if not raced:
            raced.append(None)
            other.resolved(10)

    it.kafka.during = race
    it.resolved(10)
    assert ranges(it, 10) == {"orders.a": (0, 1)}
    it.resolved(11)
    assert ranges(it, 11) == {"orders.a": (1, 2), "orders.b": (0, 1)}


def test_what_is_known_of_the_newest_slice_and_of_all():
    it = world("orders.a", "orders.b")
    it.resolved(10)
    del it.kafka.topics["dc1", "orders.b"]
    it.resolved(11)
    boundaries, [cluster] = BoundaryLog(it.lake).read(), it.pipeline.kafka
    assert known_topics(cluster, boundaries) == ("orders.a",)
    assert all_topics(cluster, boundaries) == ("orders.a", "orders.b")
    stored = encode_checkpoint(boundaries, boundaries.length, "w", TEN)
    assert decode_checkpoint(stored, "here") == boundaries


def test_few_of_many_names_are_said():
    it = world("orders.a")
    it.resolved(10)
    for number in range(MOST_NAMES + 5):
        it.kafka.topics["dc1", f"orders.{number:03}"] = FakeTopic(f"{number}", {0: []})
    [change] = it.resolved(11).changes
    assert str(change).count("orders.") == MOST_NAMES and "and 5 more" in str(change)


@pytest.mark.parametrize("pattern", ["*", "^.*"])
def test_kafkas_own_topics_match_nothing(pattern: str):
    it = world("orders.a", "__consumer_offsets", pattern=pattern)
    it.resolved(10)
    assert ranges(it, 10).keys() == {"orders.a", "bids"}
