"""Kafka has dropped records: what is lost is named to the offset, and what the lake has is never touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluice.errors import Conservation, RecordsExpired
from tests.faults.topic_story import Story
from tests.faults.topics import Topic
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

NUMBERS = range(12)
"""Record n is stamped in hour n // 3, so that offsets 0 … 2 are hour 0, 3 … 5 hour 1, and so on."""


@pytest.fixture
def story(kafka_broker, clickhouse_server, name, tmp_path, monkeypatch) -> Story:
    topic = Topic(kafka_broker, name).make()
    for n in NUMBERS:
        topic.send(n, at=n / 3 + 0.1)
    return Story(topic, tmp_path, clickhouse_server, monkeypatch)


def refused(step: Callable[[], object]) -> RecordsExpired:
    with pytest.raises(RecordsExpired) as raised:
        step()
    return raised.value


def range_of(error: RecordsExpired) -> tuple[int, int, bool]:
    assert (error.cluster, error.partition) == ("dc1", 0)
    return error.lost_from, error.lost_until, error.exact


def test_before_the_hour_was_resolved(story, fault_log):
    """Nobody knows to which hours 4 lost offsets belonged: hour 0 and 1 may have them."""
    story.topic.expire(4)
    with fault_log.trial("fault", "records expire before the hour is resolved", victim="topic"):
        story.resolve(0, 3)
        error = refused(lambda: story.land(0, 3))
        assert range_of(error) == (0, 4, False)
        assert "at most 4 offsets [0, 4)" in str(error) and "on_expired: land_rest" in str(error)
        story.load(0, 3)
        assert story.states(0, 3) == ["expired", "expired", "complete", "complete"]
        story.expect({2: [6, 7, 8], 3: [9, 10, 11]})
        with pytest.raises(Conservation, match=r"loss: slice .*\[0, 4\).*loss: slice .*\[0, 4\)"):
            story.verify(0, 3)
        story.write(on_expired="land_rest")
        story.run(0, 3)
        assert story.states(0, 3) == ["complete with loss"] * 2 + ["complete"] * 2
        assert story.lost(0) == story.lost(1) == [(0, 0, 4, False)]
        story.expect({1: [4, 5], 2: [6, 7, 8], 3: [9, 10, 11]})


@pytest.mark.long
def test_between_two_hours(story, fault_log):
    """Hour 0 is in the lake; then the log start moves into hour 2, and hour 1 … 3 are resolved."""
    story.run(0, 0)
    story.topic.expire(7)
    with fault_log.trial("fault", "records expire between two hours", victim="topic"):
        story.resolve(1, 3)
        assert range_of(refused(lambda: story.land(0, 3))) == (3, 7, True)
        story.load(0, 3)
        assert story.states(0, 3)[0] == story.states(0, 3)[3] == "complete"
        story.write(on_expired="land_rest")
        story.run(0, 3)
        assert story.states(0, 3) == ["complete", *["complete with loss"] * 2, "complete"]
        assert [story.lost(h) for h in range(4)] == [[], [(0, 3, 7, True)], [(0, 3, 7, False)], []]
        story.expect({0: [0, 1, 2], 2: [7, 8], 3: [9, 10, 11]})


@pytest.mark.parametrize("policy", per_commit(["land_rest", "fail"]))
def test_between_resolve_and_land(story, fault_log, policy):
    story.write(on_expired=policy)
    story.resolve(0, 3)
    story.topic.expire(5)
    with fault_log.trial("fault", f"records expire between resolve and land ({policy})", victim="topic"):
        rest = {2: [6, 7, 8], 3: [9, 10, 11]}
        if policy == "fail":
            assert range_of(refused(lambda: story.land(0, 3))) == (0, 3, True)
            assert range_of(refused(lambda: story.land(1, 1))) == (3, 5, True)
            story.load(0, 3)
            story.expect(rest)
            return
        story.run(0, 3)
        assert [story.lost(h) for h in range(4)] == [[(0, 0, 3, True)], [(0, 3, 5, True)], [], []]
        assert story.states(0, 3) == ["complete with loss"] * 2 + ["complete"] * 2
        story.expect({1: [5], **rest})


@pytest.mark.long
def test_an_hour_of_which_nothing_is_left(story, fault_log):
    """The whole log has expired: an hour without records is not called complete, nor empty."""
    story.run(0, 1)
    story.topic.expire(12)
    with fault_log.trial("fault", "all records expire", victim="topic"):
        story.resolve(2, 5)
        assert range_of(refused(lambda: story.land(2, 2))) == (6, 12, True)
        assert range_of(refused(lambda: story.land(3, 3))) == (6, 12, False)
        assert "complete" not in story.states(2, 3)
        story.expect({0: [0, 1, 2], 1: [3, 4, 5]})


@pytest.mark.parametrize("policy", per_commit(["fail", "land_rest"]))
def test_what_the_lake_has_is_not_lost(story, fault_log, policy):
    """`reland` is refused as soon as one old offset is gone; `reload` needs no Kafka at all."""
    everything = {h: range(3 * h, 3 * h + 3) for h in range(4)}
    story.write(on_expired=policy)
    story.run(0, 3)
    story.run(0, 3, "reland")
    story.topic.expire(1)
    with fault_log.trial("fault", f"records expire after the hour landed ({policy})", victim="topic"):
        error = refused(lambda: story.land(0, 3, "reland", token="again"))
        assert range_of(error) == (0, 1, True)
        assert "--mode reload" in str(error)
        story.expect(everything)
        story.land(1, 3, "reland", token="again")
        story.load(1, 3)
        story.topic.expire(12)
        story.write(bootstrap="127.0.0.1:1", on_expired=policy)
        story.client.command(f"TRUNCATE TABLE {story.topic.name}.events")
        story.expect(everything, table=False)
        story.run(0, 3, "reload")
        assert story.states(0, 3) == ["complete"] * 4
        story.expect(everything)
