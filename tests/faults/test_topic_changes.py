"""A topic is recreated, or gets partitions: what was read stays, what is new comes once."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli.accept import accept as command
from sluice.clients.lake.open import open_lake
from sluice.errors import RecordsExpired, TopicRecreated, WrongUse
from tests.faults.topic_story import PlainEngine, Story
from tests.faults.topics import START, Topic

pytestmark = pytest.mark.faults


@pytest.fixture
def story(kafka_broker, clickhouse_server, name, tmp_path, monkeypatch) -> Story:
    return Story(Topic(kafka_broker, name).make(), tmp_path, clickhouse_server, monkeypatch)


def refused(story: Story, since: int) -> WrongUse:
    with pytest.raises(WrongUse) as raised:
        command(story.path.stem, story.topic.name, START.add(hours=since).isoformat(), config=story.path)
    return raised.value


def paste(printed: str) -> subprocess.CompletedProcess:
    """Runs the `sluice accept` of a message as it stands there."""
    [command] = re.findall(r"`sluice (accept [^`]+)`", printed)
    words = [Path(sys.executable).parent / "sluice", *shlex.split(command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_deleted_and_made_again(story, fault_log):
    """Hours 0 and 1 are of the old topic; hour 2 was being filled when it was deleted."""
    topic = story.topic
    topic.send(1, 2, at=0.5)
    topic.send(3, at=1.5)
    story.run(0, 1)
    topic.send(4, at=2.1)  # goes with the old topic
    topic.make_again()
    topic.send(5, 6, at=1.9)  # the new topic brings old records, too
    topic.send(7, at=2.5)
    topic.send(8, at=3.5)
    with fault_log.trial("fault", "recreated before the hour is resolved", victim="topic"):
        with pytest.raises(TopicRecreated, match="sluice accept ") as recreated:
            story.resolve(2, 3)
        story.expect({0: [1, 2], 1: [3]})

        assert "has landed" in str(refused(story, 1))
        done = paste(str(recreated.value))
        assert done.returncode == 0, done.stderr
        assert "is lost" in done.stderr + done.stdout
        assert "was not recreated" in str(refused(story, 2))

        story.run(0, 3)
        everything = {0: [1, 2], 1: [3], 2: [5, 6, 7], 3: [8]}
        story.expect(everything)
        assert story.states(0, 3) == ["complete"] * 4
        with pytest.raises(RecordsExpired, match="--mode reload"):
            story.land(0, 3, "reland", token="again")
        story.land(2, 3, "reland", token="again")
        story.run(0, 3, "reload")
        story.expect(everything)


@pytest.mark.long
def test_made_again_between_resolve_and_land(story, fault_log):
    """The new topic has records at the very offsets that the hour was resolved to."""
    story.topic.send(1, 2, 3, at=0.5)
    story.resolve(0, 1)
    story.topic.make_again()
    story.topic.send(4, 5, 6, at=0.5)
    with fault_log.trial("fault", "recreated between resolve and land", victim="topic"):
        with pytest.raises(TopicRecreated):
            story.land(0, 1)
        expect_nothing(story)
        command(story.path.stem, story.topic.name, START.add(hours=1).isoformat(), config=story.path)
        with pytest.raises(RecordsExpired, match=r"slice \S+: Kafka no longer has 3 offsets \[0, 3\)"):
            story.land(0, 0)
        story.write(on_expired="land_rest")
        story.run(0, 1)
        story.expect({1: [4, 5, 6]})
        assert story.states(0, 1) == ["complete with loss", "complete"]
        assert story.lost(0) == [(0, 0, 3, True)]


def test_made_again_while_it_is_read(story, fault_log):
    """The reader gets the new topic's records for the old one's offsets, and notices nothing."""

    class Engine(PlainEngine):
        def land(self, reads):
            story.topic.make_again()
            story.topic.send(4, 5, 6, at=0.5)
            return super().land(reads)

    story.topic.send(1, 2, 3, at=0.5)
    story.resolve(0, 0)
    with fault_log.trial("fault", "recreated while it is read", victim="topic"):
        with pytest.raises(TopicRecreated):
            story.land(0, 0, engine=Engine(story.pipeline))
        expect_nothing(story)


def expect_nothing(story: Story) -> None:
    """Neither manifest nor file: nothing was committed, and no attempt is left over."""
    keys = [item.key for item in open_lake(story.pipeline).list("")]
    assert [
        key
        for key in keys
        if not key.startswith(("_boundaries/", "_runs/", "_timings/", "_history/", "_rules/"))
    ] == []


def test_partitions_are_added_in_the_middle_of_an_hour(story, fault_log):
    story.topic.send(1, at=0.2)
    story.topic.send(2, at=1.2)
    story.run(0, 0)
    with fault_log.trial("fault", "partitions are added in the middle of an hour", victim="topic"):
        story.topic.widen(3)
        story.topic.send(3, at=1.6, partition=1)
        story.topic.send(4, at=1.7)
        story.topic.send(5, at=2.1, partition=1)
        story.topic.send(6, 7, at=2.5, partition=2)
        story.run(0, 2)
        story.expect({0: [1], 1: [2, 3, 4], 2: [5, 6, 7]})
        assert story.states(0, 2) == ["complete"] * 3


@pytest.mark.long
def test_a_partition_appears_after_its_boundary_with_old_records(story, fault_log):
    """Hours 0 … 2 have landed without it: what it has of them is late, and comes with hour 3. Hours that
    are resolved afterwards, before and after, do not bring it a second time."""
    story.topic.send(1, at=1.2)
    story.topic.send(2, at=2.2)
    story.run(1, 2)
    with fault_log.trial("fault", "a partition appears after its boundary", victim="topic"):
        story.topic.widen(2)
        story.topic.send(3, at=0.5, partition=1)
        story.topic.send(4, at=1.5, partition=1)
        story.topic.send(5, at=2.5, partition=1)
        story.topic.send(6, at=3.5, partition=1)
        story.topic.send(7, at=4.5, partition=1)
        story.run(0, 4)
        story.expect({0: [], 1: [1], 2: [2], 3: [3, 4, 5, 6], 4: [7]})
        story.run(0, 4, "reland")
        story.expect({0: [], 1: [1], 2: [2], 3: [3, 4, 5, 6], 4: [7]})


@pytest.mark.long
def test_a_new_partition_that_has_lost_records_already(story, fault_log):
    story.topic.send(1, at=0.2)
    story.run(0, 0)
    with fault_log.trial("fault", "a new partition has expired in part", victim="topic"):
        story.topic.widen(2)
        story.topic.send(2, 3, 4, at=1.2, partition=1)
        story.topic.expire(2, partition=1)
        with pytest.raises(RecordsExpired, match=r"at most 2 offsets \[0, 2\) of dc1/\w+/1"):
            story.run(0, 1)
        story.write(on_expired="land_rest")
        story.run(0, 1)
        story.expect({0: [1], 1: [4]})
        assert story.lost(1) == [(1, 0, 2, False)]
