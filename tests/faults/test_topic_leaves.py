"""A topic leaves the pipeline file, and comes back: what has landed stays, what it got meanwhile is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from local.readiness import wait_until
from sluice.clients.lake.open import open_lake
from sluice.errors import RecordsExpired
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import AuditScope, audit
from sluice.state.survey import survey
from tests.faults.topic_story import Story
from tests.faults.topics import CLUSTER, SECONDS, Topic, hour, hours

pytestmark = pytest.mark.faults


class TwoTopics(Story):
    """A story whose cluster has a second topic, `other`, which the file may name or not."""

    def __init__(self, topic: Topic, other: Topic, *args) -> None:
        self.other = other
        super().__init__(topic, *args)

    def read(self, *topics: Topic, **changes) -> None:
        """Writes the pipeline file anew: it names these topics."""
        names = [topic.name for topic in topics]
        kafka = [{"cluster": CLUSTER, "topics": names, "bootstrap": self.topic.bootstrap}]
        self.write(kafka=kafka, **changes)

    def holds(self, places: Mapping[int, list[int]]) -> None:
        """The lake's visible files and the table hold exactly these numbers of these hours, each once."""
        self.holds_rows(places)
        assert sorted(self._files()) == sorted(
            (hour(h).id, n) for h, numbers in places.items() for n in numbers
        )

    def holds_rows(self, places: Mapping[int, list[int]]) -> None:
        """The table holds exactly these numbers of these hours, each once."""
        rows = f"SELECT toUnixTimestamp(_slice), n FROM {self.topic.name}.events"
        ids = {int(hour(h).start.timestamp()): hour(h).id for h in range(6)}
        wanted = sorted((hour(h).id, n) for h, numbers in places.items() for n in numbers)
        assert sorted((ids[at], n) for at, n in self.client.query(rows).result_rows) == wanted

    def numbers(self) -> list[int]:
        return [n for (n,) in self.client.query(f"SELECT n FROM {self.topic.name}.events").result_rows]

    def _files(self) -> list[tuple[str, int]]:
        root: Path = self.folder / "lake" / self.pipeline.name
        return [
            (path.name[:14], json.loads(row)["n"])
            for path in root.glob("type=*/**/*.parquet")
            for row in pq.read_table(path, partitioning=None)["_payload"].to_pylist()
        ]

    def anomalies(self) -> list[tuple[str, str, str]]:
        found = audit(self.pipeline, hours(0, 5), AuditScope(True, True)).anomalies
        return [(a.kind, a.slice, a.topic) for a in found if a.kind is not AnomalyKind.INCOMPLETE]

    def lacks(self, *numbers: int) -> list[str]:
        wanted = {hour(number) for number in numbers}
        return [status.lacks for status in survey(self.pipeline, hours(0, 5)) if status.unit.slice in wanted]


@pytest.fixture
def story(kafka_broker, clickhouse_server, name, tmp_path, monkeypatch) -> TwoTopics:
    topic, other = Topic(kafka_broker, name).make(), Topic(kafka_broker, f"{name}b").make()
    found = TwoTopics(topic, other, tmp_path, clickhouse_server, monkeypatch)
    topic.send(1, 2, at=0.5)
    other.send(3, 4, at=0.6)
    topic.send(5, at=1.5)
    other.send(6, at=1.6)
    found.read(topic, other)
    found.run(0, 1)
    return found


@pytest.mark.long
def test_what_has_landed_of_a_topic_that_left_stays(story: TwoTopics, fault_log):
    everything = {0: [1, 2, 3, 4], 1: [5, 6], 2: [7]}
    story.topic.send(7, at=2.5)
    story.other.send(8, at=2.6)
    with fault_log.trial("fault", "a topic leaves the pipeline file", victim="topic"):
        story.read(story.topic)
        story.run(0, 2)
        assert (story.states(0, 2), story.anomalies()) == (["complete"] * 3, [])
        story.run(0, 1, "reland")
        story.holds(everything)

        story.other.admin.delete_topics([story.other.name])[story.other.name].result(30)
        gone = lambda: story.other.name not in story.other.admin.list_topics(timeout=10).topics  # noqa: E731
        wait_until(gone, "the deletion", SECONDS)
        story.run(0, 2)
        lake = {item.key: item.size for item in open_lake(story.pipeline).list("_slices/")}
        with pytest.raises(RecordsExpired, match=r"2 offsets .*b/0 \(the topic is gone\).*--mode remake"):
            story.land(0, 1, "reland", token="again")
        assert {item.key: item.size for item in open_lake(story.pipeline).list("_slices/")} == lake
        story.run(0, 2, "remake")
        story.run(0, 2, "reload")
        story.holds(everything)
        assert story.anomalies() == []


@pytest.mark.long
def test_a_topic_that_comes_back_is_missed_until_it_is_brought(story: TwoTopics, fault_log):
    story.read(story.topic)
    story.topic.send(7, at=2.5)
    story.other.send(8, 9, at=2.6)
    story.topic.send(10, at=3.5)
    story.run(2, 2)
    story.run(3, 3)
    story.topic.send(11, at=4.5)
    story.other.send(12, at=4.6)
    with fault_log.trial("fault", "a topic comes back to the pipeline file", victim="topic"):
        story.read(story.topic, story.other)
        story.run(4, 4)
        without = {0: [1, 2, 3, 4], 1: [5, 6], 2: [7], 3: [10], 4: [11, 12]}
        story.holds(without)
        assert story.lacks(1, 2, 3, 4) == ["", f"lacks topic {story.other.name} (2 offsets)", "", ""]
        assert story.anomalies() == [("lacking topic", hour(2).id, story.other.name)]
        story.run(0, 4)  # the hour is exact but for that: it holds nothing up
        story.run(2, 2, "reland")
        story.holds({**without, 2: [7, 8, 9]})
        assert story.anomalies() == []


@pytest.mark.long
def test_a_topic_of_the_same_name_is_not_the_one_that_left(story: TwoTopics, fault_log):
    story.read(story.topic)
    with fault_log.trial("fault", "a topic leaves the file, and is recreated", victim="topic"):
        story.other.make_again()
        story.other.send(13, 14, at=0.6)
        with pytest.raises(RecordsExpired, match="the topic is gone"):
            story.land(0, 0, "reland", token="again")
        story.run(0, 1)
        story.holds({0: [1, 2, 3, 4], 1: [5, 6]})
