"""Record times that lie: in the future, hours out of order, and those of transactions' markers."""

from __future__ import annotations

import random

import pytest

from sluice.clients.lake.open import open_lake
from sluice.flow.resolve.resolve import resolve
from tests.faults.topic_story import Story
from tests.faults.topics import HOURS, START, Topic, hour
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults
ANY_TIME = 10**15


@pytest.fixture
def story(kafka_broker, clickhouse_server, name, tmp_path, monkeypatch) -> Story:
    topic = Topic(kafka_broker, name).make(message_timestamp_after_max_ms=ANY_TIME)
    return Story(topic, tmp_path, clickhouse_server, monkeypatch)


def test_a_record_from_the_future_does_not_empty_the_hours_after_it(story, fault_log):
    story.topic.send(1, at=0.5)
    story.topic.send(2, at=24 * 365, event=0.6)  # a clock that is a year ahead
    story.topic.send(3, at=0.7)
    story.topic.send(4, at=1.5)
    story.topic.send(5, at=24 * 400, event=2.5)
    story.topic.send(6, at=2.6)
    with fault_log.trial("fault", "a record from the future", victim="topic"):
        story.run(0, 1)
        story.topic.send(7, at=3.5)
        story.run(0, 3)
        story.expect({0: [1, 2, 3], 1: [4, 5], 2: [6], 3: [7]})
        assert story.states(0, 3) == ["complete"] * 4


@pytest.mark.long
def test_when_the_future_comes(story, fault_log):
    """A record is stamped three hours ahead. Hour by hour is resolved as its time comes near: no hour is
    emptied, and the one of its stamp is not either."""
    lake, pipeline = open_lake(story.pipeline), story.pipeline
    story.topic.send(1, at=0.5)
    story.topic.send(2, at=3.5, event=0.6)
    with fault_log.trial("fault", "the time comes for which a record was stamped", victim="topic"):
        for number in range(HOURS):
            story.topic.send(10 + number, at=number + 0.7)
            story.topic.send(20 + number, at=number + 0.8)
            late = START.add(hours=number + 1, minutes=2)
            assert resolve(pipeline, lake, [hour(number)], late).unreachable == {}
        story.run(0, HOURS - 1)
        own = {number: [10 + number, 20 + number] for number in range(HOURS)}
        story.expect({**own, 0: [1, 2, *own[0]]})


@pytest.mark.parametrize(
    "order", per_commit(["resolved backwards", "resolved one by one", "resolved at once"])
)
def test_records_out_of_order_by_hours(story, fault_log, order):
    """By the contract: a boundary is the first record stamped at or after it, and a late one is in a
    later slice. Whatever the order, every record is in exactly one hour."""
    chance = random.Random(7)
    stamps = [min(max(n / 10 + chance.uniform(-2, 2), 0), HOURS - 0.01) for n in range(10 * HOURS)]
    for n, at in enumerate(stamps):
        story.topic.send(n, at=at)
    edges = [next((n for n, at in enumerate(stamps) if at >= h), len(stamps)) for h in range(HOURS + 1)]
    with fault_log.trial("fault", f"records out of order by hours, {order}", victim="topic"):
        last = HOURS - 1
        if order == "resolved one by one":
            for number in range(HOURS):
                story.resolve(number, number)
        elif order == "resolved backwards":
            for number in reversed(range(HOURS)):
                story.resolve(number, number)
        story.run(0, last)
        story.expect({h: range(edges[h], edges[h + 1]) for h in range(HOURS)} | {0: range(edges[1])})
